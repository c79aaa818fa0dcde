# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text table of nvidia-imex-ctl -N, for tools without -j (reference 2.5: 570.86, 570.172, 580)."""

from __future__ import annotations

import re
import typing as t

from .domain import LETTERS, Connection, Domain, Node, known_name, normalise_connection, unreadable
from .node_map import canonical

# "Node #10  - 10.66.6.18         - READY   - Version: 580.173.02   - Hostname: theia0281"; an asterisk on both sides of
# the address marks the node the tool runs on.
NODE = re.compile(
    r"^Node #(?P<id>\d+)\s+(?P<mark>[-*])\s+(?P<host>\S+)\s+(?:\*\s+)?-\s+(?P<state>\S+)"
    r"(?:\s+-\s+Version:[ \t]*(?P<version>\S*?))?(?:\s+-\s+Hostname:[ \t]*(?P<hostname>\S*))?\s*$"
)
TIME = re.compile(r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}:\d{2}(?:\.\d+)?$")


def parse(text: str, local_addresses: t.Collection[str]) -> Domain:
    """Read the text table of nvidia-imex-ctl -N (570.86 to 595). Raises ControlError (kind unreadable).

    The mark of the local node counts before local_addresses.
    """
    own = {canonical(address) for address in local_addresses}
    found: dict[int, dict[str, str | None]] = {}
    columns: list[int] = []
    cells: dict[int, list[str]] = {}
    state = timestamp = ""
    for line in text.lstrip("\ufeff").splitlines():
        words = line.split()
        match = NODE.match(line)
        if match:
            found[int(match["id"])] = match.groupdict()
        elif line.startswith("Node #"):
            raise unreadable(f"the line {line.strip()!r} is no node", text)
        elif words[:2] == ["Nodes", "From\\To"]:
            columns = [int(word) for word in words[2:] if word.isdigit()]
        elif columns and words and words[0].isdigit() and len(words) > 1:
            cells[int(words[0])] = words[1:]
        elif line.startswith("Domain State:"):
            state = line.partition(":")[2].strip()
        elif TIME.match(line.strip()):
            timestamp = line.strip()
    if not state:
        raise unreadable("no line with the domain's state, so it is cut off", text)
    marked = any(node["mark"] == "*" for node in found.values())
    nodes = []
    for number, node in sorted(found.items()):
        row = cells.get(number, [])
        if row and len(row) != len(columns):
            raise unreadable(f"row {number} of the matrix has {len(row)} cells for {len(columns)} columns", text)
        host = str(node["host"])
        nodes.append(
            Node(
                id=number,
                host=host,
                hostname=known_name(node["hostname"]),
                status=str(node["state"]),
                version=node["version"] or None,
                is_local=node["mark"] == "*" if marked else canonical(host) in own,
                connections=tuple(
                    Connection(peer, str(found[peer]["host"]) if peer in found else "", _status(cell), cell)
                    for peer, cell in zip(columns, row)
                ),
            )
        )
    return Domain(state, timestamp, tuple(nodes), "table")


def _status(cell: str) -> str:
    return LETTERS.get(cell) or normalise_connection(cell)
