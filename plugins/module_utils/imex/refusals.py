# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a node map cannot be used on a host, in words; apart, since it rarely happens."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError
from . import node_map, node_rules
from .wanted import Found, Wanted

# The first driver whose daemon takes host names in the node map (reference 1.9).
HOSTNAMES_SINCE = (570, 158, 1)
SHOWN = 10


def check_names(wanted: Wanted, found: Found, nodes: tuple[str, ...]) -> None:
    """Host names: the daemon must know them, and each must mean one host and the same on all."""
    names = [node for node in nodes if not node_map.is_address(node)]
    if not names:
        return
    numbers = tuple(int(number) for number in re.findall(r"\d+", found.version or ""))
    if len(numbers) > 1 and numbers < HOSTNAMES_SINCE:
        raise InputError(
            f"nodes cannot be used, nothing was written: {shown(names)} are host names, which need driver 570.158.01 or newer, "
            f"this host has {found.version}. Give addresses, or update the driver."
        )
    resolved = dict(found.names)
    faults: list[str] = []
    seen = {node: node for node in nodes}
    for name in names:
        addresses = resolved.get(name)
        if addresses is None:
            continue
        if not addresses:
            faults.append(f"{name!r} cannot be resolved on this host")
        for address in addresses:
            fault = node_rules.refusal(address, wanted.policy)
            if fault:
                faults.append(f"{name!r} resolves here to {address}, which {fault}")
            elif seen.setdefault(address, name) != name:
                faults.append(f"{name!r} resolves here to {address}, the same host as {seen[address]!r}")
    if faults:
        raise InputError(f"nodes cannot be used, nothing was written: {'; '.join(faults)}.")


def refuse_local(own: t.Sequence[str], local: t.Collection[str], nodes: t.Sequence[str]) -> t.NoReturn:
    """Raise InputError for a map with none, or more than one (own), of this host's addresses (local)."""
    if len(own) > 1:
        raise InputError(
            f"nodes cannot be used, nothing was written: {shown(own)} are all addresses of this host, expected one of them. "
            "A member has one address in the map."
        )
    if not local:
        raise InputError(
            "This host's own addresses could not be read, so nobody can say which member it is; nothing was written. Give "
            "local_addresses, or set require_local_address to false."
        )
    known = sorted(local, key=node_map.numeric_key)
    outside = [address for address in known if not node_rules.is_loopback(address)] or known
    raise InputError(
        f"nodes cannot be used on this host, nothing was written: none of its own addresses ({shown(outside)}) is among "
        f"{shown(nodes)}. Its daemon would end with 'No matching network interface found'. Correct the list, or the "
        "host's address."
    )


def refuse_removal(dropped: t.Sequence[str], members: t.Collection[str], limit: int) -> t.NoReturn:
    """Raise InputError for a map that drops more of the known members than limit."""
    raise InputError(
        f"{len(dropped)} of {len(members)} members would be removed at once ({shown(dropped)}), expected at most "
        f"{limit} (max_removed); nothing was written. If they shall go, raise max_removed for this run."
    )


def shown(words: t.Sequence[str]) -> str:
    """Words for a message, cut after SHOWN."""
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return (", ".join(words[:SHOWN]) or "none") + more
