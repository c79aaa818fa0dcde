# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was done, as a table that a person reads and as data. Pure."""

from __future__ import annotations

import textwrap
import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, quorum

from . import domain_report
from .facts import UNREACHABLE, Facts
from .judge import Outcome
from .records import (
    ABSENT,
    LEAVING,
    MAINTENANCE,
    MEMBER,
    OUTSIDE,
    REFUSED,
    UNMANAGED,
    UNTOUCHED,
    Decision,
    DomainDecision,
    Plan,
    Reason,
    Verdict,
)
from .view import rows, with_cut

WIDTH = 120
UNCHANGED, CHANGED, WOULD_CHANGE, PUT_BACK, FAILED, KEPT = (
    "unchanged",
    "changed",
    "would_change",
    "put_back",
    "failed",
    "kept",
)
WORDS = {
    UNCHANGED: "unchanged",
    CHANGED: "changed",
    WOULD_CHANGE: "would change (check mode)",
    PUT_BACK: "FAILED, previous files put back",
    REFUSED: "REFUSED, nothing was changed",
    FAILED: "FAILED",
    KEPT: "FAILED, new files kept",
}


class MemberLine(t.NamedTuple):
    """One host of a domain. connected: "n/m" by its own row; before, after: digests of the map its daemon held."""

    host: str
    address: str
    state: str
    connected: str
    before: str
    after: str
    note: str


class DomainReport(t.NamedTuple):
    """How one domain ended. proved: how many members are READY and pairwise connected now, None where not asked."""

    name: str
    decision: str
    outcome: str
    ok: bool
    nodes: tuple[str, ...]
    digest: str
    proved: int | None
    expected: int
    required: int
    members: tuple[MemberLine, ...]
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]
    message: str


class HostReport(t.NamedTuple):
    """Whether the play fails for a host, and the message it fails with."""

    host: str
    failed: bool
    message: str


class Report(t.NamedTuple):
    """The whole report."""

    table: str
    domains: dict[str, DomainReport]
    hosts: dict[str, HostReport]
    ok: bool
    changed: bool


class Seen(t.NamedTuple):
    """All that was learned in one run; verdict, back: None where nothing was judged."""

    plan: Plan
    decision: Decision
    inspected: t.Mapping[str, Facts]
    outcomes: t.Mapping[str, Outcome] = {}
    back: t.Mapping[str, Outcome] = {}
    verdict: Verdict | None = None
    back_verdict: Verdict | None = None
    check_mode: bool = False

    def last(self, host: str) -> Facts:
        """The latest that is known of a host."""
        verdict = self.verdict.hosts.get(host) if self.verdict else None
        if verdict and verdict.put_back and not verdict.start and self.back_verdict:
            return self.inspected.get(host, Facts(host))  # stopped again, and not asked any more
        work = self.decision.hosts[host]
        if verdict and work.stop and not (work.start or verdict.failed or verdict.put_back):
            return _stopped(self.inspected.get(host, Facts(host)))
        for outcomes in (self.back, self.outcomes):
            found = outcomes.get(host, Outcome()).proof
            # Who was only asked again, because others joined, sees them now, unless they were taken back.
            if (work.work or (work.prove and not self.back_verdict)) and (found.known or found.state == UNREACHABLE):
                return found
        return self.inspected.get(host, Facts(host))


def _stopped(found: Facts) -> Facts:
    """A host whose daemon was stopped since it was inspected, and that nobody had a reason to ask again."""
    unit = found.unit._replace(active_state="inactive", sub_state="dead") if found.unit else None
    return found._replace(unit=unit, daemon_state="", loaded=None, configured=(), row=None, links=())


def report(seen: Seen) -> Report:
    """Report on every domain and host of the play."""
    if seen.check_mode:
        seen = seen._replace(outcomes={}, back={}, verdict=None, back_verdict=None)  # nothing was applied
    domains = {name: _domain(domain, seen) for name, domain in sorted(seen.decision.domains.items())}
    hosts = {host: _host(host, domains, seen) for host in seen.decision.hosts}
    lines = [line for domain in domains.values() for line in _block(domain)]
    alone = [
        _member(host, seen, ()) for host, work in sorted(seen.decision.hosts.items()) if work.domain not in domains
    ]
    if alone:
        lines += ["hosts without a domain", *_rows(alone), ""]
    lines += _wrapped(
        [f"note: {warning}" for warning in seen.plan.warnings if any(f" {name}:" in warning for name in domains)]
    )
    changed = any(verdict.changed for verdict in seen.verdict.hosts.values()) if seen.verdict else False
    changed = changed or (seen.check_mode and seen.decision.work)
    return Report("\n".join(lines).rstrip(), domains, hosts, not any(host.failed for host in hosts.values()), changed)


def _domain(domain: DomainDecision, seen: Seen) -> DomainReport:
    outcome, message = _outcome(domain, seen)
    people = seen.plan.domains[domain.name]
    back = seen.back_verdict is not None and domain.name in seen.back_verdict.domains
    nodes = domain.before.nodes if back else domain.nodes
    proved = _proved(domain, seen, outcome)
    expected, required = len(domain.expected), domain.required
    if outcome == REFUSED and domain.before.nodes:
        # Measured by the map that it goes on with, not by the plan that was refused.
        nodes, proved = domain.before.nodes, domain.before.proved
        expected, required = domain.before.expected, domain.before.required
    if back:
        kept = (node for node in nodes if seen.plan.host_at().get(node) not in people.maintenance)
        expected, required = len(tuple(kept)), domain.before.required
        proved = proved if expected else None  # nothing was there before
    return DomainReport(
        name=domain.name,
        decision=domain.decision,
        outcome=outcome,
        ok=outcome in (UNCHANGED, CHANGED, WOULD_CHANGE),
        nodes=nodes,
        digest=node_map.digest(nodes) if nodes else "",
        proved=proved,
        expected=expected,
        required=required,
        members=tuple(_member(host, seen, nodes) for host in people.everyone),
        reasons=domain.reasons,
        warnings=domain.warnings,
        message=message,
    )


def _outcome(domain: DomainDecision, seen: Seen) -> tuple[str, str]:
    if domain.decision == REFUSED:
        return REFUSED, ""
    if domain.decision == UNTOUCHED:
        if not domain.expected or domain.before.met:
            return UNCHANGED, ""
        return (
            FAILED,
            "not at quorum, but every member holds the plan, so nothing is restarted: look at its members and their network",
        )
    if seen.check_mode:
        return WOULD_CHANGE, ""
    verdict = seen.verdict.domains.get(domain.name) if seen.verdict else None
    if verdict is None:
        return FAILED, "it was to be changed, but nothing was judged: the play ended early"
    if verdict.met:
        return CHANGED, verdict.message if verdict.dropped else ""
    back = seen.back_verdict.domains.get(domain.name) if seen.back_verdict else None
    if not verdict.put_back:
        return KEPT, verdict.message
    if back is None:
        return FAILED, f"{verdict.message}; but the put-back was not carried out"
    return (PUT_BACK if back.met else FAILED), f"{verdict.message}; {back.message}"


def _proved(domain: DomainDecision, seen: Seen, outcome: str) -> int | None:
    """How many members are READY and pairwise connected, by the latest rows there are."""
    if outcome == WOULD_CHANGE or not domain.expected:
        return None
    expected, required = domain.expected, domain.required
    verdict = seen.verdict.domains.get(domain.name) if seen.verdict else None
    back = seen.back_verdict.domains.get(domain.name) if seen.back_verdict else None
    if back is not None:
        return len(back.kept)
    if verdict is not None:
        return len(verdict.kept)
    if not any(found.known for host, found in seen.inspected.items() if host in seen.plan.domains[domain.name].members):
        return None
    holding = {host: found for host, found in seen.inspected.items() if found.running and found.agrees(domain.nodes)}
    people = seen.plan.domains[domain.name]
    cut = [str(seen.plan.hosts[host].address) for host in people.cut]
    try:
        return len(quorum.prove(with_cut(rows(seen.plan, holding), cut), expected, required or "all").members)
    except InputError:
        return None


def _member(host: str, seen: Seen, nodes: tuple[str, ...]) -> MemberLine:
    planned = seen.plan.hosts[host]
    known = host in seen.decision.hosts
    found = seen.last(host) if known else Facts(host)
    before = seen.inspected.get(host, Facts(host))
    state = _state(host, seen, found)
    connected = ""
    held = found.holds or nodes
    if found.row is not None and held and found.known:
        connected = f"{len(found.row.connected & set(held))}/{len(held)}"
    return MemberLine(
        host=host,
        address=planned.address or "",
        state=state,
        connected=connected,
        before=node_map.digest(before.holds) if before.holds else "",
        after=node_map.digest(found.holds) if found.holds else "",
        note=_note(host, seen, found) if known else "",
    )


def _state(host: str, seen: Seen, found: Facts) -> str:
    planned = seen.plan.hosts[host]
    if planned.kind in (MAINTENANCE, UNMANAGED):
        return planned.kind
    if planned.presence == OUTSIDE:
        return "not in play"
    if not found.known:
        return "unreachable" if found.state == UNREACHABLE else "not asked" if not planned.contact else "unknown"
    if found.running:
        return found.daemon_state or (found.unit.active_state if found.unit else "") or "running"
    return f"{planned.kind}, stopped" if planned.kind in LEAVING else "stopped"


def _note(host: str, seen: Seen, found: Facts) -> str:
    work = seen.decision.hosts[host]
    notes = []
    verdict = seen.verdict.hosts.get(host) if seen.verdict else None
    domain = seen.verdict.domains.get(work.domain or "") if seen.verdict else None
    if verdict is not None and verdict.reason:
        notes.append(verdict.reason)
    for dropped in domain.dropped if domain else ():
        if dropped.host == host and dropped.reason not in notes:
            notes.append(dropped.reason)
    for lost in domain.unproven if domain else ():
        if lost.host == host:
            notes.append(f"unproven: it may hold {short(lost.digest)}")
    if verdict is not None and verdict.log and (notes or not _ok(work.domain, seen)):
        notes.append(f"log: {verdict.log[-1]}")
    own = seen.decision.domains.get(work.domain or "")
    if own and any(reason.code == "stale" and host in reason.hosts for reason in own.reasons):
        notes.append("stale: it ran an older map")
    if verdict is not None and verdict.put_back and seen.back_verdict and not seen.back_verdict.hosts[host].failed:
        notes.append("new files removed again" if verdict.remove else "previous files put back")
    if not notes and work.work:
        notes.append(_done(host, seen))
    if not notes and not found.known and found.message:
        notes.append(found.message)
    if not notes and found.known and found.verdict not in ("", "healthy") and work.kind == MEMBER:
        notes.append(found.summary)
    if not notes and work.reason and work.decision != REFUSED:
        notes.append(work.reason)
    return "; ".join(notes)


def _done(host: str, seen: Seen) -> str:
    work = seen.decision.hosts[host]
    steps = [
        word
        for word, wanted in (
            ("stop", work.stop),
            ("package", work.package),
            ("write", work.write),
            ("empty", work.empty),
            ("restore", work.restore),
            ("start", work.start),
            ("enable", work.enable),
            ("disable", work.disable),
            ("mask", work.mask),
            ("unmask", work.unmask),
        )
        if wanted
    ]
    return ("would " if seen.check_mode else "") + (", ".join(steps) or "set the unit right")


def _ok(name: str | None, seen: Seen) -> bool:
    verdict = seen.verdict.domains.get(name or "") if seen.verdict else None
    return verdict is None or verdict.met


def _host(host: str, domains: t.Mapping[str, DomainReport], seen: Seen) -> HostReport:
    work = seen.decision.hosts[host]
    planned = seen.plan.hosts[host]
    own = domains.get(work.domain or "")
    verdict = seen.verdict.hosts.get(host) if seen.verdict else None
    if own is not None and not own.ok and planned.kind != MAINTENANCE:
        return HostReport(host, True, _message(own))
    if work.decision == REFUSED:
        return HostReport(host, True, work.reason)
    if planned.kind in LEAVING:
        # Such a host is no part of a quorum that could do without it.
        if verdict is not None and verdict.failed:
            return HostReport(host, True, f"{host} ({planned.kind}): {verdict.reason}")
        found = seen.inspected.get(host, Facts(host))
        if planned.kind != ABSENT and planned.presence != OUTSIDE and planned.contact and not found.known:
            return HostReport(host, True, f"{host} ({planned.kind}): {found.message}")
    return HostReport(host, False, "")


def _message(domain: DomainReport) -> str:
    parts = [reason.message for reason in domain.reasons] if domain.outcome == REFUSED else []
    members = [f"{member.host}: {member.note}" for member in domain.members if member.note]
    if domain.outcome != REFUSED:
        parts += [domain.message, *members]
    return f"Domain {domain.name}: {WORDS[domain.outcome]}. " + "; ".join(part for part in parts if part)


def short(digest: str) -> str:
    """A digest for people: its first eight digits."""
    return digest.partition(":")[2][:8] or "-"


def _block(domain: DomainReport) -> list[str]:
    word = WORDS[domain.outcome]
    if domain.outcome == PUT_BACK and not domain.nodes:
        word = "FAILED, removed again"
    head = [domain.decision, word]
    if domain.decision == domain.outcome == REFUSED or (domain.decision, domain.outcome) == (UNTOUCHED, UNCHANGED):
        head = [word]
    if domain.proved is not None:
        whole = domain.proved == domain.expected
        word = "UP" if whole else "at quorum" if domain.proved >= domain.required else "below quorum"
        head.append(f"{word} {domain.proved}/{domain.expected}")
    if domain.digest:
        head.append(f"map {short(domain.digest)}")
    lines = [f"domain {domain.name}: {', '.join(head)}"]
    texts = [reason.message for reason in domain.reasons] + ([domain.message] if domain.message else [])
    lines += _wrapped([f"why: {text}" for text in texts])
    lines += _wrapped([f"note: {text}" for text in domain.warnings])
    return [*lines, *_rows(domain.members), ""]


def _rows(members: t.Sequence[MemberLine]) -> list[str]:
    cells = [
        (
            member.host,
            member.address,
            member.state,
            member.connected,
            short(member.after)
            if member.before == member.after or not member.before
            else f"{short(member.before)} -> {short(member.after)}",
        )
        for member in members
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(5)] if cells else []
    lines = []
    for member, row in zip(members, cells):
        start = "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        # A long note goes below, so that no line is wider than a terminal.
        if len(start) + 2 + len(member.note) <= WIDTH:
            lines.append(f"{start}  {member.note}".rstrip())
        else:
            lines += [start.rstrip()[:WIDTH], *_wrapped([member.note], "      ")]
    return lines


def _wrapped(texts: t.Iterable[str], indent: str = "  ") -> list[str]:
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
        )
    ]


def status(plan: Plan, facts: t.Mapping[str, Facts]) -> dict[str, t.Any]:
    """The state of every domain of the play, without any change: {table, domains, hosts}."""
    names = {host: domain for host, domain in ((host, plan.hosts[host].domain) for host in facts) if domain}
    made = [found for found in domain_report.reports(list(facts.values()), names) if found.domain]
    lines = []
    for found in made:
        word = f"{found.state or 'no map'} {len(found.proved)}/{len(found.nodes)}"
        lines.append(f"domain {found.domain}: {word}" + (f", map {short(found.digest)}" if found.digest else ""))
        lines += [*_status_rows(plan.domains[found.domain].everyone, plan, facts), ""]
    alone = [host for host in facts if host not in names]
    if alone:
        lines += ["hosts without a domain", *_status_rows(alone, plan, facts), ""]
    return {
        "table": "\n".join(lines).rstrip(),
        "domains": {found.domain: found for found in made},
        "hosts": {
            host: {"verdict": found.verdict or found.state, "summary": found.summary or found.message}
            for host, found in facts.items()
        },
    }


def _status_rows(hosts: t.Sequence[str], plan: Plan, facts: t.Mapping[str, Facts]) -> list[str]:
    cells = []
    for host in hosts:
        found = facts.get(host)
        planned = plan.hosts[host]
        word = planned.kind if planned.kind == MAINTENANCE else "not in play"
        if found is not None:
            word = found.verdict or found.state
        text = (found.summary or found.message) if found is not None else ""
        cells.append((host, planned.address or "", word, text.partition(f"{word}: ")[2] or text))
    widths = [max(len(row[column]) for row in cells) for column in range(3)] if cells else []
    lines = []
    for row in cells:
        start = "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        lines += textwrap.wrap(
            f"{start}  {row[3]}".rstrip(), WIDTH, subsequent_indent="      ", drop_whitespace=False
        ) or [start]
    return [line.rstrip() for line in lines]
