# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many members must be connected, and how many are: as one host sees it, and from all members' own rows."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from .domain import Domain, Node
from .node_map import canonical, is_address
from .words import CONNECTED, READY


class Quorum(t.NamedTuple):
    """The star around the local node. missing: expected members that do not count; one_sided: those that count though
    their own row is not known; not_mutual: those where one side says CONNECTED and the other does not."""

    spec: str
    required: int
    expected: int
    connected: int
    met: bool
    missing: tuple[str, ...] = ()
    one_sided: tuple[str, ...] = ()
    not_mutual: tuple[str, ...] = ()


class Row(t.NamedTuple):
    """What one member says of itself: whether it is READY and to which addresses it is CONNECTED."""

    ready: bool
    connected: frozenset[str]


class Proof(t.NamedTuple):
    """The members that are READY and pairwise CONNECTED, who was left out and why, and whether that is enough."""

    members: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]
    required: int
    met: bool
    missing_required: tuple[str, ...]


def required(spec: str | int, total: int) -> int:
    """How many of total members spec asks for: all, majority, a percentage (rounded up) or a count.

    Raises InputError for anything else, and for more than there are.
    """
    text = str(spec).strip()
    if text == "all":
        return total
    if text == "majority":
        return total // 2 + 1
    number = text[:-1].rstrip() if text.endswith("%") else text
    if not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise InputError(
            f"{text!r} is no count of members: use all, majority, a percentage like 75%, or a count like 16"
        )
    count = int(number)
    if text.endswith("%"):
        if count > 100:
            raise InputError(f"{text} of the members is more than there are: use at most 100%")
        return -(-count * total // 100)
    if count > total:
        raise InputError(f"{count} members are asked for, but there are only {total}: use all, or at most {total}")
    return count


def evaluate(
    domain: Domain | None,
    expected: t.Sequence[str],
    spec: str | int = "all",
    required_nodes: t.Sequence[str] = (),
) -> Quorum:
    """The quorum that one host can prove. The local node counts; one that is not READY proves nothing.

    A member counts when it is expected and the pair is CONNECTED in the local row and in the member's row, where that
    is known. required_nodes are addresses or host names. Raises InputError for a spec that cannot be met by anybody.
    """
    members = tuple(canonical(node) for node in expected)
    needed = required(spec, len(members)) if members else 0
    wanted = tuple(canonical(node) for node in required_nodes)
    unknown = [node for node in wanted if members and is_address(node) and node not in members]
    if unknown:
        raise InputError(
            f"required_nodes names {', '.join(unknown)}, which is not among the {len(members)} expected nodes"
        )
    local = domain.local if domain else None
    nodes = {canonical(node.host): node for node in domain.nodes} if domain else {}
    if local is None or local.status != READY or canonical(local.host) not in members:
        return Quorum(str(spec), needed, len(members), 0, False, members)
    counted, one_sided, not_mutual = [], [], []
    for member in members:
        node = nodes.get(member)
        here = node is not None and (node.id == local.id or link(local, node.id) == CONNECTED)
        there = _row_says(node, local)
        if here and there is not False:
            counted.append(member)
            if there is None:
                one_sided.append(member)
        elif here or there:
            not_mutual.append(member)
    names = set(counted) | {nodes[member].hostname for member in counted}
    return Quorum(
        str(spec),
        needed,
        len(members),
        len(counted),
        len(counted) >= needed and names.issuperset(wanted),
        tuple(member for member in members if member not in counted),
        tuple(one_sided),
        tuple(not_mutual),
    )


def link(node: Node, peer: int) -> str | None:
    """The state of the connection from node to the node with the id peer, as node sees it; None: not said."""
    return next((connection.status for connection in node.connections if connection.id == peer), None)


def prove(
    rows: t.Mapping[str, Row], expected: t.Sequence[str], spec: str | int = "all", required_nodes: t.Sequence[str] = ()
) -> Proof:
    """The quorum that all members prove together, each with its own row.

    Of the READY members the one with the fewest mutual pairs is dropped (ties: the highest id) until the rest are
    pairwise CONNECTED. rows are keyed by canonical address, expected is in id order. Raises InputError.
    """
    members = tuple(canonical(node) for node in expected)
    needed = required(spec, len(members)) if members else 0
    dropped: list[tuple[str, str]] = []
    kept: list[str] = []
    for member in members:
        row = rows.get(member)
        if row is None:
            dropped.append((member, "it gave no account of itself"))
        elif not row.ready:
            dropped.append((member, "its daemon is not READY"))
        else:
            kept.append(member)
    pairs = {
        member: {
            peer
            for peer in kept
            if peer != member and peer in rows[member].connected and member in rows[peer].connected
        }
        for member in kept
    }
    while any(len(pairs[member]) < len(kept) - 1 for member in kept):
        # Of equals the last in the map goes, so that every run drops the same one.
        weakest = min(reversed(kept), key=lambda member: len(pairs[member]))
        apart = [peer for peer in kept if peer != weakest and peer not in pairs[weakest]]
        shown = ", ".join(apart[:4]) + (f" and {len(apart) - 4} more" if len(apart) > 4 else "")
        dropped.append((weakest, f"it is not connected with {shown}"))
        kept.remove(weakest)
        for peer in kept:
            pairs[peer].discard(weakest)
    lacking = tuple(node for node in (canonical(name) for name in required_nodes) if node not in kept)
    return Proof(tuple(kept), tuple(dropped), needed, bool(kept) and len(kept) >= needed and not lacking, lacking)


def _row_says(node: Node | None, local: Node) -> bool | None:
    if node is None or (node.id != local.id and not node.answered):
        return None
    if node.id == local.id:
        return True
    said = link(node, local.id)
    return None if said is None else said == CONNECTED
