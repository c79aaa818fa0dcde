# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import stat
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FileError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import daemon
from ansible_collections.hpc.fabric.plugins.module_utils.imex.node_map import digest
from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import Unit

NODES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OTHER = ("10.0.0.1", "10.0.0.3", "10.0.0.2")
RECORD = daemon.StartRecord("id-1", 1000.5, NODES, (("SERVER_PORT", "50000"), ("LOG_LEVEL", "4")), "started", "run-7")
RUNNING = Unit("nvidia-imex.service", "loaded", "active", invocation_id="id-1", started_at=1000.0, activating_at=995.0)
STARTING = RUNNING._replace(active_state="activating", sub_state="start", started_at=None)
STOPPED = RUNNING._replace(active_state="inactive")


def test_a_record_survives(tmp_path: pathlib.Path) -> None:
    run_dir = tmp_path / "run" / "hpc-fabric"
    daemon.write_record(str(run_dir), "nvidia-imex", RECORD)
    assert daemon.read_record(str(run_dir), "nvidia-imex") == RECORD
    path = run_dir / "imex-start-nvidia-imex.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert daemon.read_record(str(run_dir), "another") is None
    daemon.write_record(str(run_dir), "nvidia-imex", RECORD._replace(origin="adopted"))
    assert [entry.name for entry in run_dir.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        json.dumps(RECORD._asdict())[:-20],
        json.dumps(dict(RECORD._asdict(), invocation_id="")),
        json.dumps(dict(RECORD._asdict(), invocation_id=None)),
        json.dumps(dict(RECORD._asdict(), started_at="soon")),
        json.dumps(dict(RECORD._asdict(), nodes=[1, 2])),
        json.dumps(dict(RECORD._asdict(), config=[["SERVER_PORT"]])),
        json.dumps({key: value for key, value in RECORD._asdict().items() if key != "nodes"}),
        "\xff\xfe",
    ],
)
def test_a_record_that_cannot_be_trusted_is_none(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "imex-start-nvidia-imex.json").write_text(text, encoding="latin-1")
    assert daemon.read_record(str(tmp_path), "nvidia-imex") is None


def test_a_record_that_cannot_be_read_is_none(tmp_path: pathlib.Path) -> None:
    (tmp_path / "imex-start-nvidia-imex.json").mkdir()
    assert daemon.read_record(str(tmp_path), "nvidia-imex") is None


def test_a_record_that_cannot_be_written_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file/run"):
        daemon.write_record(str(tmp_path / "file" / "run"), "nvidia-imex", RECORD)


CASES: list[tuple[str, dict[str, t.Any], tuple[tuple[str, ...] | None, str, bool | None]]] = [
    ("the record of this start", {"record": RECORD}, (NODES, "record", True)),
    ("the record goes before the row", {"record": RECORD, "row": OTHER}, (NODES, "record", True)),
    ("the record of a start under way", {"unit": STARTING, "record": RECORD}, (NODES, "record", True)),
    ("a record, and a file changed since", {"record": RECORD, "configured": OTHER}, (NODES, "record", False)),
    (
        "N12 a record, and a file with one more",
        {"record": RECORD, "configured": (*NODES, "10.0.0.4")},
        (NODES, "record", False),
    ),
    (
        "a record of an earlier start",
        {"record": RECORD._replace(invocation_id="id-0"), "row": OTHER},
        (OTHER, "own_row", False),
    ),
    ("no record", {"row": NODES}, (NODES, "own_row", True)),
    (
        "the row in another spelling",
        {"row": ("2001:DB8::1",), "configured": ("2001:db8::1",)},
        (("2001:db8::1",), "own_row", True),
    ),
    ("the row goes before the time", {"row": NODES, "changed": 5000.0}, (NODES, "own_row", True)),
    ("the files are older than the start", {"changed": 900.0}, (NODES, "start_time", True)),
    ("the files are younger than the start", {"changed": 1500.0}, (None, "start_time", False)),
    ("the files changed while it started", {"changed": 997.0}, (None, "none", None)),
    ("the files changed in the second of the start", {"changed": 1000.4}, (None, "none", None)),
    (
        "nobody knows when it started",
        {"unit": RUNNING._replace(started_at=None), "changed": 900.0},
        (None, "none", None),
    ),
    ("there are no files", {"changed": None, "configured": ()}, (None, "none", None)),
    ("nothing runs", {"unit": STOPPED, "record": RECORD, "row": NODES, "changed": 900.0}, (None, "none", None)),
    (
        "it is started again and again",
        {"unit": STARTING._replace(sub_state="auto-restart"), "record": RECORD},
        (None, "none", None),
    ),
]


@pytest.mark.parametrize("name, given, wanted", CASES, ids=[case[0] for case in CASES])
def test_loaded(name: str, given: dict[str, t.Any], wanted: tuple[tuple[str, ...] | None, str, bool | None]) -> None:
    found = daemon.loaded(
        given.get("unit", RUNNING),
        given.get("record"),
        given.get("row"),
        given.get("configured", NODES),
        given.get("changed"),
    )
    assert (found.nodes, found.source, found.in_sync) == wanted
    assert found.digest == (None if found.nodes is None else digest(found.nodes))
    assert found.config == (RECORD.config if found.source == "record" else None)
