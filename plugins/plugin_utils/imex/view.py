# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a domain is, as inspected: who is there, what they hold, and in which order the map is to be. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, quorum
from ansible_collections.hpc.fabric.plugins.module_utils.imex.quorum import Row
from ansible_collections.hpc.fabric.plugins.module_utils.imex.words import CONNECTED

from .facts import FAILED, MISSING, UNREACHABLE, Facts
from .records import OUTSIDE, Before, DomainPlan, Plan

MAP_MISMATCH, VERSION_MISMATCH = "NODE_MAP_MISMATCH", "VERSION_MISMATCH"


class View(t.NamedTuple):
    """The active members of a domain, sorted by what is known of them; names are in map order.

    here: inspected; lost: in the play, but not reachable; broken: reachable, but not inspected; cut: outside the play.
    """

    domain: DomainPlan
    nodes: tuple[str, ...]
    here: tuple[str, ...]
    lost: tuple[str, ...]
    broken: tuple[str, ...]
    cut: tuple[str, ...]
    running: tuple[str, ...]
    stopped: tuple[str, ...]
    # Running members that hold nodes (and, once a quorum does, the keys that peers share), and those that do not.
    holders: tuple[str, ...]
    stale: tuple[str, ...]
    # Of the members outside the play those that are known to run with nodes.
    seen: tuple[str, ...] = ()

    @property
    def living(self) -> bool:
        """True when enough members for quorum hold the plan: the domain has been changed to it before."""
        return bool(self.holders) and len(self.holders) + len(self.cut) >= self.domain.required


def look(domain: DomainPlan, plan: Plan, facts: t.Mapping[str, Facts]) -> View:
    """Sort the members of one domain."""
    nodes = final_order(domain, facts)
    where = {host: plan.hosts[host].address or "" for host in domain.members}
    members = sorted(domain.members, key=lambda host: nodes.index(where[host]) if where[host] in nodes else len(nodes))
    sorts: dict[str, list[str]] = {"here": [], "lost": [], "broken": [], "cut": []}
    for host in members:
        state = facts[host].state if host in facts else MISSING
        if plan.hosts[host].presence == OUTSIDE:
            sorts["cut"].append(host)
        elif state == UNREACHABLE:
            sorts["lost"].append(host)
        else:
            sorts["broken" if state in (FAILED, MISSING) else "here"].append(host)
    here = sorts["here"]
    running = tuple(host for host in here if facts[host].running)
    sure = [host for host in running if facts[host].loaded == nodes]

    def connected(host: str) -> bool:
        # Daemons compare their maps before they connect (reference 1.7), so a link with one that holds the plan is evidence.
        return facts[host].loaded is None and any((where[host], CONNECTED) in facts[peer].links for peer in sure)

    holders = tuple(host for host in running if facts[host].agrees(nodes) or connected(host))
    # Where a quorum runs with all that peers must share, who does not is the one that is late, and not all the others.
    current = tuple(host for host in holders if not facts[host].pending_shared)
    if current and len(current) + len(sorts["cut"]) >= domain.required:
        holders = current
    return View(
        domain=domain,
        nodes=nodes,
        here=tuple(here),
        lost=tuple(sorts["lost"]),
        broken=tuple(sorts["broken"]),
        cut=tuple(sorts["cut"]),
        running=running,
        stopped=tuple(host for host in here if host not in running),
        holders=holders,
        stale=tuple(host for host in running if host not in holders),
        seen=_seen(sorts["cut"], where, nodes, [facts[host] for host in here]),
    )


def _seen(
    cut: t.Iterable[str], where: t.Mapping[str, str], nodes: tuple[str, ...], here: t.Sequence[Facts]
) -> tuple[str, ...]:
    """Members outside the play whose daemons told a member of the play that they are READY with the plan."""
    said = {peer.address for found in here for peer in found.peers if peer.ready and peer.holds == nodes}
    return tuple(host for host in cut if where[host] in said)


def final_order(domain: DomainPlan, facts: t.Mapping[str, Facts]) -> tuple[str, ...]:
    """The map, in its final order.

    imex_order keep: the order the running members have loaded, if they agree; else the one configured; else numeric.
    """
    if domain.order != "keep":
        return domain.nodes
    known = [facts[host] for host in domain.members if host in facts and facts[host].known]
    loaded = [found.loaded for found in known if found.running and found.loaded]
    for maps in (loaded, [found.configured for found in known if found.configured]):
        order = agreed(maps, domain.nodes)
        if order is not None:
            return node_map.arrange(domain.nodes, "keep", order)
    return domain.nodes


def agreed(maps: t.Sequence[tuple[str, ...]], wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    """The order of the wanted nodes that all maps agree on; None where there is no map, or they contradict each other."""
    kept = [tuple(node for node in nodes if node in wanted) for nodes in maps]
    counted = collections.Counter(nodes for nodes in kept if nodes)
    if not counted:
        return None
    order: tuple[str, ...] = ()
    for nodes in sorted(counted, key=lambda nodes: (-counted[nodes], -len(nodes), nodes)):
        order += tuple(node for node in nodes if node not in order)
    same = all([node for node in order if node in nodes] == list(nodes) for nodes in counted)
    return order if same else None


def rows(plan: Plan, facts: t.Mapping[str, Facts], cut: t.Iterable[str] = ()) -> dict[str, Row]:
    """The own row of every inspected host, by address. cut: members outside the play, see with_cut."""
    found = {
        str(plan.hosts[host].address): fact.row
        for host, fact in facts.items()
        # A start that does not end is killed when its time is over, whatever the daemon says meanwhile.
        if fact.row is not None and plan.hosts[host].address and not (fact.unit is not None and fact.unit.starting)
    }
    return with_cut(found, [str(plan.hosts[host].address) for host in cut])


def with_cut(rows: t.Mapping[str, Row], cut: t.Sequence[str]) -> dict[str, Row]:
    """Rows for members outside the play: that a member of the play is connected with them is believed."""
    result = dict(rows)
    for address in cut:
        peers = {peer for peer, row in rows.items() if address in row.connected}
        if peers:
            result[address] = Row(True, frozenset(peers | set(cut)))
    return result


def most_held(maps: t.Iterable[tuple[str, ...]], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The map that most have; of equals the one with most of the wanted nodes, then the longest. Empty for none."""
    counted = collections.Counter(nodes for nodes in maps if nodes)
    return max(counted, key=lambda m: (counted[m], len(set(m) & set(wanted)), len(m), m)) if counted else ()


def before(view: View, plan: Plan, facts: t.Mapping[str, Facts]) -> Before:
    """The domain as it is now: the map that most running members hold, and whether it is at quorum."""
    nodes = most_held([facts[host].holds for host in view.running], view.nodes)
    if not nodes:
        return Before()
    names = plan.host_at()
    expected = tuple(node for node in nodes if names.get(node) not in view.domain.maintenance)
    needed = tuple(node for node in view.domain.required_nodes if node in expected)
    try:
        required = quorum.required(view.domain.quorum, len(expected))
    except InputError:
        required = len(expected)  # a domain that grows: all it had
    # A row is evidence for the map that its daemon holds.
    agreeing = {host: fact for host, fact in facts.items() if fact.holds == nodes}
    proof = quorum.prove(rows(plan, agreeing, view.cut), expected, required or "all", needed)
    return Before(nodes, required, needed, proof.met, len(expected), len(proof.members))


def mismatched(view: View, plan: Plan, facts: t.Mapping[str, Facts], word: str) -> tuple[str, ...]:
    """Running members that report word of each other; a peer that cannot be restarted with them does not count."""
    address = {host: plan.hosts[host].address for host in view.running}
    found = []
    for host in view.running:
        peers = {peer for peer, status in facts[host].links if status == word}
        others = [other for other in view.running if other != host and address[other] in peers]
        found += [host, *others] if others else []
    return tuple(dict.fromkeys(found))
