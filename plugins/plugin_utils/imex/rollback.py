# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kept generation every domain goes back to: on all members together, or not at all. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, quorum

from . import guard
from .facts import Facts
from .records import (
    COORDINATED,
    OUTSIDE,
    REFUSED,
    UNTOUCHED,
    Decision,
    DomainDecision,
    DomainPlan,
    HostDecision,
    Plan,
    Reason,
    Wait,
    enumerate_some,
)
from .view import View, before, look

PREVIOUS = "previous"


class Generation(t.NamedTuple):
    """What a host has kept: id, label (the run that kept it), when, its map, and whether the unit was enabled then."""

    id: str
    label: str
    saved_at: float
    nodes: tuple[str, ...]
    enabled: bool


def generations(result: t.Any) -> tuple[Generation, ...]:
    """Read the answer of imex_generation (state=listed), newest first."""
    found = result.get("generations") if isinstance(result, t.Mapping) else None
    kept = [
        Generation(
            id=str(item["id"]),
            label=str(item.get("label") or ""),
            saved_at=float(item.get("saved_at") or 0),
            nodes=tuple(node_map.canonical(str(node)) for node in item.get("nodes") or ()),
            enabled=str(item.get("unit_file_state") or "").startswith("enabled"),
        )
        for item in found or ()
    ]
    return tuple(sorted(kept, key=lambda item: item.saved_at, reverse=True))


def rollback(
    plan: Plan,
    facts: t.Mapping[str, Facts],
    kept: t.Mapping[str, tuple[Generation, ...]],
    answers: guard.Answers,
    label: str = PREVIOUS,
) -> Decision:
    """Decide for every domain of the play. label: of a generation, or "previous" for the newest that all members have."""
    domains: dict[str, DomainDecision] = {}
    hosts: dict[str, HostDecision] = {
        host.host: HostDecision(host.host, host.domain, host.address, host.kind)
        for host in plan.hosts.values()
        if host.presence != OUTSIDE
    }
    for name, domain in plan.domains.items():
        if not any(host in hosts for host in domain.members):
            continue
        view = look(domain, plan, facts)
        chosen = _choose(view, kept, label)
        reasons = list(_refusals(view, facts, kept, chosen, answers, label))
        nodes = chosen[view.here[0]].nodes if chosen and view.here else ()
        found = before(view, plan, facts)
        decision = REFUSED if reasons else COORDINATED
        if not reasons and all(_has(facts[host], chosen[host].nodes) for host in view.here):
            decision = UNTOUCHED
        expected = tuple(node for node in nodes if plan.host_at().get(node) in view.here)
        domains[name] = DomainDecision(
            name=name,
            decision=decision,
            reasons=tuple(reasons),
            warnings=(
                "the next rollout brings the inventory's plan back: change the inventory too, if this is to stay",
            ),
            nodes=nodes,
            digest=node_map.digest(nodes) if nodes else "",
            unit=(name,),
            rounds=1 if decision == COORDINATED else 0,
            at_quorum_before=found.met,
            before=found,
            expected=expected,
            required=_required(domain, len(expected)),
            required_nodes=tuple(node for node in domain.required_nodes if node in expected),
            rollback=domain.shared.rollback,
        )
        for host in view.here:
            if decision == COORDINATED:
                hosts[host] = _work(hosts[host], facts[host], chosen[host], len(expected))
            elif decision == REFUSED:
                hosts[host] = hosts[host]._replace(decision=REFUSED, reason="; ".join(r.message for r in reasons))
    work = any(host.work for host in hosts.values())
    return Decision(domains, hosts, plan.run_id, work, False, 1 if work else 0)


def _choose(view: View, kept: t.Mapping[str, tuple[Generation, ...]], label: str) -> dict[str, Generation]:
    """The generation of each member; empty where they have none in common."""
    lists = [kept.get(host, ()) for host in view.here]
    if not lists:
        return {}
    labels = [item.label for item in lists[0]] if label == PREVIOUS else [label]
    for word in labels:
        found = [next((item for item in items if word in (item.label, item.id)), None) for items in lists]
        if all(item is not None for item in found):
            return {host: item for host, item in zip(view.here, found) if item is not None}
    return {}


def _refusals(
    view: View,
    facts: t.Mapping[str, Facts],
    kept: t.Mapping[str, tuple[Generation, ...]],
    chosen: t.Mapping[str, Generation],
    answers: guard.Answers,
    label: str,
) -> t.Iterator[Reason]:
    name = view.domain.name
    yield from view.domain.refused
    if view.domain.refused:
        return
    if view.cut:
        text = f"domain {name}: {enumerate_some(view.cut)} are outside the play: a rollback needs all members"
        yield Reason("cut", text, view.cut)
    away = (*view.lost, *view.broken)
    if away:
        text = f"domain {name}: {enumerate_some(away)} cannot be asked: a rollback needs all members, or maintenance for those"
        yield Reason("not_enough_reachable", text, away)
    if not chosen:
        lacking = [host for host in view.here if not kept.get(host)]
        what = "no generation" if label == PREVIOUS else f"no generation {label!r}"
        text = f"domain {name}: its members have {what} in common"
        text += f" ({enumerate_some(lacking)} kept none)" if lacking else ": name one that imex_generation lists on all"
        yield Reason("no_generation", text, tuple(lacking))
        return
    if len({item.nodes for item in chosen.values()}) > 1:
        text = f"domain {name}: its members kept different maps in that generation, so it would not come up"
        yield Reason("generations_differ", text, tuple(chosen))
    if not view.domain.shared.allow_active_jobs:
        running = [host for host in view.here if facts[host].running and not _has(facts[host], chosen[host].nodes)]
        yield from guard.occupied_all(running, facts, answers)


def _has(found: Facts, nodes: tuple[str, ...]) -> bool:
    """True when a host is already where the generation would bring it."""
    return found.configured == nodes and (
        found.agrees(nodes) if nodes and found.running else found.running == bool(nodes)
    )


def _required(domain: DomainPlan, total: int) -> int:
    try:
        return quorum.required(domain.quorum, total) if total else 0
    except InputError:
        return total  # a count that the smaller domain of then cannot have


def _work(work: HostDecision, found: Facts, chosen: Generation, total: int) -> HostDecision:
    start = bool(chosen.nodes)
    return work._replace(
        decision=COORDINATED,
        reason=f"generation {chosen.label or chosen.id}",
        work=True,
        involved=True,
        prove=start,
        stop=found.alive,
        write=False,
        restore=True,
        generation=chosen.id,
        start=start,
        enable=chosen.enabled,
        disable=not chosen.enabled,
        unit=True,
        nodes=chosen.nodes,
        wait=Wait(total, chosen.nodes, total),
    )
