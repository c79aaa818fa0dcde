# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who listens on the ports of the intended daemon: an answer may come from another daemon on this host (case 29)."""

from __future__ import annotations

import os
import typing as t

LISTEN = "0A"
EVERY = ("0.0.0.0", "::")


class Holder(t.NamedTuple):
    """A process with a listening socket. pid 0: it could not be found (another user's, or rights are missing)."""

    port: int
    pid: int
    name: str
    cgroup: str

    @property
    def shown(self) -> str:
        """For a message."""
        return f"process {self.pid} ({self.name})" if self.pid else "a process that cannot be seen from here"

    @property
    def in_kubernetes(self) -> bool:
        """True for a process of a pod."""
        return "kubepods" in self.cgroup


def holders(
    proc_root: str, ports: t.Collection[int], addresses: t.Collection[str], beside: int | None = None
) -> tuple[Holder, ...]:
    """The processes that listen on any of ports, in this network namespace, at one of addresses or at all.

    addresses are canonical. The sockets of process beside are left out. Reads PROC only.
    """
    sockets = _sockets(proc_root, ports, (*EVERY, *addresses))
    for inode in _held(proc_root, beside) & set(sockets) if beside else ():
        del sockets[inode]
    found = dict.fromkeys(sockets, (0, "", ""))
    for pid in _pids(proc_root) if sockets else ():
        for inode in _held(proc_root, pid) & set(sockets):
            found[inode] = (pid, _text(proc_root, pid, "comm").strip(), cgroup(proc_root, pid))
    return tuple(sorted({Holder(sockets[inode], *owner) for inode, owner in found.items()}))


def cgroup(proc_root: str, pid: int) -> str:
    """The cgroup of a process (the last line of its file: v2, or the last v1 hierarchy); "" when not known."""
    lines = _text(proc_root, pid, "cgroup").splitlines()
    return lines[-1].split(":", 2)[-1] if lines else ""


def named(proc_root: str, name: str) -> tuple[Holder, ...]:
    """The processes with this name (port 0)."""
    return tuple(
        Holder(0, pid, name, cgroup(proc_root, pid))
        for pid in _pids(proc_root)
        if _text(proc_root, pid, "comm").strip() == name
    )


def _sockets(proc_root: str, ports: t.Collection[int], addresses: t.Collection[str]) -> dict[str, int]:
    wanted = {f"{port:04X}": port for port in ports}
    found = {}
    for table in ("tcp", "tcp6"):
        try:
            with open(os.path.join(proc_root, "net", table), encoding="ascii", errors="replace") as source:
                for line in source:
                    words = line.split()
                    if len(words) < 10 or words[3] != LISTEN:
                        continue
                    address, _colon, port = words[1].rpartition(":")
                    if port in wanted and _address(address) in addresses:
                        found[words[9]] = wanted[port]
        except OSError:
            continue
    return found


def _address(digits: str) -> str:
    """The address in /proc/net/tcp: words of 32 bits in the machine's byte order, as hexadecimal digits."""
    import socket
    import sys

    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def _held(proc_root: str, pid: int) -> set[str]:
    held = set()
    folder = os.path.join(proc_root, str(pid), "fd")
    try:
        for name in os.listdir(folder):
            target = os.readlink(os.path.join(folder, name))
            if target.startswith("socket:["):
                held.add(target[8:-1])
    except OSError:
        pass
    return held


def _pids(proc_root: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc_root) if name.isdigit())
    except OSError:
        return []


def _text(proc_root: str, pid: int, name: str) -> str:
    try:
        with open(os.path.join(proc_root, str(pid), name), encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""
