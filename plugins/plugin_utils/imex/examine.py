# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What the members of one domain say together: the row of the decision table, before the guard. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map

from .facts import Facts
from .records import (
    ADOPT,
    COORDINATED,
    JOIN,
    LOCAL,
    REFUSED,
    UNTOUCHED,
    Before,
    DomainPlan,
    Plan,
    Reason,
    enumerate_some,
)
from .view import MAP_MISMATCH, VERSION_MISMATCH, View, before, look, mismatched, most_held
from .work import member_work

FactsOf = t.Mapping[str, Facts]


class Finding(t.NamedTuple):
    """What the members of one domain say together. full: hosts to be started anew, in the order of local rounds."""

    view: View
    decision: str
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]
    before: Before
    full: tuple[str, ...] = ()

    @property
    def restarts_all(self) -> bool:
        return self.decision == COORDINATED


def examine(domain: DomainPlan, plan: Plan, facts: FactsOf, check_mode: bool = False) -> Finding:
    """The decision that the members of one domain lead to, before the guard."""
    view = look(domain, plan, facts)
    found = before(view, plan, facts)
    refusals = [*domain.refused, *(refused_by_members(view, plan, facts, check_mode) if not domain.refused else ())]
    if refusals:
        return Finding(view, REFUSED, tuple(refusals), (), found)
    decision, reasons, full = _classify(view, plan, facts)
    refusals += _cut_refusal(view, decision)
    refusals += _removal_refusal(view, facts)
    refusals += _mute_refusal(view, facts, decision)
    refusals += _port_refusal(view, plan, facts, decision)
    if refusals:
        return Finding(view, REFUSED, tuple(refusals), (), found)
    return Finding(view, decision, tuple(reasons), tuple(_warnings(view, plan, facts, decision, found)), found, full)


def refused_by_members(view: View, plan: Plan, facts: FactsOf, check_mode: bool) -> t.Iterator[Reason]:
    """What is wrong with members: not known, masked by others, not installed, too few of them, an unfit package."""
    domain = view.domain
    for host in view.broken:
        found = facts.get(host, Facts(host))
        yield Reason("facts_unknown", f"{host} answers, but could not be inspected: {found.message}", (host,))
    for host in view.here:
        yield from _unit_refusals(host, facts[host], bool(domain.shared.package), check_mode)
    yield from _address_refusals(view, plan, facts)
    there = len(domain.members) - len(view.lost)
    if domain.members and there < domain.required:
        text = (
            f"domain {domain.name}: {there} of {len(domain.members)} members can be reached, imex_quorum {domain.quorum} needs "
            f"{domain.required}: unreachable are {enumerate_some(view.lost) or 'none'}; bring them back, or set "
            "imex_member_state to maintenance"
        )
        yield Reason("not_enough_reachable", text, view.lost)
    for host in view.lost:
        if plan.hosts[host].address in domain.required_nodes:
            yield Reason(
                "required_node_unreachable", f"{host} is in imex_required_nodes and cannot be reached", (host,)
            )
    if domain.shared.package:
        yield from _package_refusals(view, facts)


def _address_refusals(view: View, plan: Plan, facts: FactsOf) -> t.Iterator[Reason]:
    """Two hosts that the inventory takes for each other: their daemons would find themselves, under the other's name."""
    for host in view.here:
        address, own = plan.hosts[host].address or "", facts[host].addresses
        if own and node_map.is_address(address) and address not in own:
            whose = next((other for other in view.here if address in facts[other].addresses), "")
            text = f"{host}: imex_address is {address}, which is none of its own addresses ({enumerate_some(own)})"
            text += (
                f" but one of {whose}'s: correct the inventory" if whose else ": correct imex_address, or ansible_host"
            )
            yield Reason("address_not_own", text, (host,))


def _unit_refusals(host: str, found: Facts, packaged: bool, check_mode: bool) -> t.Iterator[Reason]:
    if found.unit is None:
        text = f"{host}: systemd could not be asked about the unit, so it is not known whether a daemon runs: {found.summary}"
        yield Reason("unit_unknown", text, (host,))
    elif found.unit.masked and not found.ours:
        text = (
            f"{host}: {found.unit.unit} is masked, and not by this collection: if the host shall be a member run "
            f"'systemctl unmask {found.unit.unit}', else set imex_managed_by or imex_member_state"
        )
        yield Reason("unit_masked", text, (host,))
    elif not found.unit.found and not packaged and not check_mode:
        text = f"{host}: there is no unit {found.unit.unit}: install the package, or set imex_package"
        yield Reason("unit_not_found", text, (host,))
    elif found.foreign:
        text = (
            f"{host}: a daemon answers {found.daemon_state}, but {found.unit.unit} is {found.unit.active_state}: "
            "somebody else runs it (a pod?), and a host can have one only; stop it, or set imex_managed_by"
        )
        yield Reason("foreign_daemon", text, (host,))


def _package_refusals(view: View, facts: FactsOf) -> t.Iterator[Reason]:
    _name, _equal, version = view.domain.shared.package.partition("=")
    wanted = version.partition(":")[2] or version  # a Debian version may begin with an epoch
    wanted = wanted.partition("-")[0]
    for host in view.here:
        driver = facts[host].driver_version
        if driver != wanted:
            has = f"the driver is {driver}" if driver else "the driver's version is not known"
            text = f"{host}: imex_package has version {version}, but {has}: the daemon starts with its own driver only"
            yield Reason("package_differs_from_driver", text, (host,))


def _classify(view: View, plan: Plan, facts: FactsOf) -> tuple[str, list[Reason], tuple[str, ...]]:
    """The row of the decision table, why, and the hosts that are to be started anew."""
    name = view.domain.name
    if view.cut and not view.here:
        return COORDINATED, [Reason("unseen", f"domain {name}: no member of it is in the play")], ()
    causes = _restart_causes(view, plan, facts)
    joinable = not causes and view.living
    if view.stale and not joinable:
        text = f"domain {name}: another map than planned runs on {enumerate_some(view.stale)}"
        causes.insert(0, Reason("loaded_differs", text, view.stale))
    if view.stopped and not view.running and not view.seen:
        text = f"domain {name}: no member that could be asked runs"
        causes.insert(0, Reason("all_stopped", text, view.stopped))
    if causes:
        return COORDINATED, causes, view.here
    coming = (*view.stopped, *view.stale)
    reasons = []
    if view.stopped:
        reasons.append(
            Reason("not_running", f"{enumerate_some(view.stopped)} stopped, the others hold the plan", view.stopped)
        )
    if view.stale:
        text = f"{enumerate_some(view.stale)} stale (an older map or configuration), all others hold the plan"
        reasons.append(Reason("stale", text, view.stale))
    local = tuple(host for host in view.holders if facts[host].pending)
    if local:
        keys = sorted({key for host in local for key, _class in facts[host].pending})
        text = f"{', '.join(keys)} of config.cfg to be changed on {enumerate_some(local)}: one member after the other"
        return LOCAL, [*reasons, Reason("local_config", text, local)], coming + local
    if coming:
        return JOIN, reasons, coming
    form = tuple(host for host in view.holders if member_work(host, plan, facts[host], view.nodes, ADOPT).work)
    if form:
        text = f"files or unit of {enumerate_some(form)} differ in form only: no restart"
        return ADOPT, [Reason("form", text, form)], ()
    return UNTOUCHED, [], ()


def _restart_causes(view: View, plan: Plan, facts: FactsOf) -> list[Reason]:
    """Why all members must be restarted although each may hold the right map."""
    name = view.domain.name
    causes = []
    apart = mismatched(view, plan, facts, MAP_MISMATCH)
    if apart:
        text = f"domain {name}: {enumerate_some(apart)} block each other (node map mismatch), until all were stopped together"
        causes.append(Reason("node_map_mismatch", text, apart))
    apart = mismatched(view, plan, facts, VERSION_MISMATCH)
    if apart and len({facts[host].daemon_version for host in apart}) == 1 and facts[apart[0]].daemon_version:
        text = f"domain {name}: {enumerate_some(apart)} still block each other, though their versions agree now"
        causes.append(Reason("version_mismatch", text, apart))
    changing = tuple(host for host in view.holders if facts[host].pending_shared)
    if changing:
        keys = sorted({key for host in changing for key in facts[host].pending_shared})
        text = (
            f"domain {name}: {', '.join(keys)} of config.cfg to be changed on {enumerate_some(changing)}: all members must "
            "share that"
        )
        causes.append(Reason("config_changed", text, changing))
    # A stopped member gets its package when it joins.
    packaged = tuple(host for host in view.running if facts[host].change("package"))
    if packaged:
        text = f"domain {name}: {enumerate_some(packaged)} need package {view.domain.shared.package}"
        causes.append(Reason("package", text, packaged))
    return causes


def _cut_refusal(view: View, decision: str) -> t.Iterator[Reason]:
    if not view.cut:
        return
    names = enumerate_some(view.cut)
    if decision not in (UNTOUCHED, JOIN):
        needs = "a restart of all members" if view.running or decision != COORDINATED else "a start of all members"
        if not view.running and not view.seen:
            needs += " (no running daemon with the planned map could be seen from the members in the play)"
        needs = needs if decision == COORDINATED else "a change"
        yield Reason(
            "cut",
            f"domain {view.domain.name} needs {needs}, but "
            f"{names} are outside the play (--limit, serial or hosts): inside a limit a member can only join; run without it",
            view.cut,
        )


def _mute_refusal(view: View, facts: FactsOf, decision: str) -> t.Iterator[Reason]:
    """Too few members whose daemon can be asked: what is started could not be proved, so nothing is stopped."""
    mute = [host for host in view.here if facts[host].mute]
    asked = len(view.here) + len(view.cut) - len(mute)
    if decision in (JOIN, LOCAL, COORDINATED) and mute and asked < view.domain.required:
        for host in mute:
            text = (
                f"{host}: its daemon runs, but cannot be asked ({facts[host].summary}), so a restart could not be proved: "
                "mend the control tool there first"
            )
            yield Reason("facts_unknown", text, (host,))


def _port_refusal(view: View, plan: Plan, facts: FactsOf, decision: str) -> t.Iterator[Reason]:
    """Members that would be started on different ports: they never connect, and the plan cannot see what it does not set."""
    if decision not in (JOIN, LOCAL, COORDINATED):
        return
    for place, key in enumerate(("SERVER_PORT", "IMEX_CMD_PORT")):
        having: dict[int, list[str]] = {}
        for host in view.here:
            if key not in (plan.hosts[host].planned.get("config") or {}) and facts[host].ports:
                having.setdefault(facts[host].ports[place], []).append(host)
        if len(having) > 1:
            said = "; ".join(f"{port} on {enumerate_some(hosts, 4)}" for port, hosts in having.items())
            text = (
                f"domain {view.domain.name}: {key} of config.cfg is not the same on all members ({said}), so they would not "
                "connect: set it in imex_config"
            )
            yield Reason("ports_differ", text, tuple(host for hosts in having.values() for host in hosts))


def _removal_refusal(view: View, facts: FactsOf) -> t.Iterator[Reason]:
    """More members dropped than allowed; what the domain has dropped before is not counted again."""
    if view.living:
        return
    people = view.here or tuple(host for host in view.domain.absent if host in facts and facts[host].known)
    # Who comes from another domain brings that one's map along, so the map of most members counts.
    had = most_held([facts[host].holds or facts[host].configured for host in people], view.nodes)
    dropped = [node for node in had if node not in view.nodes and node_map.is_member(node)]
    limit = view.domain.shared.max_removed
    if len(dropped) > limit:
        text = (
            f"domain {view.domain.name}: {len(dropped)} members would be dropped ({enumerate_some(dropped)}), imex_max_removed "
            f"allows {limit}: correct the inventory, or raise it for this run"
        )
        yield Reason("too_many_removed", text)


def _warnings(view: View, plan: Plan, facts: FactsOf, decision: str, found: Before) -> t.Iterator[str]:
    name = view.domain.name
    if view.lost:
        yield f"domain {name}: {enumerate_some(view.lost)} cannot be reached and is left as it is"
    if decision == UNTOUCHED and found.proved < found.expected:
        yield (
            f"domain {name}: degraded, {found.proved} of {found.expected} members are READY and pairwise connected "
            f"(imex_quorum {view.domain.quorum})"
        )
    versions: dict[str, list[str]] = {}
    for host in view.here:
        versions.setdefault(facts[host].daemon_version, []).append(host)
    versions.pop("", None)
    if len(versions) > 1:
        said = ", ".join(f"{version} on {enumerate_some(hosts, 4)}" for version, hosts in versions.items())
        yield f"domain {name}: versions differ ({said}): they do not connect; install one version on all (imex_package)"
    quiet = tuple(host for host in view.holders if facts[host].source == "none")
    if quiet:
        yield f"domain {name}: nothing says which map {enumerate_some(quiet)} hold; taken for the file's, unknown never restarts"
