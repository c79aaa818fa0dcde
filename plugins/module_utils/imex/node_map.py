# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node map: the ordered addresses of an IMEX domain, as nodes_config.cfg holds them.

A node's id is its 0-based position, so order is part of a map's identity (reference 1.9).
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import typing as t

from ..errors import InputError

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
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
LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
# What the C library takes for an address though nobody means it: 10.1 is 10.0.0.1, so is 0x0a000001.
NUMBERS = r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*\.?"


class Policy(t.NamedTuple):
    """What is accepted although it is refused in production."""

    allow_hostnames: bool = False
    allow_loopback: bool = False
    allow_documentation: bool = False


class NodeMap(t.NamedTuple):
    """A map that can be used: canonical entries, order = id."""

    nodes: tuple[str, ...]

    @property
    def digest(self) -> str:
        return digest(self.nodes)

    @property
    def text(self) -> str:
        """The content of nodes_config.cfg."""
        return "".join(f"{node}\n" for node in self.nodes)


class ParsedMap(t.NamedTuple):
    """What a file holds. nodes: canonical where possible, else as written; problems: lines that are no good entry."""

    nodes: tuple[str, ...]
    problems: tuple[str, ...]


class MapChange(t.NamedTuple):
    """From one map to another. reordered: the members of both stand in another relative order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    reordered: bool


def digest(nodes: t.Iterable[str]) -> str:
    """The identity of a map, order included: sha256 over its canonical lines."""
    return "sha256:" + hashlib.sha256(("\n".join(nodes) + "\n").encode("utf-8", "surrogateescape")).hexdigest()


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


def leading_zeros(entry: str) -> bool:
    """True for 010.0.0.1, also at the end of an IPv6 address."""
    parts = entry.rpartition(":")[2].split(".")
    return len(parts) == 4 and all(map(str.isdigit, parts)) and any(len(part) > 1 and part[0] == "0" for part in parts)


def parse_address(entry: str) -> Address | None:
    """The address that entry is, None for all else. An IPv4-mapped IPv6 address is its IPv4 address."""
    if leading_zeros(entry):
        return None  # said here because Python before 3.9.5 accepts them
    try:
        address = ipaddress.ip_address(entry)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and "%" not in entry and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_address(entry: str) -> bool:
    return parse_address(entry.strip()) is not None


def is_loopback(entry: str) -> bool:
    address = parse_address(entry.strip())
    return address is not None and within(address, LOOPBACK)


def is_member(entry: str) -> bool:
    """True for what can stand for a node at all: an address or a host name."""
    return is_address(entry) or (not re.fullmatch(NUMBERS, canonical(entry)) and is_name(entry))


def is_name(entry: str) -> bool:
    """True for a host name as DNS knows it (RFC 1123; underscores, which some sites use, are accepted)."""
    name = canonical(entry).replace("_", "a")
    return len(name) <= 253 and all(re.fullmatch(LABEL, label) for label in name.split("."))


def canonical(entry: str) -> str:
    """One spelling for one node: compressed address, IPv4 for IPv4-mapped, lower-case name without the final dot."""
    entry = entry.strip()
    address = parse_address(entry)
    if address is not None:
        return str(address)
    return entry.lower().rstrip(".")


def same_host(a: str, b: str) -> bool:
    """True when both spell the same address or the same name; names are not resolved."""
    return canonical(a) == canonical(b)


def parse(text: str, path: str) -> ParsedMap:
    """Read a map as found on a host: BOM, CRLF, blanks, blank lines and # comments do not matter. Never raises.

    A line that is no good entry is kept as written and named among the problems, so that a comparison with a good map
    always differs.
    """
    nodes: list[str] = []
    problems: list[str] = []
    first: dict[str, int] = {}
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        node = canonical(entry)
        if not is_member(node):
            problems.append(f"{path} line {number}: {printable(entry)} is neither an address nor a host name")
            node = entry
        elif node in first:
            problems.append(f"{path} line {number}: {printable(entry)} names the same node as line {first[node]}")
        else:
            first[node] = number
        nodes.append(node)
    return ParsedMap(tuple(nodes), tuple(problems))


def printable(text: str, limit: int = 80) -> str:
    """Text for a message: quoted, cut, safe to encode."""
    text = text if len(text) <= limit else text[:limit] + "..."
    return ascii(text)


def compare(before: t.Sequence[str], after: t.Sequence[str]) -> MapChange:
    """What changes between two maps of canonical entries."""
    known, wanted = dict.fromkeys(before), dict.fromkeys(after)
    return MapChange(
        tuple(node for node in wanted if node not in known),
        tuple(node for node in known if node not in wanted),
        [node for node in known if node in wanted] != [node for node in wanted if node in known],
    )


def arrange(entries: t.Sequence[str], order: str, known: t.Sequence[str] = ()) -> tuple[str, ...]:
    """Entries in the order given, address (numeric) or keep (as in known, new ones appended as given)."""
    if order == "address":
        return tuple(sorted(entries, key=numeric_key))
    if order == "keep":
        place = {canonical(node): index for index, node in reversed(list(enumerate(known)))}
        return tuple(sorted(entries, key=lambda entry: place.get(canonical(entry), len(place))))
    if order != "given":
        raise InputError(f"order is {order!r}, expected given, address or keep.")
    return tuple(entries)


def numeric_key(entry: str) -> tuple[t.Any, ...]:
    """Sort key: IPv4 by number, then IPv6 by number, then names with their numbers by value (n2 before n10)."""
    address = parse_address(entry.strip())
    if address is not None:
        return (address.version, int(address))
    parts = re.split(r"(\d+)", canonical(entry))
    # Text and digits alternate, so that equal places compare like with like.
    return (9, *(int(part) if index % 2 else part for index, part in enumerate(parts)), canonical(entry))
