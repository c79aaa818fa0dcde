# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision for every domain, from the plan and from what its members have loaded. Pure.

A domain gets one decision that all its members read; domains that exchange hosts are decided as one unit.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map

from . import guard
from .examine import FactsOf, Finding, examine
from .facts import FAILED, MISSING, Activity, Facts
from .records import (
    IDLE,
    LEAVING,
    MEMBER,
    OUTSIDE,
    REFUSED,
    UNTOUCHED,
    Decision,
    DomainDecision,
    HostDecision,
    Plan,
    Probe,
    Reason,
    enumerate_some,
)
from .rounds import with_rounds
from .work import leaving_work, member_work


def decide(
    plan: Plan,
    facts: FactsOf,
    answers: guard.Answers | None = None,
    check_mode: bool = False,
    probe_timeout: float = 2,
) -> Decision:
    """Decide for every domain with a host in the play, and for every host of the play without one.

    answers: None before the hosts were asked who works there and who answers; the decision then says whom to ask.
    """
    findings = {
        name: examine(domain, plan, facts, check_mode)
        for name, domain in plan.domains.items()
        if any(plan.hosts[host].presence != OUTSIDE for host in domain.members or domain.everyone)
    }
    leaving = {
        host.host: leaving_refusal(host.host, plan, facts)
        for host in plan.hosts.values()
        if host.presence != OUTSIDE and host.kind in LEAVING
    }
    units = unite(plan, facts, findings, leaving)
    for name in dict.fromkeys(name for unit in units for name in unit if name in plan.domains and name not in findings):
        findings[name] = examine(plan.domains[name], plan, facts, check_mode)
    guarding = Guarding(plan, facts, answers, probe_timeout, {}, set())
    for unit in units:
        _settle(unit, guarding, findings, leaving)
    return _decision(plan, facts, findings, leaving, units, guarding.asked, guarding.busy)


def leaving_refusal(host: str, plan: Plan, facts: FactsOf) -> list[Reason]:
    """Why a host that is to stop cannot be handled now."""
    found = facts.get(host, Facts(host))
    reasons = list(plan.hosts[host].problems)
    if not reasons and plan.hosts[host].contact and found.state in (FAILED, MISSING):
        reasons.append(Reason("facts_unknown", f"{host} answers, but could not be inspected: {found.message}", (host,)))
    return reasons


def unite(
    plan: Plan, facts: FactsOf, findings: t.Mapping[str, Finding], leaving: t.Mapping[str, t.Any]
) -> list[tuple[str, ...]]:
    """Domains and leaving hosts that hold each other's addresses: they are changed in one apply, or not at all."""
    parent = {name: name for name in (*findings, *leaving)}

    def top(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    def key(host: str) -> str | None:
        planned = plan.hosts[host]
        if planned.kind in LEAVING:
            return host if host in leaving else planned.domain
        return planned.domain

    names = plan.host_at()
    for host, found in facts.items():
        mine = key(host)
        if mine is None or not found.known:
            continue
        others = [key(names[address]) for address in found.holds if address in names]
        if host in leaving and (found.alive or found.configured):
            others.append(plan.hosts[host].domain)  # who leaves a domain does so with it
        for theirs in others:
            # A domain that stays as it is has no part in another's change.
            if theirs and not any(name in findings and findings[name].decision == UNTOUCHED for name in (mine, theirs)):
                parent[top(mine)] = top(theirs)
    units: dict[str, list[str]] = {}
    for name in sorted(parent):
        units.setdefault(top(name), []).append(name)
    return [tuple(names) for names in units.values()]


class Guarding(t.NamedTuple):
    """What the guard works with. answers: None before anybody was asked; then asked is filled with whom to ask.

    busy is filled with the hosts of the per-job model that a job holds: its epilog ends that, no rollout does.
    """

    plan: Plan
    facts: FactsOf
    answers: guard.Answers | None
    probe_timeout: float
    asked: dict[str, Probe]
    busy: set[str]


def _settle(
    unit: tuple[str, ...], guarding: Guarding, findings: dict[str, Finding], leaving: dict[str, list[Reason]]
) -> None:
    """Apply the guard to one unit; one refusal refuses all of it."""
    refusals: dict[str, list[Reason]] = {}
    for name in unit:
        known = (
            leaving[name] if name in leaving else findings[name].reasons if findings[name].decision == REFUSED else ()
        )
        refusals[name] = list(known)
    if not any(refusals.values()):
        for name in unit:
            refusals[name] += (
                _guard_leaver(name, guarding) if name in leaving else _guard_domain(findings[name], guarding)
            )
    broken = [name for name in unit if refusals[name]]
    for name in unit if broken else ():
        text = f"{name} exchanges hosts with {enumerate_some(broken)}, which is refused: all or nothing"
        own = refusals[name] or [Reason("unit", text)]
        if name in leaving:
            leaving[name] = own
        elif findings[name].decision != UNTOUCHED:
            findings[name] = findings[name]._replace(decision=REFUSED, reasons=tuple(own), full=())
    for host in list(guarding.asked) if broken else ():
        if (host if host in leaving else guarding.plan.hosts[host].domain) in unit:
            del guarding.asked[host]


def _guard_leaver(host: str, guarding: Guarding) -> list[Reason]:
    planned, found = guarding.plan.hosts[host], guarding.facts.get(host, Facts(host))
    if not (found.known and found.running):
        return []
    if guarding.answers is None:
        guarding.asked[host] = Probe(timeout=guarding.probe_timeout)
        return []
    if planned.kind == IDLE and guarding.answers.get(host, Activity()).job_records:
        guarding.busy.add(host)
        return []
    return [] if planned.allow_active_jobs else guard.occupied_all([host], guarding.facts, guarding.answers)


def _guard_domain(finding: Finding, guarding: Guarding) -> list[Reason]:
    if not finding.full:
        return []
    view, facts, plan = finding.view, guarding.facts, guarding.plan
    suspects = guard.suspects(view, plan, facts, finding.restarts_all)
    stopping = [host for host in finding.full if facts[host].running]
    if guarding.answers is None:
        probe = Probe(timeout=guarding.probe_timeout)
        if suspects.addresses:
            probe = probe._replace(
                addresses=suspects.addresses, ports=guard.ports(view, facts, plan.hosts[view.here[0]].planned)
            )
        guarding.asked.update(dict.fromkeys(view.here if suspects.addresses else stopping, probe))
        return []
    reasons = guard.answering(suspects, view, plan, guarding.answers)
    reasons += guard.uninstallable(finding.full, guarding.answers)
    if not view.domain.shared.allow_active_jobs:
        reasons += guard.occupied_all(stopping, facts, guarding.answers)
    return reasons


def _decision(
    plan: Plan,
    facts: FactsOf,
    findings: t.Mapping[str, Finding],
    leaving: t.Mapping[str, list[Reason]],
    units: t.Sequence[tuple[str, ...]],
    asked: t.Mapping[str, Probe],
    busy: t.Collection[str],
) -> Decision:
    """What is done on every host of the play, from what was decided for every domain."""
    domains: dict[str, DomainDecision] = {}
    for name, finding in findings.items():
        view = finding.view
        unit = next((names for names in units if name in names), (name,))
        untouched = (REFUSED, UNTOUCHED)
        domains[name] = DomainDecision(
            name=name,
            decision=finding.decision,
            reasons=finding.reasons,
            warnings=finding.warnings,
            nodes=view.nodes,
            digest=node_map.digest(view.nodes) if view.nodes else "",
            unit=tuple(other for other in unit if other in findings),
            leaving=tuple(other for other in unit if other in leaving),
            at_quorum_before=finding.before.met,
            first=bool(view.here) and not any(facts[host].configured or facts[host].running for host in view.here),
            before=finding.before,
            expected=tuple(node for node in view.nodes if plan.host_at().get(node) in view.domain.members),
            required=view.domain.required,
            required_nodes=view.domain.required_nodes,
            rollback=view.domain.shared.rollback,
            rounds=0 if finding.decision in untouched else 1,
        )
    hosts: dict[str, HostDecision] = {}
    for host, planned in plan.hosts.items():
        if planned.presence == OUTSIDE:
            continue
        work = HostDecision(host, planned.domain, planned.address, planned.kind)
        own = domains.get(planned.domain or "")
        if host in leaving:
            work = _leaver(host, plan, facts, leaving[host], host in busy)
        elif planned.kind == MEMBER and own is None:
            work = work._replace(decision=REFUSED, reason=_joined(planned.problems))
        elif own is not None and planned.kind == MEMBER:
            work = work._replace(decision=own.decision)
            if own.decision != REFUSED and facts.get(host, Facts(host)).known:
                finding = findings[own.name]
                work = member_work(host, plan, facts[host], own.nodes, own.decision, finding.view, host in finding.full)
            mine = [reason for reason in own.reasons if own.decision == REFUSED or host in reason.hosts]
            work = work._replace(reason=_joined(mine))
        probe = asked.get(host)
        hosts[host] = work if probe is None else work._replace(confirm=True, involved=True, probe=probe)
    hosts, rounds = with_rounds(hosts, findings)
    domains = {name: own._replace(rounds=rounds.get(name, own.rounds)) for name, own in domains.items()}
    return Decision(
        domains=domains,
        hosts=hosts,
        run_id=plan.run_id,
        work=any(work.work for work in hosts.values()),
        confirm=bool(asked),
        rounds=max([work.round + 1 for work in hosts.values() if work.work], default=0),
    )


def _leaver(host: str, plan: Plan, facts: FactsOf, refusals: t.Sequence[Reason], busy: bool) -> HostDecision:
    planned = plan.hosts[host]
    if refusals:
        return HostDecision(host, planned.domain, planned.address, planned.kind, REFUSED, _joined(refusals))
    found = facts.get(host, Facts(host))
    if not found.known or busy:
        reason = "a job holds this host, its epilog will clean up" if busy else found.message
        return HostDecision(host, planned.domain, planned.address, planned.kind, UNTOUCHED, reason)
    return leaving_work(host, plan, found)


def _joined(reasons: t.Iterable[Reason]) -> str:
    return "; ".join(reason.message for reason in reasons)
