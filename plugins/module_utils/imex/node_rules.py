# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which entries a node map may have (reference 1.9; cases N2 to N6)."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..errors import InputError
from .node_map import NUMBERS, Address, NodeMap, Policy, canonical, is_name, leading_zeros, parse_address

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in text.split())


LOOPBACK = networks("127.0.0.0/8 ::1/128")
DOCUMENTATION = networks("192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20")
# What no member can have: (name in messages, networks); the first that holds is named.
REFUSED = (
    ("the unspecified address, a placeholder", networks("0.0.0.0/8 ::/128")),
    ("link-local, so it means another host on every link", networks("169.254.0.0/16 fe80::/10")),
    ("a multicast address", networks("224.0.0.0/4 ff00::/8")),
    ("the broadcast address", networks("255.255.255.255/32")),
    ("a reserved address (class E)", networks("240.0.0.0/4")),
    ("an IPv4-compatible IPv6 address, which is out of use: write the IPv4 address", networks("::/96")),
    ("a discard address, a placeholder", networks("100::/64")),
)


def build(entries: t.Sequence[str], policy: Policy, *, what: str = "nodes") -> NodeMap:
    """Check entries and make the map of them, in their order.

    Raises InputError that names every entry that cannot be used, by its position (1 = first line, id 0), and why.
    what: the name of the option or variable that the entries come from.
    """
    problems: list[str] = []
    seen: dict[str, int] = {}
    families: dict[int, int] = {}
    nodes: list[str] = []
    for position, raw in enumerate(entries, 1):
        entry = str(raw).strip()
        node = canonical(entry)
        fault = refusal(entry, policy)
        if not fault and node in seen:
            first = str(entries[seen[node] - 1]).strip()
            spelled = "" if first == entry else f", there written {first!r}"
            fault = f"names the same node as entry {seen[node]}{spelled}"
        if fault:
            problems.append(f"entry {position} {entry!r}: {fault}")
            continue
        seen[node] = position
        address = parse_address(node)
        if address is not None:
            families.setdefault(address.version, position)
        nodes.append(node)
    if len(families) > 1:
        problems.append(
            f"mixed families: entry {families[4]} is IPv4 and entry {families[6]} is IPv6, all members must use one family"
        )
    if problems:
        raise InputError(f"{what} cannot be used, nothing was written: " + "; ".join(problems) + ".")
    return NodeMap(tuple(nodes))


def refusal(entry: str, policy: Policy) -> str:
    """Why an entry cannot be a member, in words; empty when it can."""
    if not entry:
        return "is empty"
    if "/" in entry:
        return "is a prefix, expected one address"
    if "%" in entry:
        return "has a zone, which has a meaning on one host only"
    address = parse_address(canonical(entry))
    if address is not None:
        return address_refusal(address, policy)
    if re.search(r"[\s,;]", entry):
        return "is more than one word, expected one address an entry"
    if leading_zeros(entry):
        return "has leading zeros, which some programs read as octal: write the numbers without them"
    if re.fullmatch(NUMBERS, entry.lower()):
        return "is no IPv4 address (four numbers from 0 to 255)"
    if ":" in entry or entry.startswith("["):
        return "is no IPv6 address" if entry.count(":") > 1 else "is no address (a port is set by SERVER_PORT)"
    if not is_name(entry):
        return "is neither an address nor a host name"
    if not policy.allow_hostnames:
        return "is a host name, expected an address (allow_hostnames is false)"
    if re.fullmatch(r"localhost\d*(\..+)?", canonical(entry)) and not policy.allow_loopback:
        return "is a loopback name, which means another host on every host"
    return ""


def address_refusal(address: Address, policy: Policy) -> str:
    if within(address, LOOPBACK):
        return "" if policy.allow_loopback else "is a loopback address, which means another host on every host"
    if within(address, DOCUMENTATION):
        return "" if policy.allow_documentation else "is from a documentation range, a placeholder"
    return next((f"is {name}" for name, ranges in REFUSED if within(address, ranges)), "")


def within(address: Address, ranges: t.Iterable[Network]) -> bool:
    return any(address in network for network in ranges)


def is_loopback(entry: str) -> bool:
    address = parse_address(entry.strip())
    return address is not None and within(address, LOOPBACK)
