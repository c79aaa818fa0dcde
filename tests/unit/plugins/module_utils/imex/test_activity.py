# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import activity


@pytest.fixture
def smi(tmp_path: pathlib.Path) -> t.Callable[[str], str]:
    """Make an nvidia-smi of a shell script; it notes its arguments."""

    def make(script: str) -> str:
        path = tmp_path / "nvidia-smi"
        path.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        return str(path)

    return make


def test_read(smi: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "persist.dat").write_text("a1b2c3\nNode 1: 10.0.0.2\nNode #2: 10.0.0.3\n")
    (tmp_path / "jobs").mkdir()
    for name in ("211", "212", ".tmp"):
        (tmp_path / "jobs" / name).write_text("")
    found = activity.read(smi("echo '4711, /usr/bin/python3'"), f"{tmp_path}/persist.dat", f"{tmp_path}/jobs")
    assert found == activity.Activity((activity.GpuProcess(4711, "/usr/bin/python3"),), ("10.0.0.2", "10.0.0.3"), 2)
    assert (tmp_path / "calls").read_text().split() == list(activity.QUERY)


def test_nobody_is_there(smi: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "persist.dat").write_text("a1b2c3\n")
    found = activity.read(smi("echo 'No running processes found'"), f"{tmp_path}/persist.dat", f"{tmp_path}/jobs")
    assert found == activity.Activity((), (), 0)


def test_without_persist_dat_there_are_no_importers(smi: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    assert activity.read(smi("exit 0"), f"{tmp_path}/none", f"{tmp_path}/jobs").importers == ()


@pytest.mark.parametrize(
    "script, note",
    [
        ("echo 'NVIDIA-SMI has failed' ; exit 9", "failed with exit status 9"),
        ("exec sleep 600", "had no answer within 0.3 s"),
    ],
)
def test_what_is_not_known_is_not_nobody(
    script: str, note: str, smi: t.Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "jobs").write_text("a file in its place")
    found = activity.read(smi(script), str(tmp_path), f"{tmp_path}/jobs", 0.3)
    assert (found.gpu_processes, found.importers, found.job_records) == (None, None, None)
    assert len(found.notes) == 3
    assert note in found.notes[0]


def test_no_nvidia_smi(tmp_path: pathlib.Path) -> None:
    found = activity.read("no-such-smi", f"{tmp_path}/none", f"{tmp_path}/jobs")
    assert found.gpu_processes is None
    assert "no-such-smi was not found" in found.notes[0]
