# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import time
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import NoSystemdError, UnitError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import unit as units

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "unit"
TABLE = json.loads((FIXTURES / "show.json").read_text(encoding="utf-8"))


@pytest.fixture
def systemctl(tmp_path: pathlib.Path) -> t.Callable[[str], str]:
    """Make a systemctl of a shell script; it notes its arguments in the file calls."""

    def make(script: str) -> str:
        path = tmp_path / "systemctl"
        path.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_parse_show(case: dict[str, t.Any]) -> None:
    unit = units.parse_show(case["show"], "nvidia-imex.service", TABLE["now"], TABLE["monotonic"])
    found = {key: list(value) if isinstance(value, tuple) else value for key, value in unit._asdict().items()}
    assert {key: found[key] for key in case["fields"]} == case["fields"]
    assert {key: getattr(unit, key) for key in case["properties"]} == case["properties"]


def test_read_unit_asks_once(systemctl: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "show").write_text(TABLE["cases"][0]["show"])
    unit = units.read_unit("nvidia-imex", systemctl(f"cat {tmp_path}/show"))
    assert unit.running
    assert unit.started_at is not None
    assert unit.started_at - (unit.activating_at or 0) == pytest.approx(5)
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("show ")
    assert call.endswith(" nvidia-imex.service")


def test_read_unit_where_there_is_no_systemctl() -> None:
    with pytest.raises(NoSystemdError, match="no-such-systemctl was not found: this host is not run by systemd"):
        units.read_unit("nvidia-imex", "no-such-systemctl")


def test_read_unit_where_systemd_is_not_pid_1(systemctl: t.Callable[[str], str]) -> None:
    command = systemctl("echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1")
    with pytest.raises(NoSystemdError, match=r"exit status 1: System has not been booted with systemd"):
        units.read_unit("nvidia-imex", command)


def test_read_unit_where_systemd_does_not_answer(systemctl: t.Callable[[str], str]) -> None:
    with pytest.raises(UnitError, match=r"did not end within 0.3 s and was killed"):
        units.read_unit("nvidia-imex", systemctl("exec sleep 600"), 0.3)


def test_read_unit_where_the_answer_is_none(systemctl: t.Callable[[str], str]) -> None:
    with pytest.raises(UnitError, match="did not say its LoadState, it printed: 'rubbish'"):
        units.read_unit("nvidia-imex", systemctl("echo rubbish"))


@pytest.mark.parametrize(
    "service, name",
    [("nvidia-imex", "nvidia-imex.service"), ("nvidia-imex.service", "nvidia-imex.service"), ("a.b", "a.b.service")],
)
def test_unit_name(service: str, name: str) -> None:
    assert units.unit_name(service) == name


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("infinity", None),
        ("", None),
        ("90s", 90.0),
        ("1min 30s", 90.0),
        ("1h 2min 3.500000s", 3723.5),
        ("500ms", 0.5),
        ("2d", 172800.0),
        ("some time", None),
    ],
)
def test_parse_span(text: str, seconds: float | None) -> None:
    assert units.parse_span(text) == seconds


@pytest.mark.parametrize(
    "text, moment",
    [
        ("Wed 2026-07-01 12:00:00 UTC", 1782907200.0),
        ("Wed 2026-07-01 12:00:00.250000 UTC", 1782907200.0),
        ("@1782907200", 1782907200.0),
        ("@1782907200.5", 1782907200.5),
        ("Wed 2026-07-01 12:00:00 XYZ", None),
        ("n/a", None),
        ("", None),
    ],
)
def test_parse_timestamp(text: str, moment: float | None) -> None:
    assert units.parse_timestamp(text) == moment


def test_parse_timestamp_in_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert units.parse_timestamp("Wed 2026-07-01 14:00:00 CEST") == 1782907200.0
        assert units.parse_timestamp("Thu 2026-01-01 01:00:00 CET") == 1767225600.0
        # An hour that comes twice a year is told apart by its name.
        assert units.parse_timestamp("Sun 2026-10-25 02:30:00 CEST") == 1792888200.0
        assert units.parse_timestamp("Sun 2026-10-25 02:30:00 CET") == 1792891800.0
    finally:
        monkeypatch.undo()
        time.tzset()
