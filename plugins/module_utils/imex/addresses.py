# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of this host, read from the kernel's tables without starting a program."""

from __future__ import annotations

import os
import typing as t

from .. import process
from ..errors import FileError
from ..files import read_text


def local_addresses(proc_root: str = "/proc", names: t.Sequence[str] = ()) -> tuple[str, ...]:
    """Every IPv4 and IPv6 address of this host (and of this network namespace), loopback included.

    IPv4 from PROC/net/fib_trie, IPv6 from PROC/net/if_inet6; where the kernel offers no fib_trie, from "ip addr".
    Those of names (host names in a node map) that mean this host follow.
    """
    table = _text(os.path.join(proc_root, "net", "fib_trie"))
    if table is None and proc_root == "/proc":
        found = list(_asked())
    else:
        found = [*_ipv4(table or ""), *_ipv6(_text(os.path.join(proc_root, "net", "if_inet6")) or "")]
    return tuple(dict.fromkeys([*found, *(own_names(names, found) if names else ())]))


def own_names(names: t.Sequence[str], addresses: t.Collection[str]) -> tuple[str, ...]:
    """Those of names that mean this host: its host name, else what resolves to one of its addresses."""
    import socket

    from .names import resolve

    host = socket.gethostname().lower()
    same = tuple(name for name in names if name.lower() == host or name.lower().partition(".")[0] == host)
    if same:
        return same
    # The distribution's line "127.0.1.1 <host name>" names this host, the common loopback address does not.
    own = {address for address in addresses if address not in ("127.0.0.1", "::1")}
    return tuple(name for name, found in resolve(names, 3.0) if own.intersection(found))


def _text(path: str) -> str | None:
    try:
        return read_text(path)
    except FileError:
        return None


def _ipv4(text: str) -> t.Iterator[str]:
    # "|-- 10.0.0.1" and below it "/32 host LOCAL"
    address = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            address = words[-1]
        elif words == ["/32", "host", "LOCAL"]:
            yield address


def _ipv6(text: str) -> t.Iterator[str]:
    import socket

    for line in text.splitlines():
        digits = line.split(" ", 1)[0]
        if len(digits) == 32:
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))


def _asked() -> tuple[str, ...]:
    program = process.find("ip")
    if program is None:
        return ()
    try:
        output = process.run([program, "-o", "addr", "show"], 10).stdout
    except OSError:
        return ()
    # "2: eth0    inet 10.0.0.1/24 brd ..."
    lines = (line.split() for line in output.splitlines())
    return tuple(words[3].partition("/")[0] for words in lines if len(words) > 3 and words[2] in ("inet", "inet6"))
