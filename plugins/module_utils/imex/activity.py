# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses IMEX on this host right now: what a restart of the daemon would break."""

from __future__ import annotations

import os
import re
import typing as t

from .. import process
from ..errors import FileError
from ..files import read_text

# "Node 1: 10.0.0.2" per importer, after a line with the key (reference 1.7).
IMPORTER = re.compile(r"^\s*Node\s+#?\d+\s*:\s*(\S+)\s*$", re.MULTILINE)
QUERY = ("--query-compute-apps=pid,process_name", "--format=csv,noheader")


class GpuProcess(t.NamedTuple):
    """One compute process that the driver knows."""

    pid: int
    name: str


class Activity(t.NamedTuple):
    """None: not known (notes say why), which is not the same as nobody.

    importers: addresses of the nodes that hold memory of this one; job_records: how many jobs the prolog noted here.
    """

    gpu_processes: tuple[GpuProcess, ...] | None
    importers: tuple[str, ...] | None
    job_records: int | None
    notes: tuple[str, ...] = ()


def read(smi_command: str, persist_path: str, job_records_dir: str, timeout: float = 30) -> Activity:
    """Ask nvidia-smi for compute processes, persist.dat for importers and the folder of job records for jobs."""
    notes: list[str] = []
    return Activity(
        _gpu_processes(smi_command, timeout, notes),
        _importers(persist_path, notes),
        _job_records(job_records_dir, notes),
        tuple(notes),
    )


def parse_processes(text: str) -> tuple[GpuProcess, ...]:
    """The lines "4711, python3"; one without a number ("No running processes found") is none."""
    rows = (line.partition(",") for line in text.splitlines())
    return tuple(GpuProcess(int(pid), name.strip()) for pid, _comma, name in rows if pid.strip().isdigit())


def parse_importers(text: str) -> tuple[str, ...]:
    """The addresses that persist.dat lists."""
    return tuple(IMPORTER.findall(text))


def _gpu_processes(command: str, timeout: float, notes: list[str]) -> tuple[GpuProcess, ...] | None:
    path = process.find(command)
    if path is None:
        notes.append(f"{command} was not found, so nobody can say whether GPU processes run (smi_command)")
        return None
    try:
        ended = process.run([path, *QUERY], timeout)
    except OSError as exc:
        notes.append(f"{path} could not be started: {exc.strerror}")
        return None
    if ended.timed_out or ended.rc != 0:
        how = f"had no answer within {timeout:g} s" if ended.timed_out else f"failed with exit status {ended.rc}"
        notes.append(f"{path} {how}, so nobody can say whether GPU processes run: {ended.text}")
        return None
    return parse_processes(ended.stdout)


def _importers(path: str, notes: list[str]) -> tuple[str, ...] | None:
    try:
        # Without the file there were no importers: so does the daemon read it.
        return parse_importers(read_text(path) or "")
    except FileError as exc:
        notes.append(str(exc))
        return None


def _job_records(folder: str, notes: list[str]) -> int | None:
    try:
        return sum(1 for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return 0
    except OSError as exc:
        notes.append(f"Cannot list the job records in {folder}: {exc.strerror}")
        return None
