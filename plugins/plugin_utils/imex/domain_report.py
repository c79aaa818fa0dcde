# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One report a domain from what every host says of itself, with the matrix of all pairs. Pure."""

from __future__ import annotations

import collections
import datetime
import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, quorum
from ansible_collections.hpc.fabric.plugins.module_utils.imex.quorum import Row
from ansible_collections.hpc.fabric.plugins.module_utils.imex.words import CONNECTED

from .facts import Facts


class Node(t.NamedTuple):
    """One position of the map, and the host that answered for it ("" for nobody)."""

    id: int
    address: str
    host: str
    state: str
    verdict: str
    version: str
    summary: str
    digest: str
    agrees: bool | None
    timestamp: str
    stale: bool


class Pair(t.NamedTuple):
    """Two nodes that are not connected in both rows; None: that row is not known."""

    a: str
    b: str
    a_says: str | None
    b_says: str | None


class DomainReport(t.NamedTuple):
    """state: UP when all members are READY and pairwise connected by their own rows, DOWN when none is, else DEGRADED.

    matrix: row = the node that says it, column = the node it is about, None where the row is not known.
    """

    domain: str
    state: str
    digest: str
    nodes: tuple[Node, ...]
    matrix: tuple[tuple[str | None, ...], ...]
    proved: tuple[str, ...]
    apart: tuple[Pair, ...]
    disagreeing: tuple[str, ...]
    unreachable: tuple[str, ...]
    without_map: tuple[str, ...]
    verdicts: dict[str, int]


def reports(
    facts: t.Sequence[Facts], domains: t.Mapping[str, str] | None = None, max_age: float | None = None
) -> list[DomainReport]:
    """Group the hosts (by domains: host to name, else by the map they hold) and report on each group, sorted by name.

    max_age: seconds that an answer may be older than the newest one of its domain; an older one is stale and proves
    nothing. None for no limit.
    """
    groups: dict[str, list[Facts]] = {}
    for found in facts:
        digest = node_map.digest(view_of(found)) if view_of(found) else ""
        name = str(domains[found.host]) if domains and domains.get(found.host) else "" if domains else digest
        groups.setdefault(name, []).append(found)
    return [report(name, groups[name], max_age) for name in sorted(groups)]


def view_of(found: Facts) -> tuple[str, ...]:
    """The map a host stands for: what its daemon holds, else its file."""
    return found.holds or found.configured


def moment(timestamp: str) -> datetime.datetime | None:
    """The time of "8/8/2025 17:38:02.641", whose zone nobody knows; None for anything else."""
    for form in ("%m/%d/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S"):
        try:
            return datetime.datetime.strptime(timestamp, form)
        except ValueError:
            continue
    return None


def report(name: str, facts: t.Sequence[Facts], max_age: float | None = None) -> DomainReport:
    """Report on the hosts of one domain. The map is the one that most of them hold.

    Every row is its own reporter's, however old the others' are; of two answers for one node the newer one counts.
    """
    moments = {found.host: moment(found.timestamp) for found in facts}
    newest = max((made for made in moments.values() if made), default=None)
    stale = frozenset(
        host
        for host, made in moments.items()
        if made and newest and max_age is not None and (newest - made).total_seconds() > max_age
    )
    by_age = sorted(facts, key=lambda found: moments[found.host] or datetime.datetime.min)
    counted = collections.Counter(view_of(found) for found in facts if view_of(found))
    nodes = max(counted, key=lambda nodes: (counted[nodes], len(nodes), nodes)) if counted else ()
    by_address = {found.address: found for found in by_age if found.address in nodes}
    fresh = {address: found for address, found in by_address.items() if found.host not in stale}
    cells = {address: dict(found.links) for address, found in fresh.items() if found.links}
    rows: dict[str, Row] = {
        address: found.row for address, found in fresh.items() if found.row is not None and view_of(found) == nodes
    }
    proved = quorum.prove(rows, nodes).members
    state = "UP" if nodes and len(proved) == len(nodes) else "DEGRADED" if proved else "DOWN" if nodes else ""
    matrix = tuple(tuple(cells[a].get(b) if a in cells else None for b in nodes) for a in nodes)
    apart = tuple(
        Pair(a, b, matrix[i][j], matrix[j][i])
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
        if i < j and not matrix[i][j] == matrix[j][i] == CONNECTED
    )
    return DomainReport(
        domain=name,
        state=state,
        digest=node_map.digest(nodes) if nodes else "",
        nodes=tuple(
            _node(number, address, by_address.get(address), nodes, stale) for number, address in enumerate(nodes)
        ),
        matrix=matrix,
        proved=proved,
        apart=apart,
        disagreeing=tuple(found.host for found in facts if view_of(found) and view_of(found) != nodes),
        unreachable=tuple(found.host for found in facts if not found.known),
        without_map=tuple(found.host for found in facts if found.known and not view_of(found)),
        verdicts=dict(sorted(collections.Counter(found.verdict for found in facts if found.verdict).items())),
    )


def _node(number: int, address: str, found: Facts | None, nodes: tuple[str, ...], stale: t.Collection[str]) -> Node:
    if found is None:
        return Node(number, address, "", "", "", "", "", "", None, "", False)
    held = view_of(found)
    return Node(
        id=number,
        address=address,
        host=found.host,
        state=found.daemon_state,
        verdict=found.verdict,
        version=found.daemon_version,
        summary=found.summary,
        digest=node_map.digest(held),
        agrees=held == nodes,
        timestamp=found.timestamp,
        stale=found.host in stale,
    )
