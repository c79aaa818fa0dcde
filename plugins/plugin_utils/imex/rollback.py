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
    Before,
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
    """What a host has kept: id, label (the run that kept it), when (ISO 8601, UTC), its map, whether the unit was enabled
    then, and whether any of its files differs from the present ones."""

    id: str
    label: str
    saved_at: str
    nodes: tuple[str, ...]
    enabled: bool
    differs: bool


def generations(result: t.Any) -> tuple[Generation, ...]:
    """Read the answer of imex_generation (state=listed), which has the newest first."""
    found = result.get("generations") if isinstance(result, t.Mapping) else None
    return tuple(
        Generation(
            id=str(item["id"]),
            label=str(item.get("label") or ""),
            saved_at=str(item.get("saved_at") or ""),
            nodes=tuple(node_map.canonical(str(node)) for node in item.get("nodes") or ()),
            enabled=str(item.get("unit_file_state") or "").startswith("enabled"),
            differs=bool(item.get("differs", True)),
        )
        for item in found or ()
    )


def rollback(
    plan: Plan,
    facts: t.Mapping[str, Facts],
    kept: t.Mapping[str, tuple[Generation, ...]],
    answers: guard.Answers,
    label: str = PREVIOUS,
) -> Decision:
    """Decide for every domain of the play. label: of a generation, or "previous" for what the last run replaced.

    The last run is one for all domains: one that it did not touch is left alone, whatever it has kept of earlier ones.
    """
    wanted = _last_run(_asked(plan, facts), kept) if label == PREVIOUS else label
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
        # A host that left the domain since may come back with it.
        here = (*view.here, *(host for host in domain.absent if host in hosts and host in facts and facts[host].known))
        chosen = _choose(view, here, kept, wanted or label)
        maps = {item.nodes for item in chosen.values() if item.nodes}
        nodes = next(iter(maps)) if len(maps) == 1 else ()
        found = before(view, plan, facts)
        own = dict.fromkeys(item.label for host in here for item in kept.get(host, ()))
        if label == PREVIOUS and wanted and wanted not in own and not domain.refused:
            last = f"; its own last change is run {next(iter(own))}: name it, if that is meant" if own else ""
            domains[name] = _left_alone(domain, found, f"left alone, run {wanted} did not change it{last}")
            continue
        reasons = list(_refusals(view, plan, facts, kept, chosen, answers, label))
        decision = REFUSED if reasons else COORDINATED
        if not reasons and all(_has(facts[host], item) for host, item in chosen.items()):
            decision = UNTOUCHED
        members = [host for host, item in chosen.items() if item.nodes]
        expected = tuple(node for node in nodes if plan.host_at().get(node) in members)
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
        for host in chosen if decision == COORDINATED else view.here:
            if decision == COORDINATED:
                hosts[host] = _work(hosts[host], facts[host], chosen[host], len(expected))
            elif decision == REFUSED:
                hosts[host] = hosts[host]._replace(decision=REFUSED, reason="; ".join(r.message for r in reasons))
    work = any(host.work for host in hosts.values())
    return Decision(domains, hosts, plan.run_id, work, False, 1 if work else 0)


def _asked(plan: Plan, facts: t.Mapping[str, Facts]) -> list[str]:
    """The hosts of domains that could be asked."""
    return [host for host, found in facts.items() if found.known and plan.hosts[host].domain]


def _last_run(hosts: t.Iterable[str], kept: t.Mapping[str, tuple[Generation, ...]]) -> str | None:
    """The label of the newest generation of any host whose files differ from the present ones."""
    found = [item for host in hosts for item in kept.get(host, ()) if item.differs]
    return max(found, key=lambda item: item.saved_at).label if found else None


def _left_alone(domain: DomainPlan, found: Before, why: str) -> DomainDecision:
    expected = tuple(node for node in found.nodes if node in domain.nodes)
    return DomainDecision(
        name=domain.name,
        decision=UNTOUCHED,
        warnings=(why,),
        nodes=found.nodes,
        digest=node_map.digest(found.nodes) if found.nodes else "",
        unit=(domain.name,),
        at_quorum_before=found.met,
        # It is not for a rollback to fail a domain that it has nothing to do with.
        before=found._replace(met=True),
        expected=expected,
        required=_required(domain, len(expected)),
        rollback=domain.shared.rollback,
    )


def _choose(
    view: View, here: t.Sequence[str], kept: t.Mapping[str, tuple[Generation, ...]], label: str
) -> dict[str, Generation]:
    """The generation of each member, and of those who left that have it too; empty where the members share none."""
    lists = {host: kept.get(host, ()) for host in view.here}
    if not lists:
        return {}
    labels = [item.label for item in next(iter(lists.values()))] if label == PREVIOUS else [label]
    for word in labels:
        found = {
            host: next((item for item in kept.get(host, ()) if word in (item.label, item.id)), None) for host in here
        }
        chosen = {host: item for host, item in found.items() if item is not None}
        if all(host in chosen for host in view.here) and (
            label != PREVIOUS or any(item.differs for item in chosen.values())
        ):
            return chosen
    return {}


def _refusals(
    view: View,
    plan: Plan,
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
    maps = list(dict.fromkeys(item.nodes for item in chosen.values() if item.nodes))
    if len(maps) > 1:
        text = f"domain {name}: its members kept different maps in that generation, so it would not come up"
        yield Reason("generations_differ", text, tuple(chosen))
    strangers = [
        host
        for host in (plan.host_at().get(node) for nodes in maps for node in nodes)
        if host and plan.hosts[host].domain not in (None, name)
    ]
    if strangers:
        text = f"domain {name}: {enumerate_some(strangers)} of that generation belong to another domain now"
        yield Reason("overlap", text, tuple(strangers))
    if not view.domain.shared.allow_active_jobs:
        running = [host for host in chosen if facts[host].running and not _has(facts[host], chosen[host])]
        yield from guard.occupied_all(running, facts, answers)


def _has(found: Facts, chosen: Generation) -> bool:
    """True when a host is already where the generation would bring it."""
    if chosen.differs or found.running != bool(chosen.nodes):
        return False
    return not found.running or found.agrees(chosen.nodes)


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
