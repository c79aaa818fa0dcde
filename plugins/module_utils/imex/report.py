# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of imex_status as plain values, from one look at the host."""

from __future__ import annotations

import os
import typing as t

from . import config_file, node_map
from .daemon import NOTHING
from .domain import Domain, Node
from .unit import Unit, mask_note
from .words import CONNECTED, READY

if t.TYPE_CHECKING:
    from .look import Facts, Look, Request


def result(request: Request, look: Look, warnings: list[str]) -> dict[str, t.Any]:
    """Everything that was asked for; what limits it is added to warnings."""
    facts, local, judged = look.facts, look.local, look.verdict
    version = facts.domain.local.version if facts.domain and facts.domain.local else None
    driver = None
    if facts.driver:
        from .names import driver_version

        driver = driver_version(request.proc_root, request.sysfs_root)
    values: dict[str, t.Any] = {
        "changed": False,
        "verdict": judged.word,
        "reasons": [{"code": r.code, "message": r.message, "nodes": list(r.nodes)} for r in judged.reasons],
        "summary": judged.summary,
        "evidence": list(judged.evidence),
        "node_map": _node_map(facts),
        "local_addresses": list(local.addresses),
        "versions": {"daemon": version, "driver": driver},
        "ports": {
            "server": _port(local.values, "SERVER_PORT"),
            "command": _port(local.values, "IMEX_CMD_PORT"),
        },
    }
    if "daemon" in request.gather:
        unit = unit_result(facts.unit) if facts.unit else {"unit": request.service}
        values["daemon"] = {
            **unit,
            "state": facts.state,
            "version": version,
            "driver_version": driver,
            "managed_by": facts.managed_by,
            "masked_by_us": bool(
                facts.unit and facts.unit.masked and os.path.exists(mask_note(request.state_dir, request.service))
            ),
        }
    if "domain" in request.gather:
        values["domain"] = domain_result(facts.domain, request.detail) if facts.domain else None
    if facts.quorum is not None:
        values["quorum"] = {
            "scope": "local",
            **{
                key: list(value) if isinstance(value, tuple) else value for key, value in facts.quorum._asdict().items()
            },
        }
    if look.deployment is not None or set(request.gather) - {"daemon", "domain"} or request.probe:
        from . import details

        details.add(values, request, local, facts, look.deployment, warnings)
    return values


def unit_result(unit: Unit) -> dict[str, t.Any]:
    """A unit as plain values, with what follows from them."""
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in unit._asdict().items()}
    return {
        **values,
        "running": unit.running,
        "enabled": unit.enabled,
        "masked": unit.masked,
        "restart_loop": unit.restart_loop,
    }


def domain_result(domain: Domain, detail: str) -> dict[str, t.Any]:
    """The domain as plain values. summary leaves the connections out that are as they should be."""
    nodes = []
    for node in domain.nodes:
        every = detail == "full" or (detail == "own" and node.is_local)
        shown = [link for link in node.connections if every or _notable(node, link.status)]
        nodes.append({**node._asdict(), "connections": [link._asdict() for link in shown]})
    return {
        "state": domain.state,
        "timestamp": domain.timestamp,
        "node_count": len(nodes),
        "ready_count": sum(1 for node in domain.nodes if node.status == READY),
        "nodes": nodes,
    }


def _notable(node: Node, status: str) -> bool:
    # The row of a node that did not answer is made up, all of it says INVALID.
    return node.answered and status != CONNECTED


def _node_map(facts: Facts) -> dict[str, t.Any]:
    expected = [node_map.canonical(node) for node in facts.expected]
    loaded = facts.loaded or NOTHING
    held = loaded.nodes
    listed = [node_map.canonical(node.host) for node in facts.domain.nodes] if facts.domain else None
    actual = list(held) if held is not None else listed if listed is not None else list(facts.configured)
    change = node_map.compare(actual, expected)
    extra = [node for node in listed or () if node not in expected and node not in change.removed]
    return {
        "configured": list(facts.configured),
        "loaded": None if held is None else list(held),
        "source": loaded.source,
        "digest": loaded.digest,
        "in_sync": loaded.in_sync,
        "missing": list(change.added),
        "unexpected": [*change.removed, *extra],
        "reordered": change.reordered,
    }


def _port(values: t.Mapping[str, str], key: str) -> int | None:
    text = config_file.value(values, key)
    return int(text) if text.isdigit() else None
