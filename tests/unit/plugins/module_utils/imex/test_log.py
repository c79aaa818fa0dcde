# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FileError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import log

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "log"
CASES = json.loads((FIXTURES / "cases.json").read_text(encoding="utf-8"))
START = "IMEX Log initializing at: 3/21/2025 20:45:37.001\n"


def text_of(case: dict[str, t.Any]) -> str:
    text = str(case["text"])
    return (FIXTURES / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_parse(case: dict[str, t.Any]) -> None:
    started = case.get("started_at")
    since = time.mktime(time.strptime(started, "%b %d %Y %H:%M:%S")) if started else None
    found = log.parse(text_of(case), "/var/log/nvidia-imex.log", since)
    if "lines" in case:
        assert [list(line) for line in found.lines] == case["lines"]
    else:
        assert (len(found.lines), found.lines[0].message) == (case["count"], case["first"])
    for key in ("version", "node_id"):
        if key in case:
            assert getattr(found, key) == case[key]
    if "names" in case:
        assert list(found.names) == case["names"]
    if "note" in case:
        assert case["note"] in found.note
        assert bool(case["note"]) == bool(found.note)


def test_read_takes_the_end_of_a_large_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "TAIL", 1000)
    path = tmp_path / "imex.log"
    path.write_text("[ERROR] long ago\n" * 1000 + START + "[ERROR] now\n")
    assert [line.message for line in log.read(str(path)).lines] == ["now"]


def test_read_of_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    found = log.read(str(tmp_path / "none.log"))
    assert found.lines == ()
    assert "does not exist" in found.note


def test_read_of_a_file_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileError, match="Cannot read"):
        log.read(str(tmp_path))


def test_read_takes_bytes_that_are_no_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "imex.log"
    path.write_bytes(START.encode() + b"[ERROR] caf\xe9\n")
    assert [line.message for line in log.read(str(path)).lines] == ["caf\ufffd"]


@pytest.fixture
def journalctl(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], pathlib.Path]:
    """Put a journalctl of a shell script on PATH; it notes its arguments."""

    def make(script: str) -> pathlib.Path:
        path = tmp_path / "journalctl"
        path.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "calls"

    return make


def test_read_journal_of_this_start(journalctl: t.Callable[[str], pathlib.Path]) -> None:
    calls = journalctl("echo '[Mar 21 2025 20:45:38] [ERROR] [tid 3] trouble'")
    found = log.read_journal("nvidia-imex.service", "abc")
    assert [line.message for line in found.lines] == ["trouble"]
    assert (found.origin, found.note) == ("journal", "the daemon has no log file: read from the journal")
    assert calls.read_text().strip().endswith("_SYSTEMD_INVOCATION_ID=abc")


def test_read_journal_of_a_unit_that_never_started(journalctl: t.Callable[[str], pathlib.Path]) -> None:
    calls = journalctl("exit 0")
    assert log.read_journal("nvidia-imex.service", "").lines == ()
    assert calls.read_text().strip().endswith("-u nvidia-imex.service")


def test_read_journal_that_fails(journalctl: t.Callable[[str], pathlib.Path]) -> None:
    journalctl("echo 'No journal files were found.' >&2; exit 1")
    assert "journalctl failed: No journal files" in log.read_journal("nvidia-imex.service", "abc").note
    journalctl("exec sleep 600")
    assert "time limit" in log.read_journal("nvidia-imex.service", "abc", 0.3).note
