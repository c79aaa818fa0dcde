# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A writer is killed a thousand times at moments of chance; what it leaves is the old or the new file, whole."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import time

from ansible_collections.hpc.fabric.plugins.module_utils import atomic

ROUNDS = 1000
VERSIONS = (b"old\n" * 2000, b"new and longer\n" * 3000)


def spawn_writer(path: str) -> int:
    """A process that replaces the file in a loop, one version after the other, until it is killed."""
    child = os.fork()
    if child:
        return child
    try:
        while True:
            for data in VERSIONS:
                atomic.replace(path, data)
    finally:
        os._exit(1)


def test_kill_at_any_moment_leaves_a_whole_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nodes_config.cfg"
    dice = random.Random()
    atomic.replace(str(path), VERSIONS[0])
    broken: list[int] = []
    left = 0
    seen = set()
    for _round in range(ROUNDS):
        child = spawn_writer(str(path))
        # Long enough for the first writes, short enough to meet each step of one.
        time.sleep(dice.uniform(0, 0.004))
        os.kill(child, signal.SIGKILL)
        _pid, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer failed by itself"
        content = path.read_bytes()
        seen.add(content)
        if content not in VERSIONS:
            broken.append(len(content))
        left += any(atomic.TEMPORARY in name for name in os.listdir(tmp_path))
    assert broken == []
    # The rounds met writers in the middle of their work, and both versions came out: else this test proves nothing.
    assert left > 0
    assert seen == set(VERSIONS)
    atomic.replace(str(path), VERSIONS[1])
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == VERSIONS[1]
