# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: which domains there are, who belongs to them, and what their maps are. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, node_rules, quorum

from .records import (
    ABSENT,
    MAINTENANCE,
    MEMBER,
    OUTSIDE,
    UNMANAGED,
    DomainPlan,
    HostPlan,
    HostSettings,
    Plan,
    Reason,
    Shared,
    enumerate_some,
)
from .settings import contacted


def plan(settings: t.Sequence[HostSettings], run_id: str) -> Plan:
    """Plan every domain from the settings of all hosts of the inventory, in its order.

    Membership never depends on who is in the play. What is wrong makes the domain refused and names the hosts; a member
    is never dropped.
    """
    by_domain: dict[str, list[HostSettings]] = {}
    for host in settings:
        if host.domain is not None and in_domain(host):
            by_domain.setdefault(host.domain, []).append(host)
    overlaps = _overlaps(by_domain)
    unmanaged = _unmanaged(settings, by_domain)
    domains = {
        name: _domain(name, hosts, [*overlaps.get(name, ()), *unmanaged.get(name, ())])
        for name, hosts in by_domain.items()
    }
    hosts = {host.host: _host(host, domains.get(host.domain or "") if in_domain(host) else None) for host in settings}
    return Plan(domains, hosts, run_id, tuple(_warnings(domains)))


def in_domain(host: HostSettings) -> bool:
    """True for a host that belongs to the domain it names; one that leaves for another model has none any more."""
    return host.kind in (MEMBER, MAINTENANCE, ABSENT)


def _domain(name: str, hosts: t.Sequence[HostSettings], refused: list[Reason]) -> DomainPlan:
    staying = [host for host in hosts if host.kind != ABSENT]
    active = [host for host in staying if host.kind == MEMBER]
    # With nobody left the settings of those who leave count.
    shared = _shared((active or staying or list(hosts))[0])
    refused += _together([problem for host in hosts for problem in host.problems])
    refused += _differences(name, staying)
    refused += _address_faults(name, staying, shared)
    # keep: where nothing is loaded or configured yet, and for new members, the numeric order is as good as any.
    order = "address" if shared.order == "keep" else shared.order
    nodes = node_map.arrange([host.address for host in staying if host.address], order)
    places = {node: place for place, node in enumerate(nodes)}
    members = tuple(host.host for host in sorted(active, key=lambda host: places.get(host.address or "", len(nodes))))
    required, required_nodes, faults = _quorum(name, shared, active, staying)
    return DomainPlan(
        name=name,
        members=members,
        nodes=nodes,
        maintenance=tuple(host.host for host in staying if host.kind == MAINTENANCE),
        absent=tuple(host.host for host in hosts if host.kind == ABSENT),
        cut=tuple(host.host for host in hosts if host.presence == OUTSIDE and host.kind != MAINTENANCE),
        refused=tuple(dict.fromkeys(refused + faults)),
        order=shared.order,
        quorum=shared.quorum,
        required=required,
        required_nodes=required_nodes,
        shared=shared,
    )


def _together(problems: t.Sequence[Reason]) -> list[Reason]:
    """What is wrong with many hosts in the same words is said once: a bad value of a group is one mistake."""
    alike: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        host, _colon, text = problem.message.partition(": ")
        alike.setdefault((problem.code, text), []).append(host)
    return [Reason(code, f"{enumerate_some(hosts, 3)}: {text}", tuple(hosts)) for (code, text), hosts in alike.items()]


def _shared(host: HostSettings) -> Shared:
    # settings.read gives it to every host of a domain
    return t.cast(Shared, host.shared)


def _differences(name: str, hosts: t.Sequence[HostSettings]) -> list[Reason]:
    """Settings that a domain has once, but that its members have differently."""
    reasons = []
    for field in Shared._fields:
        values: dict[t.Any, list[str]] = {}
        for host in hosts:
            values.setdefault(getattr(_shared(host), field), []).append(host.host)
        if len(values) > 1:
            variable = "the keys of imex_config that peers share" if field == "wire" else f"imex_{field}"
            said = "; ".join(f"{_shown(value)} on {enumerate_some(where, 4)}" for value, where in values.items())
            reasons.append(
                Reason(
                    "settings_differ",
                    f"domain {name}: its members differ in {variable} ({said}): set it once, for the group of the domain",
                    tuple(host.host for host in hosts),
                )
            )
    return reasons


def _shown(value: t.Any) -> str:
    return (", ".join(map(str, value)) or "nothing") if isinstance(value, tuple) else repr(value)


def _address_faults(name: str, hosts: t.Sequence[HostSettings], shared: Shared) -> list[Reason]:
    policy = node_map.Policy(
        shared.allow_hostnames, shared.allow_loopback_addresses, shared.allow_documentation_addresses
    )
    reasons: list[Reason] = []
    holders: dict[str, list[str]] = {}
    families: dict[int, list[str]] = {}
    for host in hosts:
        if host.address is None:
            if not any(problem.code in ("no_address", "ambiguous_address") for problem in host.problems):
                text = f"{host.host}: its address is not known: set imex_address, or imex_network where its addresses are known"
                reasons.append(Reason("no_address", text, (host.host,)))
            continue
        fault = node_rules.refusal(host.address, policy)
        if fault:
            text = f"{host.host}: its address {host.address!r} cannot be a member's, it {fault}"
            reasons.append(Reason("bad_address", text, (host.host,)))
            continue
        holders.setdefault(host.address, []).append(host.host)
        parsed = node_map.parse_address(host.address)
        if parsed is not None:
            families.setdefault(parsed.version, []).append(host.host)
    for address, names in holders.items():
        if len(names) > 1:
            text = f"domain {name}: {' and '.join(names)} have the same address {address}"
            reasons.append(Reason("duplicate_address", text, tuple(names)))
    if len(families) > 1:
        text = (
            f"domain {name}: mixed address families, {enumerate_some(families[4], 4)} IPv4 and "
            f"{enumerate_some(families[6], 4)} IPv6: all members must use one"
        )
        reasons.append(Reason("mixed_families", text, (*families[4], *families[6])))
    return reasons


def _quorum(
    name: str, shared: Shared, active: t.Sequence[HostSettings], staying: t.Sequence[HostSettings]
) -> tuple[int, tuple[str, ...], list[Reason]]:
    """How many members are required, and the addresses of those that must be among them."""
    reasons: list[Reason] = []
    required = 0
    try:
        required = quorum.required(shared.quorum, len(active)) if active else 0
    except InputError as exc:
        text = f"domain {name}: imex_quorum: {exc} (members in maintenance do not count)"
        reasons.append(Reason("bad_quorum", text, tuple(host.host for host in active)))
    found = []
    for entry in shared.required_nodes:
        address = node_map.canonical(entry)
        host = next((host for host in staying if entry == host.host or address == host.address), None)
        if host is None:
            text = f"domain {name}: imex_required_nodes names {entry!r}, which is no member of it"
            reasons.append(Reason("bad_required_node", text))
        elif host.kind == MAINTENANCE:
            text = f"domain {name}: imex_required_nodes names {entry!r}, which is in maintenance and cannot be proved"
            reasons.append(Reason("bad_required_node", text, (host.host,)))
        elif host.address:
            found.append(host.address)
    return required, tuple(found), reasons


def _overlaps(by_domain: t.Mapping[str, t.Sequence[HostSettings]]) -> dict[str, list[Reason]]:
    """Addresses that stand in two domains: a host runs one daemon, and the daemon has one map."""
    holders: dict[str, list[HostSettings]] = {}
    for hosts in by_domain.values():
        for host in hosts:
            if host.kind != ABSENT and host.address:
                holders.setdefault(host.address, []).append(host)
    reasons: dict[str, list[Reason]] = {}
    for address, hosts in holders.items():
        names = list(dict.fromkeys(str(host.domain) for host in hosts))
        if len(names) > 1:
            said = " and ".join(f"{host.host} of {host.domain}" for host in hosts)
            text = f"domains {', '.join(names)} overlap: address {address} is that of {said}"
            for name in names:
                reasons.setdefault(name, []).append(Reason("overlap", text, tuple(host.host for host in hosts)))
    return reasons


def _unmanaged(
    settings: t.Sequence[HostSettings], by_domain: t.Mapping[str, t.Sequence[HostSettings]]
) -> dict[str, list[Reason]]:
    """Hosts that carry a managed domain's name but are left alone: dropping them silently would cut the domain."""
    reasons: dict[str, list[Reason]] = {}
    for host in settings:
        if host.kind == UNMANAGED and host.domain in by_domain:
            text = (
                f"{host.host}: imex_deployment is unmanaged, but imex_domain is {host.domain}, whose other members are "
                "managed: unset imex_domain, or set imex_member_state to maintenance or absent instead"
            )
            reasons.setdefault(str(host.domain), []).append(Reason("unmanaged_member", text, (host.host,)))
    return reasons


def _host(host: HostSettings, domain: DomainPlan | None) -> HostPlan:
    planned = dict(host.planned)
    if domain is not None and host.kind == MEMBER:
        planned["nodes"] = list(domain.nodes)
        planned["order"] = domain.order
    sound = domain is None or not domain.refused
    # A member in maintenance counts for nobody, so a host is asked for a number, not for "all".
    wanted = str(domain.required) if domain is not None and domain.required else "all"
    return HostPlan(
        host=host.host,
        presence=host.presence,
        kind=host.kind,
        domain=None if domain is None else domain.name,
        address=host.address,
        contact=contacted(host) and sound,
        quorum=wanted,
        planned=planned,
        problems=host.problems,
        allow_active_jobs=host.shared is not None and host.shared.allow_active_jobs,
    )


def _warnings(domains: t.Mapping[str, DomainPlan]) -> t.Iterator[str]:
    for domain in domains.values():
        if domain.maintenance:
            names = enumerate_some(domain.maintenance)
            yield f"domain {domain.name}: {names} in maintenance: kept in the map, not contacted and not counted"
