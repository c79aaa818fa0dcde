# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host names in a node map: what they mean on this host, and whether its driver takes them."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import typing as t

from ..errors import FileError
from ..files import read_text
from .node_map import canonical

RESOLVE_TIMEOUT = 10.0


def resolve(names: t.Sequence[str], timeout: float = RESOLVE_TIMEOUT) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every name with its addresses (canonical, in order); no address where it has none, or none within timeout seconds.

    All names at once, each in a thread: the resolver has no time limit of its own.
    """
    found: dict[str, tuple[str, ...]] = {}

    def ask(name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            answers = []
        found[name] = tuple(dict.fromkeys(canonical(str(answer[4][0])) for answer in answers))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in dict.fromkeys(names)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return tuple((name, found.get(name, ())) for name in dict.fromkeys(names))


def driver_version(proc_root: str = "/proc", sysfs_root: str = "/sys") -> str | None:
    """The version of the loaded NVIDIA driver, None when there is none or it does not say."""
    for path in (
        os.path.join(sysfs_root, "module/nvidia/version"),
        os.path.join(proc_root, "driver/nvidia/version"),
    ):
        try:
            match = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", read_text(path) or "")
        except FileError:
            continue
        if match:
            return match.group()
    return None
