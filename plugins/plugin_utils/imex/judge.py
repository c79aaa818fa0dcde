# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what was applied is proved, and what is put back where it is not. Pure.

Apply tasks fail no host: their results come here as data.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import quorum
from ansible_collections.hpc.fabric.plugins.module_utils.imex.quorum import Row

from .facts import FAILED, MISSING, OK, UNREACHABLE, Facts, Step
from .records import (
    ADOPT,
    COORDINATED,
    JOIN,
    LEAVE,
    LOCAL,
    Decision,
    DomainDecision,
    DomainVerdict,
    Dropped,
    HostDecision,
    HostVerdict,
    Plan,
    Unproven,
    Verdict,
    Wait,
    enumerate_some,
)
from .view import with_cut

PROVED = (JOIN, LOCAL, COORDINATED)
LOG_LINES = 5


class Outcome(t.NamedTuple):
    """How the tasks of one host ended, in their order; proof: what it says of itself afterwards."""

    stop: Step = Step()
    package: Step = Step()
    write: Step = Step()
    start: Step = Step()
    proof: Facts = Facts("")

    @property
    def changed(self) -> bool:
        return any(step.changed for step in (self.stop, self.package, self.write, self.start))

    @property
    def trouble(self) -> str:
        """The first step that did not succeed, and why; empty when all did, or were not wanted."""
        for what, step in (
            ("stopping the daemon", self.stop),
            ("installing the package", self.package),
            ("writing the files", self.write),
            ("starting the daemon", self.start),
        ):
            if step.state == UNREACHABLE:
                return f"lost while {what}: {step.message}"
            if step.state == FAILED:
                return f"{what} failed: {step.message or 'no message'}"
        return ""

    @property
    def lost(self) -> bool:
        """True when it could not be reached any more, from its write on."""
        return any(step.state == UNREACHABLE for step in (self.write, self.start)) or (
            self.write.state == OK and self.proof.state == UNREACHABLE
        )


OutcomeOf = t.Mapping[str, Outcome]
FactsOf = t.Mapping[str, Facts]


def judge(
    plan: Plan,
    decision: Decision,
    inspected: FactsOf,
    outcomes: OutcomeOf,
    previous: Verdict | None = None,
    round_: int = 0,
    check_mode: bool = False,
) -> Verdict:
    """Judge the rounds up to round_. previous: the verdict of the round before, whose failures stand.

    check_mode: nothing was applied, so nothing can be proved; every round goes on.
    """
    # A domain that failed, or that has had its last round, is not judged again: what is asked later is of others.
    settled = {
        name: verdict
        for name, verdict in (previous.domains if previous else {}).items()
        if previous and (not verdict.go_on or previous.round >= decision.domains[name].rounds - 1)
    }
    hosts: dict[str, HostVerdict] = {}
    for host, work in decision.hosts.items():
        earlier = previous.hosts.get(host) if previous else None
        if earlier and any(name in settled for name in _units_of(work, decision)):
            hosts[host] = earlier
            continue
        mine = outcomes.get(host, Outcome()) if work.involved else Outcome()
        trouble = mine.trouble if work.work and work.round == round_ else ""
        hosts[host] = HostVerdict(
            host=host,
            failed=bool(trouble) or bool(earlier and earlier.failed),
            reason=trouble or (earlier.reason if earlier else ""),
            changed=(mine.changed and work.round == round_) or bool(earlier and earlier.changed),
            log=mine.proof.log[-LOG_LINES:] or (earlier.log if earlier else ()),
        )
    domains: dict[str, DomainVerdict] = {}
    for name, domain in decision.domains.items():
        if name in settled or domain.decision not in (*PROVED, ADOPT):
            continue
        if check_mode:
            domains[name] = DomainVerdict(name, True, domain.required, message="check mode: nothing was applied")
        else:
            domains[name] = _prove(domain, plan, decision, inspected, outcomes, hosts)
    domains = {**settled, **_put_back(domains, decision)}
    for host, work in decision.hosts.items():
        names = _units_of(work, decision)
        if any(name in settled for name in names):
            continue
        own = domains.get(work.domain or "")
        hosts[host] = hosts[host]._replace(go_on=own is None or own.go_on)
        put_back = any(domains[name].put_back for name in names if name in domains)
        if put_back and work.work and work.round <= round_:
            hosts[host] = _host_back(hosts[host], work, decision, inspected)
    return Verdict(domains, hosts, decision.run_id, any(verdict.put_back for verdict in hosts.values()), round_)


def _units_of(work: HostDecision, decision: Decision) -> tuple[str, ...]:
    """The domains that a host was changed together with."""
    if work.decision == LEAVE:
        return tuple(name for name, domain in decision.domains.items() if work.host in domain.leaving)
    return (work.domain,) if work.domain else ()


def _rows(
    nodes: tuple[str, ...], plan: Plan, decision: Decision, inspected: FactsOf, outcomes: OutcomeOf
) -> tuple[dict[str, Row], dict[str, str]]:
    """The rows of all who hold nodes, by address, and why the others have none. Who was not touched is as inspected."""
    rows: dict[str, Row] = {}
    why: dict[str, str] = {}
    for host, work in decision.hosts.items():
        address = plan.hosts[host].address
        if address is None:
            continue
        found = outcomes.get(host, Outcome()).proof if work.prove else Facts(host)
        found = found if found.state != MISSING else inspected.get(host, Facts(host))
        if not found.known:
            why[address] = found.message
        elif not found.running or not found.agrees(nodes):
            why[address] = "it runs another map" if found.running else found.summary or "its daemon does not run"
        elif found.row is None:
            why[address] = found.summary or "its daemon gave no row of its own"
        elif work.start and found.unit is not None and found.unit.starting:
            # It may say READY, but systemd ends it when the time for its start is over, and starts it anew.
            why[address] = (
                f"its daemon is {found.daemon_state or 'there'}, but {found.unit.unit} is still {found.unit.active_state}: a "
                "start that does not end is killed (DAEMONIZE=0 under a unit of Type=forking?)"
            )
        else:
            rows[address] = found.row
            if not found.row.ready:
                why[address] = found.summary
    return rows, why


def _prove(
    domain: DomainDecision,
    plan: Plan,
    decision: Decision,
    inspected: FactsOf,
    outcomes: OutcomeOf,
    hosts: t.Mapping[str, HostVerdict],
) -> DomainVerdict:
    rows, why = _rows(domain.nodes, plan, decision, inspected, outcomes)
    cut = [
        str(plan.hosts[host].address)
        for host in plan.domains[domain.name].cut
        if host in plan.domains[domain.name].members
    ]
    # Who could not be given what was decided does not count, however well it runs with what it had.
    for host, work in decision.hosts.items():
        if work.domain == domain.name and hosts[host].failed:
            rows.pop(str(plan.hosts[host].address), None)
    rows = with_cut(rows, cut)
    proof = quorum.prove(rows, domain.expected, domain.required or "all", domain.required_nodes)
    names = plan.host_at()
    dropped = []
    for address, text in proof.dropped:
        host = names.get(address, "")
        trouble = hosts[host].reason if host in hosts else ""
        dropped.append(Dropped(host, address, trouble or why.get(address) or text))
    unproven = tuple(
        Unproven(host, domain.digest)
        for host, work in decision.hosts.items()
        if work.domain == domain.name and work.write and outcomes.get(host, Outcome()).lost
    )
    failed = [host for host, work in decision.hosts.items() if work.domain == domain.name and hosts[host].failed]
    met = proof.met and not (domain.decision == ADOPT and failed)
    if not domain.expected:  # a rollback to a state without a daemon
        met = not failed
    total = len(domain.expected)
    message = (
        f"{len(proof.members)} of {total} members are READY and pairwise connected, {domain.required} are required"
    )
    if proof.missing_required:
        message += f"; without {enumerate_some(proof.missing_required)}, which imex_required_nodes names"
    if domain.decision == ADOPT and failed:
        message = f"{enumerate_some(failed)} could not be written; the daemons were not touched"
    return DomainVerdict(
        name=domain.name,
        met=met,
        required=domain.required,
        kept=proof.members,
        dropped=tuple(dropped),
        unproven=unproven,
        go_on=met,
        message=message,
    )


def _put_back(domains: dict[str, DomainVerdict], decision: Decision) -> dict[str, DomainVerdict]:
    """Mark what is put back: the whole unit, or nothing of it.

    The previous files go back where inspect had found every domain of the unit at quorum, or where there had been none;
    else the new ones are kept: they are no worse.
    """
    result = dict(domains)
    for name, verdict in domains.items():
        unit = [decision.domains[other] for other in decision.domains[name].unit if other in domains] or [
            decision.domains[name]
        ]
        proved = [domain for domain in unit if domain.decision in PROVED]
        if not any(not domains[domain.name].met for domain in proved) or decision.domains[name].decision not in PROVED:
            continue
        earlier = [domain for domain in proved if not domain.first]
        if not all(domain.rollback for domain in proved):
            fate, back = "the new files are kept, imex_rollback is false", False
        elif not earlier:
            fate, back = "nothing had been deployed before, so it is removed again", True
        elif all(domain.at_quorum_before for domain in earlier):
            fate, back = "the previous files are put back, the domain was at quorum with them", True
        else:
            fate, back = "the new files are kept, the domain was not at quorum before either", False
        broken = [domain.name for domain in proved if not domains[domain.name].met]
        cause = "" if name in broken else f"{enumerate_some(broken)}, changed together with it, failed; "
        result[name] = verdict._replace(
            met=False, put_back=back, go_on=False, message=f"{verdict.message}; {cause}{fate}"
        )
    return result


def _host_back(verdict: HostVerdict, work: HostDecision, decision: Decision, inspected: FactsOf) -> HostVerdict:
    """How one host gets back what it had."""
    found = inspected.get(work.host, Facts(work.host))
    package = found.change("package") if work.package else None
    remove = not found.configured and not found.running
    fellows = [other for other in inspected.values() if other.running and other.holds == found.holds]
    domains = [decision.domains[name] for name in _units_of(work, decision) if name in decision.domains]
    return verdict._replace(
        put_back=True,
        remove=remove,
        restart=found.running,
        start=found.running,
        enabled=found.unit is not None and found.unit.enabled,
        package=package.before if package else "",
        nodes=found.configured,
        wait=Wait(len(fellows), found.configured, max([domain.before.required for domain in domains], default=0)),
    )


def judge_put_back(
    plan: Plan, decision: Decision, verdict: Verdict, inspected: FactsOf, first: OutcomeOf, back: OutcomeOf
) -> Verdict:
    """Judge the put-back that verdict asked for. first: the outcomes of the change, back: those of the put-back."""
    hosts: dict[str, HostVerdict] = {}
    for host, asked in verdict.hosts.items():
        mine = back.get(host, Outcome()) if asked.put_back else Outcome()
        hosts[host] = asked._replace(failed=bool(mine.trouble), reason=mine.trouble, log=mine.proof.log[-LOG_LINES:])
    domains: dict[str, DomainVerdict] = {}
    for name, wanted in verdict.domains.items():
        if not wanted.put_back:
            continue
        domain = decision.domains[name]
        mine_too = [
            host for host in hosts if hosts[host].put_back and name in _units_of(decision.hosts[host], decision)
        ]
        failed = [host for host in mine_too if hosts[host].failed]
        texts = [f"{host}: {hosts[host].reason}" for host in failed]
        kept: tuple[str, ...] = ()
        met = not failed
        if domain.before.nodes and not domain.first:
            restored = [host for host in hosts if hosts[host].put_back]
            rows = _rows_back(domain, plan, decision, inspected, first, back, restored)
            expected = tuple(
                node for node in domain.before.nodes if plan.host_at().get(node) not in plan.domains[name].maintenance
            )
            proof = quorum.prove(rows, expected, domain.before.required or "all", domain.before.required_nodes)
            kept = proof.members
            met = met and proof.met
            texts.insert(0, f"{len(kept)} of {len(expected)} members of the previous map are pairwise connected")
        word = "the previous state is back" if met else "putting the previous state back failed"
        domains[name] = DomainVerdict(
            name=name,
            met=met,
            required=domain.before.required,
            kept=kept,
            put_back=True,
            go_on=False,
            message="; ".join([word, *texts]),
        )
    return Verdict(domains, hosts, decision.run_id, True, verdict.round)


def _rows_back(
    domain: DomainDecision,
    plan: Plan,
    decision: Decision,
    inspected: FactsOf,
    first: OutcomeOf,
    back: OutcomeOf,
    restored: t.Sequence[str],
) -> dict[str, Row]:
    """Rows after a put-back. Who was left alone is not asked again: what the restored say of it is believed."""
    nodes = domain.before.nodes
    rows, _why = _rows(nodes, plan, decision, inspected, first)
    own = {host: str(plan.hosts[host].address) for host in restored}
    for host, address in own.items():
        found = back.get(host, Outcome()).proof
        rows.pop(address, None)
        if found.known and found.row is not None and found.agrees(nodes):
            rows[address] = found.row
    for address, row in list(rows.items()):
        if address not in own.values():
            seen = {other for other in own.values() if other in rows and address in rows[other].connected}
            rows[address] = Row(row.ready, row.connected | seen)
    return rows
