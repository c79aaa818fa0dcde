# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What imex_status and the steps of a rollout answered on each host, read once from the registered results."""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import config_file, node_map, unit
from ansible_collections.hpc.fabric.plugins.module_utils.imex.quorum import Row
from ansible_collections.hpc.fabric.plugins.module_utils.imex.words import CONNECTED, READY

from .records import Reason

OK, FAILED, UNREACHABLE, MISSING = "ok", "failed", "unreachable", "missing"
# Words of a daemon that is there, also before it is READY (reference 2.3).
ALIVE_WORDS = (
    "INITIALIZING",
    "STARTING_AUTH_SERVER",
    "WAITING_FOR_PEERS",
    "WAITING_FOR_RECOVERY",
    "INIT_GPU",
    READY,
    "SHUTTING_DOWN",
)


class HostChange(t.NamedTuple):
    """Something of the host beside the two files that differs from the plan."""

    what: str
    before: str
    after: str


class Peer(t.NamedTuple):
    """What another daemon said of itself: whether it is READY, and the map it holds, by its own row."""

    address: str
    ready: bool
    holds: tuple[str, ...]


class Facts(t.NamedTuple):
    """One host as inspected. state: ok, failed (it answered, but with an error), unreachable or missing (never asked).

    unit: None where systemd could not be asked; ours: it was this collection that masked the unit; address: the host's
    own in the map; addresses: all that the host has; links: the daemon's own row, as (address, status); peers: what other
    daemons answered this host's control tool; pending: config keys in which the running daemon differs from the plan, as (key, class); ports: of
    config.cfg, server and command; timestamp: when the control tool made the answer, as it says it.
    """

    host: str
    state: str = MISSING
    message: str = ""
    unit: unit.Unit | None = None
    ours: bool = False
    address: str = ""
    daemon_state: str = ""
    configured: tuple[str, ...] = ()
    loaded: tuple[str, ...] | None = None
    source: str = "none"
    in_sync: bool | None = None
    changed: bool = False
    config_changes: tuple[str, ...] = ()
    pending: tuple[tuple[str, str], ...] = ()
    host_changes: tuple[HostChange, ...] = ()
    row: Row | None = None
    links: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()
    daemon_version: str = ""
    driver_version: str = ""
    verdict: str = ""
    summary: str = ""
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    timestamp: str = ""
    peers: tuple[Peer, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return self.state == OK

    @property
    def running(self) -> bool:
        """True when a daemon is there that has read its files; not in a restart loop, seen at the moment of a start."""
        if self.unit is None:
            return False
        looping = bool(self.unit.restarts) and self.daemon_state not in ALIVE_WORDS
        return self.unit.running or (self.unit.starting and not looping)

    @property
    def alive(self) -> bool:
        """True when the unit must be stopped before it can be started anew; also a restart loop."""
        return self.unit is not None and self.unit.active_state not in ("inactive", "failed", "")

    @property
    def foreign(self) -> bool:
        """True when a daemon is here that is not the unit's."""
        if self.unit is None or self.alive:
            return False
        return self.daemon_state in ALIVE_WORDS or any(reason.code == "foreign_daemon" for reason in self.reasons)

    @property
    def holds(self) -> tuple[str, ...]:
        """The map the running daemon holds by the best evidence, the file where there is none; nothing when stopped."""
        if not self.running:
            return ()
        return self.loaded if self.loaded is not None else self.configured

    @property
    def pending_shared(self) -> tuple[str, ...]:
        """Keys that all members must change together, in which the running daemon differs from the plan."""
        return tuple(key for key, kind in self.pending if kind != "local")

    @property
    def mute(self) -> bool:
        """True for a running daemon that nobody can ask: the control tool hangs, is missing or answers rubbish.

        A command service that is off is another thing: a restart with the planned configuration can switch it on.
        """
        return self.running and self.verdict == "unknown" and not self.daemon_state and self.row is None

    def change(self, what: str) -> HostChange | None:
        return next((change for change in self.host_changes if change.what == what), None)

    def agrees(self, nodes: tuple[str, ...]) -> bool:
        """True when the running daemon holds nodes, as far as anything is known; unknown is no reason to restart."""
        if self.loaded is not None:
            return self.loaded == nodes
        return self.in_sync is not False and self.configured == nodes


class Activity(t.NamedTuple):
    """Who works on a host, and who answered it on the network. None: not known. package: why the planned package cannot be
    installed there."""

    state: str = MISSING
    message: str = ""
    gpu_processes: int | None = None
    importers: int | None = None
    job_records: int | None = None
    answers: tuple[tuple[str, int, str], ...] = ()
    package: str = ""


class Step(t.NamedTuple):
    """How one task of the role ended on one host. state: as in Facts; missing also where it was skipped."""

    state: str = MISSING
    changed: bool = False
    message: str = ""


def step(result: t.Any) -> Step:
    """Read a registered result of any module."""
    if not isinstance(result, t.Mapping) or result.get("skipped"):
        return Step()
    message = str(result.get("msg") or "")
    said = str(result.get("module_stderr") or result.get("module_stdout") or "").strip()
    if said and result.get("failed"):
        # Where no module ran at all, only this tells why; most often there is no such Python interpreter.
        message = (
            f"{message} (exit status {result.get('rc')}: {said.splitlines()[-1][:200]}; see ansible_python_interpreter)"
        )
    if result.get("unreachable"):
        return Step(UNREACHABLE, False, message or "the host cannot be reached")
    state = FAILED if result.get("failed") else OK
    return Step(state, bool(result.get("changed")), message)


def facts(host: str, result: t.Any, alive: bool = True) -> Facts:
    """Read what imex_status answered. alive: False for a host that left the play, whose result may be of another play.

    Also a result with failed=true is read where it carries facts: imex_status fails when what was required is not met.
    """
    if not alive:
        return Facts(host, UNREACHABLE, "it failed or could not be reached earlier in this play")
    ended = step(result)
    if ended.state in (UNREACHABLE, MISSING) or "verdict" not in result:
        state = FAILED if ended.state == OK else ended.state
        return Facts(host, state, ended.message or "imex_status gave no answer")
    daemon = _map(result, "daemon")
    deployment = _map(result, "deployment")
    held = _map(deployment, "loaded") or _map(result, "node_map")
    held_nodes = held.get("nodes") if "nodes" in held else held.get("loaded")
    found = _unit(daemon)
    if found is None and result["verdict"] == "not_applicable":
        found = unit.Unit(
            str(daemon.get("unit") or "nvidia-imex"), "not-found", "inactive"
        )  # the cheap test has seen that there is none
    links = _own_links(result)
    ready = str(daemon.get("state") or _local(result).get("status") or "") == READY
    return Facts(
        host=host,
        state=OK,
        message=ended.message,
        unit=found,
        ours=bool(daemon.get("masked_by_us")),
        address=_own_address(result, held_nodes),
        daemon_state=str(daemon.get("state") or ""),
        configured=_addresses(_map(result, "node_map").get("configured")),
        loaded=None if held_nodes is None else _addresses(held_nodes),
        source=str(held.get("source") or "none"),
        in_sync=held.get("in_sync") if held_nodes is None else None,
        changed=bool(deployment.get("changed")),
        config_changes=tuple(str(change["key"]) for change in deployment.get("config_changes") or ()),
        pending=_pending(deployment),
        host_changes=tuple(
            HostChange(str(change["what"]), _word(change.get("before")), _word(change.get("after")))
            for change in result.get("host_changes") or ()
        ),
        row=Row(ready, frozenset(address for address, status in links if status == CONNECTED)) if links else None,
        links=links,
        ports=_ports(result, deployment),
        daemon_version=_word(daemon.get("version") or _map(result, "versions").get("daemon")),
        driver_version=_word(daemon.get("driver_version") or _map(result, "versions").get("driver")),
        verdict=str(result.get("verdict") or ""),
        summary=str(result.get("summary") or ""),
        reasons=tuple(
            Reason(str(reason.get("code")), str(reason.get("message"))) for reason in result.get("reasons") or ()
        ),
        warnings=tuple(str(warning) for warning in deployment.get("warnings") or ()),
        log=tuple(
            f"{_word(line.get('time'))} {_word(line.get('level'))} {_word(line.get('message'))}".strip()
            for line in result.get("log") or ()
        ),
        timestamp=_word(_map(result, "domain").get("timestamp")),
        peers=tuple(_peers(result)),
        addresses=_addresses(result.get("local_addresses")),
    )


def activity(result: t.Any) -> Activity:
    """Read the answer to gather=activity with probes."""
    ended = step(result)
    if ended.state != OK:
        return Activity(ended.state, ended.message)
    found = _map(result, "activity")
    return Activity(
        OK,
        "; ".join(str(note) for note in result.get("warnings") or ()),
        _count(found.get("gpu_processes")),
        _count(found.get("importers")),
        _count(found.get("job_records")),
        tuple(
            (node_map.canonical(str(probe["address"])), int(probe["port"]), str(probe["answer"]))
            for probe in result.get("probes") or ()
        ),
    )


def _map(data: t.Any, key: str) -> t.Mapping[str, t.Any]:
    value = data.get(key) if isinstance(data, t.Mapping) else None
    return value if isinstance(value, t.Mapping) else {}


def _word(value: t.Any) -> str:
    return "" if value is None else str(value)


def _addresses(value: t.Any) -> tuple[str, ...]:
    return tuple(node_map.canonical(str(entry)) for entry in value or ())


def _count(value: t.Any) -> int | None:
    if value is None:
        return None
    return int(value) if isinstance(value, (int, str)) else len(value)


def _unit(daemon: t.Mapping[str, t.Any]) -> unit.Unit | None:
    if not daemon.get("load_state"):
        return None
    return unit.Unit(
        unit=_word(daemon.get("unit")),
        load_state=_word(daemon.get("load_state")),
        active_state=_word(daemon.get("active_state")),
        sub_state=_word(daemon.get("sub_state")),
        unit_file_state=_word(daemon.get("unit_file_state")),
        restarts=_count(daemon.get("restarts")) or 0,
        invocation_id=_word(daemon.get("invocation_id")),
        started_at=daemon.get("started_at"),
    )


def _local(result: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return next((node for node in _map(result, "domain").get("nodes") or () if node.get("is_local")), {})


def _own_address(result: t.Mapping[str, t.Any], held: t.Any) -> str:
    said = _local(result).get("host")
    if said:
        return node_map.canonical(str(said))
    own = _addresses(result.get("local_addresses"))
    known = _addresses(held) or _addresses(_map(result, "node_map").get("configured"))
    return next((address for address in known if address in own), "")


def _peers(result: t.Mapping[str, t.Any]) -> t.Iterator[Peer]:
    """Rows of others are shown with detail=full only."""
    for node in _map(result, "domain").get("nodes") or ():
        row = node.get("connections")
        if row and not node.get("is_local"):
            held = _addresses(link["host"] for link in row)
            yield Peer(node_map.canonical(str(node["host"])), node.get("status") == READY, held)


def _own_links(result: t.Mapping[str, t.Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (node_map.canonical(str(link["host"])), str(link["status"])) for link in _local(result).get("connections") or ()
    )


def _pending(deployment: t.Mapping[str, t.Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(change["key"]), str(change["class"])) for change in deployment.get("config_pending") or ())


def _ports(result: t.Mapping[str, t.Any], deployment: t.Mapping[str, t.Any]) -> tuple[int, ...]:
    """Where peers of this host's daemon listen now: as the result says, as changed, or as documented."""
    said = _map(result, "ports")
    changed = {change["key"]: change.get("before") for change in deployment.get("config_changes") or ()}
    found = []
    for key, name in (("SERVER_PORT", "server"), ("IMEX_CMD_PORT", "command")):
        value = said.get(name) or changed.get(key) or config_file.DEFAULTS[key]
        found.append(int(value) if str(value).isdigit() else int(config_file.DEFAULTS[key]))
    return tuple(found)
