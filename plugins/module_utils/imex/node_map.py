# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node map: the ordered addresses of an IMEX domain, as nodes_config.cfg holds them.

A node's id is its 0-based position, so order is part of a map's identity (reference 1.9). node_rules.py
builds a map of given entries and says which it may have.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import typing as t

from ..errors import InputError

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
# What the C library takes for an address though nobody means it: 10.1 is 10.0.0.1, so is 0x0a000001.
NUMBERS = r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*\.?"
# What images and scripts put where no address is known yet. For a program that connects it is the host itself.
PLACEHOLDERS = ("0.0.0.0", "::")


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


def is_member(entry: str) -> bool:
    """True for what can stand for a node at all: an address or a host name, and no placeholder."""
    if canonical(entry) in PLACEHOLDERS:
        return False
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
        if node in PLACEHOLDERS:
            problems.append(f"{path} line {number}: {printable(entry)} is a placeholder, no node has this address")
        elif not is_member(node):
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
