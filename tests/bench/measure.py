# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run commands, measure what they cost, print figures."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import typing as t


class Cost(t.NamedTuple):
    """What one run took."""

    # Seconds of user and system time of the command and of everything that it started and waited for.
    cpu: float
    wall: float
    # MiB, the highest resident set of the command's own process, without its workers.
    memory: float


class BenchError(Exception):
    """A run did not do what it is measured for, so its time means nothing."""


def run(command: t.Sequence[str], environment: t.Mapping[str, str], output: pathlib.Path) -> Cost:
    """Run a command to its end, its output in a file. Raises BenchError when it fails."""
    with output.open("wb") as stream:
        began = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
        over = threading.Event()
        peaks: list[float] = [0.0]
        watcher = threading.Thread(target=_watch, args=(process.pid, over, peaks))
        watcher.start()
        try:
            _pid, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            over.set()
            watcher.join()
    if process.returncode != 0:
        end = output.read_text(encoding="utf-8", errors="replace")[-3000:]
        raise BenchError(f"{' '.join(command)} ended with status {process.returncode}:\n{end}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, peaks[-1])


def _watch(pid: int, over: threading.Event, peaks: list[float]) -> None:
    # wait4 would tell the peak of the largest process of the tree; the kernel's own mark of one process is exact, and lost
    # with the process, so it is read while that runs.
    path = pathlib.Path(f"/proc/{pid}/status")
    while not over.wait(0.5):
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            return
        peaks += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]


def interleave(sides: t.Mapping[str, t.Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Run every side once a round, each other round backwards, so that a change of the machine's load meets all alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            cost = sides[name]()
            costs[name].append(cost)
            say(f"round {number + 1} of {rounds}: {name}: cpu {cost.cpu:.2f} s, wall {cost.wall:.2f} s")
    return costs


def median(costs: t.Iterable[Cost]) -> Cost:
    """The medians, each by itself."""
    return Cost(*(statistics.median(values) for values in zip(*costs)))


def show_raw(costs: t.Mapping[str, t.Sequence[Cost]], hosts: t.Mapping[str, int]) -> None:
    """A line a side: medians, range of the CPU time, cost a host and memory of the controller."""
    for name, runs in costs.items():
        cpu, wall, memory = median(runs)
        low, high = min(cost.cpu for cost in runs), max(cost.cpu for cost in runs)
        print(
            f"  {name}: median of {len(runs)}: cpu {cpu:.2f} s ({low:.2f} to {high:.2f}), wall {wall:.2f} s, "
            f"cpu a host {cpu / hosts[name] * 1000:.0f} ms, controller's memory {memory:.0f} MiB"
        )


def figure(name: str, value: float, goal: float, unit: str = "ratio") -> bool:
    """Print a figure that may be at most the goal. Returns whether it is."""
    print(f"BENCH {name} {value:.2f} <= {goal:.2f} {unit}", flush=True)
    return round(value, 2) <= goal


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(text, file=sys.stderr, flush=True)
