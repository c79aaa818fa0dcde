# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One IMEX node as a state machine: node map, connections, mismatches, errors. No socket, no clock, no file.

The caller says what happened and when (``now``, seconds of any steady clock) and carries out the effects it gets back.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from imex_simulator import rules

ACCEPTED, BAD_VERSION, BAD_MAP, BAD_AUTH = "OK", "VERSION", "MAP", "AUTH"


class Hello(NamedTuple):
    """What each side of a connection says of itself."""

    address: str
    """The own line of the nodes file."""
    digest: str
    version: str
    auth: str
    instance: str


class Log(NamedTuple):
    """Effect: a line for the main log."""

    level: str
    text: str


class Close(NamedTuple):
    """Effect: close the own client connection to this node."""

    peer: int


class Reconnect(NamedTuple):
    """Effect: connect to this node now."""

    peer: int


class ErrorEvent(NamedTuple):
    """One entry of error_details_last_window; ``time`` is wall clock seconds."""

    number: int
    time: float
    operation: str
    code: int
    node_id: int
    description: str
    driver_error: str


Effects = list[NamedTuple]


def digest(addresses) -> str:
    """Identity of a node map; the order counts, since ids are positions (observed: docs, dra-driver cdclique.go)."""
    return hashlib.sha256("\n".join(addresses).encode()).hexdigest()


class Peer:
    """The connection from this node to another one."""

    __slots__ = ("attempts", "blocked", "connects", "due", "instance", "lost_at", "status", "trying")

    def __init__(self):
        self.status = rules.NEVER_CONNECTED
        self.blocked = False
        """Node map mismatch met: stays until this daemon ends."""
        self.instance: str | None = None
        self.connects = 0
        self.attempts = 0
        """Attempts since the last connection."""
        self.due: float | None = 0.0
        """When to try next; None while connected."""
        self.trying = False
        self.lost_at: float | None = None


class ErrorCounters:
    """error_counters and error_details_last_window of the statistics record."""

    def __init__(self):
        self.total: dict[tuple[str, int], int] = {}
        self.per_node: dict[int, dict[tuple[str, int], int]] = {}
        self.window: list[ErrorEvent] = []
        self.events: list[ErrorEvent] = []

    def add(self, operation, code, node_id, at, count=1, description="", driver_error="", per_node=True):
        # observed: total need not equal the sum of per_node (metrics page), hence per_node=False
        key = (operation, code)
        self.total[key] = self.total.get(key, 0) + count
        if per_node:
            of_node = self.per_node.setdefault(node_id, {})
            of_node[key] = of_node.get(key, 0) + count
        event = ErrorEvent(len(self.events) + 1, at, operation, code, node_id, description, driver_error)
        self.events.append(event)
        self.window.append(event)

    def as_record(self):
        """observed: the metrics page: four keys a map, none where a node has no such error; counts as strings."""
        return {
            "total": _error_maps(self.total, full=True),
            "per_node": {str(i): _error_maps(counts, full=False) for i, counts in sorted(self.per_node.items())},
        }

    def take_window(self):
        """error_details_last_window; empties it (observed: "Emptied after each record")."""
        window, self.window = self.window, []
        return [event_record(e) for e in window]


def event_record(event: ErrorEvent):
    """One element of error_details_last_window. inferred: fields that are empty are left out but for driver_error."""
    seconds, nanos = divmod(round(event.time * 1000), 1000)
    return {
        "timestamp": {"seconds": str(seconds), "nanos": nanos * 1000000},
        "category": rules.ERROR_CATEGORIES[event.operation],
        rules.ERROR_TYPE_FIELDS[event.operation]: rules.error_name(event.operation, event.code),
        "node_id": event.node_id,
        "description": event.description,
        "driver_error": event.driver_error,
        "event_id": str(event.number),
    }


def _error_maps(counts, full):
    record = {}
    for operation in ("import", "unimport", "connection"):
        codes = {code: n for (op, code), n in counts.items() if op == operation}
        if full or codes:
            codes = {**dict.fromkeys((1, 2, 3, 4), 0), **codes}
        record[f"{operation}_errors"] = {str(code): str(codes[code]) for code in sorted(codes)}
    for operation in ("import", "unimport", "connection"):
        total = sum(n for (op, _code), n in counts.items() if op == operation)
        record[f"total_{operation}_errors"] = str(total)
    return record


class NodeModel:
    def __init__(self, addresses, own_id, version, auth, instance, port, grace=-1.0, time_scale=1.0):
        self.addresses = tuple(addresses)
        self.own_id = own_id
        self.ids = {address: i for i, address in enumerate(self.addresses)}
        self.version = version
        self.rules = rules.VersionRules(version)
        self.auth = auth
        self.instance = instance
        self.port = port
        self.grace = grace
        self.time_scale = time_scale
        self.digest = digest(self.addresses)
        self.state = rules.INITIALIZING
        self.peers = [Peer() for _address in self.addresses]
        self.errors = ErrorCounters()
        self.awaited: set = set()
        """Former importers whose return a start after an unclean end waits for."""

    # --- what others ask ----------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        return Hello(self.addresses[self.own_id], self.digest, self.version, self.auth, self.instance)

    def row(self):
        """(id, address, word) of every connection."""
        return [(i, address, self.peers[i].status) for i, address in enumerate(self.addresses)]

    def all_connected(self):
        return all(peer.status == rules.CONNECTED for peer in self.peers)

    def recovered(self):
        return all(self.peers[i].status == rules.CONNECTED for i in self.awaited)

    def next_due(self) -> float | None:
        """When ``due()`` or ``tick()`` has something to do; None for never."""
        times = [peer.due for peer in self.peers if peer.due is not None and not peer.trying]
        if self.grace >= 0:
            ends = self.grace * self.time_scale
            times += [peer.lost_at + ends for peer in self.peers if peer.lost_at is not None]
        return min(times) if times else None

    # --- outgoing connections -----------------------------------------------------------------------------------------

    def due(self, now) -> tuple[list[int], Effects]:
        """Nodes to connect to now; each counts as one attempt."""
        chosen: list[int] = []
        effects: Effects = []
        for i, peer in enumerate(self.peers):
            if peer.due is not None and peer.due <= now and not peer.trying:
                peer.trying = True
                peer.attempts += 1
                chosen.append(i)
                if peer.attempts > 1:  # inferred: the first one is not logged (no start-up log shows it)
                    effects.append(self._log("INFO", rules.ATTEMPTING, i, port=self.port, attempt=peer.attempts))
        return chosen, effects

    def connect_failed(self, i, now) -> Effects:
        self._retry_later(self.peers[i], now)
        return []

    def welcomed(self, i, verdict, theirs: Hello, now, wall) -> Effects:
        """The other side answered the own hello."""
        peer = self.peers[i]
        if verdict != ACCEPTED:
            effects = self._refused(i, verdict, theirs, wall)
            self._retry_later(peer, now)
            return effects
        if peer.blocked:  # observed: blocked until IMEX is stopped everywhere; inferred: even if only this side knows
            self._retry_later(peer, now)
            return [Close(i)]
        effects = []
        if peer.instance is not None and peer.instance != theirs.instance and i != self.own_id:
            # observed: "recognised as a new instance" -> cleaned up at once, whatever the grace time
            effects.append(self._log("INFO", rules.NEW_INSTANCE, i))
        peer.instance = theirs.instance
        peer.status = rules.CONNECTED
        peer.connects += 1
        peer.attempts, peer.due, peer.trying, peer.lost_at = 0, None, False, None
        effects.append(self._log("INFO", self.rules.established, i, count=peer.connects))
        return effects

    def lost(self, i, now, wall) -> Effects:
        """The own client connection broke without a notice."""
        peer = self.peers[i]
        if peer.status != rules.CONNECTED:
            return []
        self.errors.add(
            "connection", rules.CET_CONNECTION_LOST, i, wall, description="Connection lost", driver_error=""
        )
        return [self._log("ERROR", rules.PEER_LOST, i, port=self.port), *self._recovering(i, now)]

    def peer_shut_down(self, i, now) -> Effects:
        """The peer said that it stops. observed: the survivors' cell goes C -> R and stays there."""
        if self.peers[i].status != rules.CONNECTED:
            return []
        return [self._log("INFO", rules.PEER_SHUTDOWN, i), *self._recovering(i, now), Close(i)]

    def reconnect_all(self, now) -> Effects:
        """SIGUSR1: restart all outgoing connections (host names are resolved again)."""
        effects: Effects = []
        for i, peer in enumerate(self.peers):
            if peer.status == rules.CONNECTED:
                peer.status, peer.lost_at = rules.RECOVERING, now
            peer.attempts, peer.due = 0, now
            effects += [Close(i), Reconnect(i)]
        return effects

    def tick(self, now) -> Effects:
        """Grace times that ended."""
        effects: Effects = []
        if self.grace < 0:
            return effects
        for i, peer in enumerate(self.peers):
            if peer.lost_at is not None and peer.lost_at + self.grace * self.time_scale <= now:
                peer.status, peer.lost_at = rules.DISCONNECTED, None
                effects.append(self._log("WARNING", rules.GRACE_OVER, i))
        return effects

    # --- incoming connections -----------------------------------------------------------------------------------------

    def judge(self, theirs: Hello, now, wall, reconnect=True) -> tuple[str, Effects]:
        """Compare with a peer that connected here: (verdict, effects).

        observed: a running daemon that meets another map stays blocked until IMEX is stopped everywhere.
        inferred: both sides keep the block in memory, per peer; the version is compared before the map; a version or
        authentication difference is looked at anew with every connection.
        """
        effects: Effects = []
        i = self.ids.get(theirs.address)
        if i == self.own_id:
            return ACCEPTED, []
        if theirs.auth != self.auth:
            verdict = BAD_AUTH
        elif theirs.version != self.version:
            verdict = BAD_VERSION
        elif i is None or theirs.digest != self.digest or self.peers[i].blocked:
            verdict = BAD_MAP
        else:
            verdict = ACCEPTED
        if i is None:
            return verdict, []
        peer = self.peers[i]
        if verdict != ACCEPTED:
            if peer.status == rules.CONNECTED:
                peer.status, peer.lost_at = rules.RECOVERING, now
            effects = [*self._refused(i, verdict, theirs, wall), Close(i)]
            if peer.due is None:
                self._retry_later(peer, now)
            return verdict, effects
        effects = []
        if peer.status == rules.CONNECTED and peer.instance != theirs.instance:
            # a new instance of a peer whose end was not noticed yet
            effects = [*self._recovering(i, now), Close(i)]
        if reconnect and peer.status != rules.CONNECTED and not peer.trying:
            # inferred: a peer that connects in is up, so there is no point in waiting for the retry time
            peer.due = now
            effects.append(Reconnect(i))
        return verdict, effects

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _refused(self, i, verdict, theirs: Hello, wall) -> Effects:
        peer = self.peers[i]
        if verdict == BAD_MAP:
            if peer.blocked:
                return []
            peer.blocked, peer.status, peer.lost_at = True, rules.NODE_MAP_MISMATCH, None
            code, level, text = rules.CET_NODES_MISMATCH, "ERROR", rules.MAP_DIFFERS
        elif verdict == BAD_VERSION:
            if peer.status in (rules.VERSION_MISMATCH, rules.NODE_MAP_MISMATCH):
                return []
            peer.status, peer.lost_at = rules.VERSION_MISMATCH, None
            code, level, text = rules.CET_VERSION_MISMATCH, "ERROR", rules.VERSION_DIFFERS_PEER
        else:
            # inferred: another authentication setting leaves the state (N) as it is
            code, level, text = rules.CET_AUTHENTICATION_ERROR, "ERROR", rules.AUTH_DIFFERS
        effect = self._log(level, text, i, theirs=theirs.version, ours=self.version)
        self.errors.add("connection", code, i, wall, description=effect.text)
        return [effect]

    def _recovering(self, i, now) -> Effects:
        peer = self.peers[i]
        peer.status, peer.lost_at = rules.RECOVERING, now
        peer.attempts = 0
        self._retry_later(peer, now)
        # observed: ERROR "Node disconnect event detected" follows the shutdown notice. inferred: also after a loss
        effects: Effects = [self._log("ERROR", rules.PEER_DISCONNECTED, i)]
        return effects + self.tick(now)

    def _retry_later(self, peer, now):
        delays = rules.RETRY_DELAYS
        delay = delays[min(max(peer.attempts, 1), len(delays)) - 1]
        peer.due, peer.trying = now + delay * self.time_scale, False

    def _log(self, level, text, i, **words) -> Log:
        return Log(level, text.format(id=i, address=self.addresses[i], **words))
