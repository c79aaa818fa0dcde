# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not as it should be on a host, in words and codes. Pure; verdict.judge asks it for every host that is not well."""

from __future__ import annotations

import typing as t

from .daemon import NOTHING
from .domain import Domain, Node
from .look import Facts, Reason, answered
from .node_map import canonical, compare
from .unit import Unit
from .words import CONNECTED, READY, UNAVAILABLE

# Words of a daemon that is on its way to READY (reference 2.3).
STARTING = ("INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU")
# Connections that have a code of their own: no network fault, so nobody shall look for one.
MISMATCH = {"NODE_MAP_MISMATCH": "node_map_mismatch", "VERSION_MISMATCH": "version_mismatch"}
CONTROL_CODES = {
    "missing": "control_tool_missing",
    "timeout": "time_limit",
    "not_configured": "not_configured",
    "failed": "control_tool_failed",
    "unreadable": "unreadable_answer",
    "unreachable": "command_service_closed",
}


def find(facts: Facts) -> tuple[str, list[Reason]]:
    """The word and its reasons, without those that were found on the way (facts.found)."""
    unit = facts.unit
    speaks = answered(facts)
    running = unit.running if unit else speaks
    starting = unit.starting if unit else False
    if not facts.driver and not speaks and facts.unit_known and not (unit and unit.found):
        return "not_applicable", [Reason("not_applicable", "no NVIDIA driver is loaded and there is no unit for IMEX")]
    if facts.managed_by == "kubernetes" and not running:
        return "idle", [
            Reason("managed_by_kubernetes", "a Kubernetes driver runs IMEX on this host, the unit is off", (), True)
        ]
    if not facts.asked:
        return "unknown", [Reason("not_gathered", "neither daemon nor domain was gathered, so nobody was asked")]
    if not facts.expected and not facts.expected_known:
        return "unknown", []
    if not facts.expected and not running and not starting:
        if not facts.unit_known:
            return "unknown", [Reason("unit_unknown", "systemd did not say whether a daemon runs that nobody expects")]
        return "idle", [
            Reason("nothing_expected", "no node list, so no daemon is wanted here", (), True),
            *_unit_notes(unit),
        ]
    if unit is not None and not running and not starting:
        return "down", _down(facts, unit)
    # From here on a daemon runs or starts, or nobody could ask systemd.
    if running and not facts.expected:
        return "degraded", [_nothing_configured(facts)]
    closed = facts.control_kind == "unreachable" or facts.state == UNAVAILABLE
    if closed and unit is not None and running:
        return "not_queryable", [_closed(facts)]
    if closed and unit is None:
        if not facts.command_enabled:
            return "unknown", [_closed(facts)]
        return "down", [
            Reason("daemon_not_running", "the local daemon does not answer, and systemd did not say whether it runs")
        ]
    if facts.control_kind and not closed:
        return "unknown", [Reason(CONTROL_CODES[facts.control_kind], facts.control_message)]
    if starting or facts.state in STARTING:
        return _starting(facts, starting)
    reasons = _map_reasons(facts)
    if facts.domain is not None:
        reasons += _domain_reasons(facts, facts.domain)
    if facts.state != READY and not any(reason.code == "own_address_missing" for reason in reasons):
        said = f"says {facts.state}" if facts.state else "did not say its state"
        own = facts.domain.local.host if facts.domain and facts.domain.local else ""
        reasons.insert(0, Reason("node_not_ready", f"the local daemon {said}", (own,) if own else ()))
    if unit is not None and running and not unit.enabled:
        reasons.append(Reason("unit_disabled", f"{_state_words(unit)}: it will not start at the next boot", (), True))
    return ("healthy" if all(reason.note for reason in reasons) else "degraded"), reasons


def _unit_notes(unit: Unit | None) -> list[Reason]:
    if unit is not None and unit.restart_loop:
        return [
            Reason(
                "restart_loop",
                f"{unit.unit} is started again and again ({unit.restarts} times) without a node list: disable it",
                (),
                True,
            )
        ]
    return []


def _down(facts: Facts, unit: Unit) -> list[Reason]:
    name = unit.unit
    if not unit.found:
        return [
            Reason(
                "unit_not_found",
                f"{len(facts.expected)} nodes are expected, but there is no unit {name}: install the package",
            )
        ]
    reasons = []
    if unit.masked:
        reasons.append(Reason("unit_masked", f"{name} is masked although the node list expects this host"))
    elif unit.restart_loop:
        gave_up = ", systemd has given up" if unit.result == "start-limit-hit" else ""
        reasons.append(
            Reason(
                "restart_loop",
                f"{name} fails and is started again ({unit.restarts} times{gave_up}; {_ended(unit)}): its log says why",
            )
        )
    elif unit.condition is False:
        reasons.append(
            Reason(
                "unit_condition_failed",
                f"{name} was not started because a condition of it does not hold (driver not loaded?)",
            )
        )
    else:
        how = "is stopping" if unit.active_state == "deactivating" else f"is {unit.active_state}"
        if unit.result not in ("", "success"):
            how += f" ({_ended(unit)})"
        reasons.append(Reason("daemon_not_running", f"{name} {how} although the node list expects this host"))
    if not unit.enabled and not unit.masked:
        reasons.append(Reason("unit_disabled", f"{_state_words(unit)}: it does not start at boot"))
    return reasons


def _ended(unit: Unit) -> str:
    status = "" if unit.exec_status is None else f", exit status {unit.exec_status}"
    return (unit.result or unit.sub_state) + status


def _state_words(unit: Unit) -> str:
    return f"{unit.unit} is {unit.unit_file_state or 'not enabled'}"


def _nothing_configured(facts: Facts) -> Reason:
    nodes = (facts.loaded or NOTHING).nodes or ()
    held = f"holds {len(nodes)} nodes" if nodes else "runs"
    return Reason(
        "loaded_differs",
        f"{'no daemon is expected here' if facts.configured else 'the node list is empty'}, but one {held}: stop it, or "
        "restore the list",
        nodes,
    )


def _closed(facts: Facts) -> Reason:
    if not facts.command_enabled:
        return Reason(
            "command_service_off", "the daemon's command service is off: set IMEX_CMD_ENABLED=1 to see its state"
        )
    return Reason(
        "command_service_closed",
        facts.control_message
        or "the unit is active, but its command service does not answer: look at IMEX_CMD_ENABLED, IMEX_CMD_PORT, "
        "IMEX_CMD_BIND_INTERFACE_IP and the firewall",
    )


def _starting(facts: Facts, activating: bool) -> tuple[str, list[Reason]]:
    unit = facts.unit
    word = facts.state or "nothing yet"
    since = (unit.activating_at if activating else unit.started_at) if unit else None
    age = max(0.0, facts.now - since) if since is not None else None
    limit = facts.starting_limit
    if activating and unit and unit.start_timeout is not None:
        limit = unit.start_timeout
    text = f"the daemon is starting and says {word}" + ("" if age is None else f", for {age:.0f} s now")
    if activating and unit and unit.restarts:
        # Seen between two ends, such a unit is in a restart loop.
        text += f"; systemd started it anew {unit.restarts} times after it had failed"
    if age is None or age <= limit:
        return "starting", [Reason("starting", text)]
    advice = "its log says what it waits for; after an unclean end it waits for its former importers"
    return ("degraded" if answered(facts) else "down"), [
        Reason("start_hangs", f"{text}, longer than {limit:g} s: {advice}")
    ]


def _map_reasons(facts: Facts) -> list[Reason]:
    reasons = []
    expected = tuple(canonical(node) for node in facts.expected)
    configured = tuple(canonical(node) for node in facts.configured)
    loaded = facts.loaded or NOTHING
    held = loaded.nodes
    if held is not None and held != expected:
        change = compare(held, expected)
        nodes = change.added + change.removed
        if nodes:
            what = f"of {len(expected)} expected nodes it lacks {len(change.added)}, and {len(change.removed)} of its own are not expected"
            reasons.append(
                Reason(
                    "loaded_differs", f"the daemon runs with another node map: {what}: restart the whole domain", nodes
                )
            )
        else:
            reasons.append(
                Reason(
                    "order_differs",
                    "the daemon runs with the nodes in another order, so their ids differ: restart the whole domain",
                )
            )
    elif held is None and loaded.in_sync is False:
        reasons.append(
            Reason("loaded_differs", "the files changed after the daemon had started, so it runs with others")
        )
    if configured != expected:
        change = compare(configured, expected)
        how = f"lacks {len(change.added)} expected nodes and has {len(change.removed)} others"
        if not change.added and not change.removed:
            how = "has the expected nodes in another order"
        reasons.append(Reason("configured_differs", f"the node list file {how}", change.added + change.removed))
    return reasons


def _domain_reasons(facts: Facts, domain: Domain) -> list[Reason]:
    expected = dict.fromkeys(canonical(node) for node in facts.expected)
    nodes = {canonical(node.host): node for node in domain.nodes}
    local = domain.local
    reasons: list[Reason] = []

    def add(code: str, text: str, found: t.Sequence[str], says: t.Mapping[str, str] | None = None) -> None:
        if found:
            shown = ", ".join(node + (f" ({says[node]})" if says else "") for node in found[:4])
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            reasons.append(Reason(code, f"{text}: {shown}{more}", tuple(found)))

    if local is None:
        reasons.append(
            Reason(
                "own_address_missing",
                "none of this host's addresses is in the answer of the control tool, so no row is this host's own",
            )
        )
    add("node_missing", "expected, but not in the domain", [node for node in expected if node not in nodes])
    add("node_unexpected", "in the domain, but not expected", [node for node in nodes if node not in expected])
    known = {node: nodes[node] for node in expected if node in nodes}
    bad = {
        host: node.status or "says nothing"
        for host, node in known.items()
        if node.status != READY and node is not local
    }
    add("node_not_ready", "not READY", list(bad), bad)
    if local is not None and local.status == READY:
        links = _links(local, known)
        for status, code in MISMATCH.items():
            text = "the node lists differ" if code == "node_map_mismatch" else "the versions differ"
            add(code, f"{text}, so communication is blocked", [host for host, said in links.items() if said == status])
        rest = {host: said for host, said in links.items() if said not in (CONNECTED, *MISMATCH)}
        add("node_not_connected", "not connected with this node", list(rest), rest)
    apart = _apart(known, local, reasons)
    if apart:
        shown = ", ".join(f"{a} to {b} ({said})" for a, b, said in apart[:4])
        more = f" and {len(apart) - 4} more" if len(apart) > 4 else ""
        codes = {MISMATCH.get(said, "node_not_connected") for _a, _b, said in apart}
        code = next(iter(codes)) if len(codes) == 1 else "node_not_connected"
        members = tuple(dict.fromkeys(node for a, b, _said in apart for node in (a, b)))
        reasons.append(Reason(code, f"members report of each other: {shown}{more}", members))
    versions = {node.version for node in domain.nodes if node.version}
    if len(versions) > 1:
        reasons.append(
            Reason("version_differs", f"the domain has several versions: {', '.join(sorted(versions))}", (), True)
        )
    if domain.state != "UP" and all(reason.note for reason in reasons):
        reasons.append(
            Reason("domain_not_up", f"the domain says {domain.state or 'nothing'}, though every node looks well")
        )
    return reasons


def _links(node: Node, known: t.Mapping[str, Node]) -> dict[str, str]:
    row = {connection.id: connection.status for connection in node.connections}
    return {host: row.get(peer.id, "no such connection") for host, peer in known.items() if peer.id != node.id}


def _apart(known: t.Mapping[str, Node], local: Node | None, reasons: list[Reason]) -> list[tuple[str, str, str]]:
    """Pairs that are not connected by the rows of other members; those of nodes already named are left out."""
    named = {node for reason in reasons for node in reason.nodes}
    return [
        (host, peer, said)
        for host, node in known.items()
        if node is not local and node.answered and node.connections and host not in named
        for peer, said in _links(node, known).items()
        if said != CONNECTED and peer not in named
    ]
