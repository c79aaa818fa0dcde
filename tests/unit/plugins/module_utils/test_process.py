# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils import process


def test_run_keeps_both_streams_apart() -> None:
    ended = process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert ended == process.Ended(3, "out\n", "err\n")


def test_run_takes_more_than_a_pipe_holds() -> None:
    ended = process.run(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero >&2"], 30)
    assert (len(ended.stdout), len(ended.stderr), ended.rc) == (3000000, 300000, 0)


def test_run_takes_bytes_that_are_no_text() -> None:
    assert process.run(["printf", r"\377a"], 10).stdout == "\ufffda"


def test_run_ends_with_the_program_though_a_child_keeps_its_output() -> None:
    # As with a daemon that a start leaves behind.
    ended = process.run(["sh", "-c", "sleep 30 & echo $!"], 20)
    assert not ended.timed_out
    os.kill(int(ended.stdout), 9)


def test_run_waits_for_a_program_that_closes_its_output() -> None:
    ended = process.run(["sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4"], 20)
    assert (ended.rc, ended.timed_out) == (4, False)


def test_run_ends_a_program_that_closed_its_output_and_stays() -> None:
    ended = process.run(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], 0.3)
    assert (ended.rc, ended.timed_out) == (-9, True)


def test_run_stops_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 100000)
    ended = process.run(["yes"], 30)
    assert ended.overflow
    assert not ended.timed_out
    assert ended.rc == -9


def test_run_has_no_input() -> None:
    assert process.run(["cat"], 10) == process.Ended(0, "", "")


def test_run_of_nothing() -> None:
    with pytest.raises(FileNotFoundError):
        process.run(["/no/such/program"], 10)


def test_run_gives_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    assert process.run(["sh", "-c", "echo $LC_ALL $OURS"], 10, {"OURS": "1"}).stdout == "C 1\n"


def test_find(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "second" / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    assert process.find("tool", [str(tmp_path / "second")]) == str(tmp_path / "second" / "tool")
    assert process.find(str(tmp_path / "second" / "tool")) == str(tmp_path / "second" / "tool")
    assert process.find(str(tmp_path / "first" / "tool")) is None
    assert process.find("tool", []) is None
    assert process.find("second", [str(tmp_path)]) is None
