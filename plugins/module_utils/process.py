# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs another program with a time limit that holds."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
import typing as t

# More than the answer for the largest domain there is (some 30 MB would be 500 nodes); a tool that writes for ever is
# stopped here.
OUTPUT_LIMIT = 64 * 1024 * 1024
EXTRA_DIRECTORIES = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")


class Ended(t.NamedTuple):
    """How a run ended: rc is negative for a signal; timed_out and overflow say that we ended it."""

    rc: int
    stdout: str
    stderr: str
    timed_out: bool = False
    overflow: bool = False

    @property
    def text(self) -> str:
        """What it said, standard error first, for a message (at most 2,000 characters)."""
        return "\n".join(part for part in (self.stderr.strip(), self.stdout.strip()) if part)[:2000]


def run(argv: t.Sequence[str], timeout: float, environment: t.Mapping[str, str] | None = None) -> Ended:
    """Run argv (never a shell) for at most timeout seconds, then kill it with all it started.

    The program has a process group of its own and the C locale. It has ended when it exits, also if something it
    started keeps its output open. Raises OSError when it cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, LC_ALL="C", LANGUAGE="C", **(environment or {})),
        start_new_session=True,
    )
    deadline = time.monotonic() + timeout
    chunks: dict[int, list[bytes]] = {}
    held = 0
    timed_out = overflow = False
    with process, selectors.DefaultSelector() as selector:
        for stream in t.cast("tuple[t.IO[bytes], ...]", (process.stdout, process.stderr)):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream.fileno(), selectors.EVENT_READ)
            chunks[stream.fileno()] = []
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or overflow:
                timed_out = not overflow
                break
            # Read once more after the exit: what it wrote last may still lie in the pipe.
            ended = process.poll() is not None
            if not selector.get_map():
                if ended:
                    break
                time.sleep(min(left, 0.005))
                continue
            ready = selector.select(0 if ended else min(left, 0.05))
            for key, _events in ready:
                data = _read(key.fd)
                if data is None:
                    continue
                if not data:
                    selector.unregister(key.fd)
                chunks[key.fd].append(data)
                held += len(data)
                overflow = held > OUTPUT_LIMIT
            if ended and not ready:
                break
        if timed_out or overflow:
            _kill(process)
        process.wait()
    stdout, stderr = (b"".join(parts).decode("utf-8", "replace") for parts in chunks.values())
    return Ended(process.returncode, stdout, stderr, timed_out, overflow)


def find(name: str, directories: t.Sequence[str] = EXTRA_DIRECTORIES) -> str | None:
    """Where the program name is: a path stands for itself, a name is looked for on PATH, then in directories."""
    if os.sep in name:
        return name if _is_program(name) else None
    for directory in [*os.environ.get("PATH", "").split(os.pathsep), *directories]:
        path = os.path.join(directory, name)
        if directory and _is_program(path):
            return path
    return None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The group, so that nothing the program started stays behind.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
