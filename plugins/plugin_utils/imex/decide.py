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
from .work import leaving_work, member_work, with_rounds


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
    asked: dict[str, Probe] = {}
    busy: set[str] = set()
    for unit in units:
        _settle(unit, plan, facts, answers, findings, leaving, asked, busy, probe_timeout)
    return _decision(plan, facts, findings, leaving, units, asked, busy)


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
        for address in found.holds:
            theirs = key(names[address]) if address in names else None
            # A domain that stays as it is has no part in another's change.
            if theirs and not any(name in findings and findings[name].decision == UNTOUCHED for name in (mine, theirs)):
                parent[top(mine)] = top(theirs)
    units: dict[str, list[str]] = {}
    for name in sorted(parent):
        units.setdefault(top(name), []).append(name)
    return [tuple(names) for names in units.values()]


def _settle(
    unit: tuple[str, ...],
    plan: Plan,
    facts: FactsOf,
    answers: guard.Answers | None,
    findings: dict[str, Finding],
    leaving: dict[str, list[Reason]],
    asked: dict[str, Probe],
    busy: set[str],
    probe_timeout: float,
) -> None:
    """Apply the guard to one unit; one refusal refuses all of it.

    Fills asked with whom to ask first, and busy with hosts of the per-job model that a job holds: its epilog ends that.
    """
    refusals: dict[str, list[Reason]] = {name: [] for name in unit}
    for name in unit:
        if name in leaving:
            refusals[name] += leaving[name]
            stopping = _stopping_leaver(name, plan, facts)
            if answers is None:
                asked.update({host: Probe(timeout=probe_timeout) for host in stopping})
            elif plan.hosts[name].kind == IDLE and stopping and answers.get(name, Activity()).job_records:
                busy.add(name)
            elif not _allowed(name, plan):
                refusals[name] += guard.occupied_all(stopping, facts, answers)
            continue
        finding = findings[name]
        if finding.decision == REFUSED:
            refusals[name] += finding.reasons
            continue
        view = finding.view
        suspects = guard.suspects(view, plan, facts, finding.restarts_all) if finding.full else guard.Suspects()
        stopping = [host for host in finding.full if facts[host].running]
        if answers is None:
            ports = guard.ports(view, facts, plan.hosts[view.here[0]].planned) if view.here else ()
            probe = (
                Probe(suspects.addresses, ports, probe_timeout) if suspects.addresses else Probe(timeout=probe_timeout)
            )
            asked.update(dict.fromkeys(view.here if suspects.addresses else stopping, probe))
            continue
        refusals[name] += guard.answering(suspects, view, plan, answers)
        if not view.domain.shared.allow_active_jobs:
            refusals[name] += guard.occupied_all(stopping, facts, answers)
    broken = [name for name in unit if refusals[name]]
    if not broken:
        return
    for name in unit:
        cause = Reason(
            "unit", f"{name} exchanges hosts with {enumerate_some(broken)}, which is refused: all or nothing"
        )
        own = tuple(refusals[name]) or (cause,)
        if name in leaving:
            leaving[name] = list(own)
        elif findings[name].decision != UNTOUCHED:
            findings[name] = findings[name]._replace(decision=REFUSED, reasons=own, full=())
    for host in list(asked):
        if _unit_name(host, plan, leaving) in unit:
            del asked[host]


def _unit_name(host: str, plan: Plan, leaving: t.Mapping[str, t.Any]) -> str | None:
    return host if host in leaving else plan.hosts[host].domain


def _stopping_leaver(host: str, plan: Plan, facts: FactsOf) -> list[str]:
    return [host] if host in facts and facts[host].known and facts[host].running else []


def _allowed(host: str, plan: Plan) -> bool:
    domain = plan.domains.get(plan.hosts[host].domain or "")
    return domain is not None and domain.shared.allow_active_jobs


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
        elif own is not None and planned.kind == MEMBER and own.decision == REFUSED:
            work = work._replace(decision=REFUSED, reason=_joined(own.reasons))
        elif own is not None and planned.kind == MEMBER and facts.get(host, Facts(host)).known:
            finding = findings[own.name]
            work = member_work(host, plan, facts[host], own.nodes, own.decision, finding.view, host in finding.full)
            work = work._replace(
                reason=_joined(reason for reason in own.reasons if host in reason.hosts) or work.reason
            )
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
