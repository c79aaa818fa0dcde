# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of nvidia-imex-ctl -N: every node of a domain and its connections (reference 2.3 to 2.5).

The text table of tools that know no JSON is read in table.py.
"""

from __future__ import annotations

import json
import typing as t

from ..errors import ControlError
from .node_map import canonical
from .words import CONNECTED, UNAVAILABLE

# The cells of the text table; the JSON uses the words.
LETTERS = {
    "C": CONNECTED,
    "N": "NEVER_CONNECTED",
    "R": "RECOVERING",
    "D": "DISCONNECTED",
    "I": "INVALID",
    "A": "AUTHENTICATING",
    "!V!": "VERSION_MISMATCH",
    "!M!": "NODE_MAP_MISMATCH",
}
WORDS = frozenset(LETTERS.values())


class Connection(t.NamedTuple):
    """One cell: the link from a node to the node with this id, as the first one sees it."""

    id: int
    host: str
    status: str
    status_raw: str


class Node(t.NamedTuple):
    """One node. status is the daemon's word, UNAVAILABLE where nobody answered, "" where nothing was said."""

    id: int
    host: str
    hostname: str | None
    status: str
    version: str | None
    is_local: bool
    connections: tuple[Connection, ...]

    @property
    def answered(self) -> bool:
        """True when its row came from its own daemon; the tool makes up the row of one that did not answer."""
        return self.status not in (UNAVAILABLE, "")


class Domain(t.NamedTuple):
    """The whole answer; nodes are in the order of their ids. form is json or table."""

    state: str
    timestamp: str
    nodes: tuple[Node, ...]
    form: str = "json"

    @property
    def local(self) -> Node | None:
        """The node this host is; where several of its addresses are in the map, the one that answers."""
        own = [node for node in self.nodes if node.is_local]
        return next((node for node in own if node.answered), own[0] if own else None)


def own_row_hosts(domain: Domain) -> tuple[str, ...] | None:
    """The map the local daemon holds: the hosts of its own connections in id order; None where that is not known.

    Only the JSON form says it: the text table prints the hosts that the tool read in the local file.
    """
    local = domain.local
    if domain.form != "json" or local is None or not local.answered or not local.connections:
        return None
    hosts = tuple(connection.host for connection in local.connections)
    ids = [connection.id for connection in local.connections]
    return hosts if ids == list(range(len(ids))) and all(hosts) else None


def normalise_connection(word: str) -> str:
    """The one name of a connection state. A word we do not know stays itself; it is never taken for connected."""
    text = word.strip()
    name = LETTERS.get(text) or text.upper().replace(" ", "_").replace("-", "_")
    if name in WORDS:
        return name
    if "MISMATCH" in name:
        if "MAP" in name or "NODE" in name:
            return "NODE_MAP_MISMATCH"
        if "VERSION" in name:
            return "VERSION_MISMATCH"
    return text


def known_name(word: str | None) -> str | None:
    """A host name; the tool's N/A, and nothing, are none."""
    return word if word and word != "N/A" else None


def parse_json(text: str, local_addresses: t.Collection[str]) -> Domain:
    """Read the output of nvidia-imex-ctl -N -j.

    nodes and connections may be maps or lists, keys come in any order, lines of a log may stand before the object.
    Raises ControlError (kind unreadable) that shows the text when it is none or is cut off.
    """
    data = _find_object(text)
    own = {canonical(address) for address in local_addresses}
    nodes = []
    for number, node in _numbered(data.get("nodes"), "nodes", text):
        host = _word(node.get("host"))
        connections = [
            Connection(
                peer,
                _word(cell.get("host")),
                normalise_connection(_word(cell.get("status"))),
                _word(cell.get("status")),
            )
            for peer, cell in _numbered(node.get("connections"), f"connections of node {number}", text)
        ]
        nodes.append(
            Node(
                id=number,
                host=host,
                hostname=known_name(_word(node.get("hostName"))),
                status=_word(node.get("status")),
                version=_word(node.get("version")) or None,
                is_local=bool(host) and canonical(host) in own,
                connections=tuple(sorted(connections)),
            )
        )
    return Domain(_word(data.get("status")), _word(data.get("timestamp")), tuple(sorted(nodes)))


def unreadable(what: str, text: str) -> ControlError:
    """The error for an answer that is not one; it shows how the text begins and ends."""
    shown = text.strip()
    if len(shown) > 700:
        shown = shown[:400] + " [...] " + shown[-250:]
    return ControlError(
        f"The answer of the control tool cannot be read: {what}. It printed: {shown or 'nothing'}", "unreadable", text
    )


def _find_object(text: str) -> dict[str, t.Any]:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            data, _end = decoder.raw_decode(text, start)
        except ValueError:
            data = None
        except RecursionError:
            break
        if isinstance(data, dict) and ("nodes" in data or "status" in data) and "host" not in data:
            return data
        # A line of a log may hold a brace too; inside of an object that is cut off nothing else is looked for.
        start = text.find("\n{", start)
        start = start + 1 if start >= 0 else -1
    raise unreadable("no complete JSON object with nodes and status in it", text)


def _numbered(value: t.Any, what: str, text: str) -> t.Iterator[tuple[int, dict[str, t.Any]]]:
    if value is None:
        return
    if isinstance(value, dict):
        pairs: t.Iterable[tuple[t.Any, t.Any]] = value.items()
    elif isinstance(value, list):
        pairs = ((item.get("id", at) if isinstance(item, dict) else at, item) for at, item in enumerate(value))
    else:
        raise unreadable(f"{what} is neither a map nor a list", text)
    seen = set()
    for key, item in pairs:
        word = str(key)
        if not (word.isascii() and word.isdigit()) or int(word) in seen:
            raise unreadable(f"{word!r} among the {what} is no node id of its own", text)
        if not isinstance(item, dict):
            raise unreadable(f"entry {word} of the {what} is no object", text)
        seen.add(int(word))
        yield int(word), item


def _word(value: t.Any) -> str:
    return "" if value is None else str(value).strip()
