# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a daemon must be restarted, in words; apart, since a converged host has no reason."""

from __future__ import annotations

import typing as t

from . import config_file, node_map
from .refusals import shown
from .wanted import Found, Reason

if t.TYPE_CHECKING:
    from .daemon import Loaded


def restart_reasons(
    found: Found,
    configured: tuple[str, ...],
    nodes: tuple[str, ...],
    pending: tuple[config_file.ConfigChange, ...],
    in_sync: bool | None,
) -> tuple[Reason, ...]:
    """Why the daemon must be restarted (all members together), or started; with loaded_unknown alone it need not."""
    reasons: list[Reason] = []
    loaded = found.loaded
    change = node_map.compare(configured, nodes)
    if in_sync is not True and configured != nodes:
        if not change.added and not change.removed and not change.reordered:
            reasons.append(Reason("nodes_changed", "lines of the file that are no entries of their own are dropped"))
        elif change.added or change.removed:
            reasons.append(
                Reason("nodes_changed", f"{len(change.added)} added, {len(change.removed)} removed in the file")
            )
        else:
            reasons.append(
                Reason("order_changed", "the same members in another order, and the order is the nodes' ids")
            )
    if pending:
        keys = ", ".join(f"{change.key} ({change.key_class})" for change in pending)
        reasons.append(Reason("config_changed", f"the daemon has other values of {keys}"))
    if in_sync is False and loaded is not None and loaded.nodes != configured:
        reasons.append(Reason("loaded_differs", differs_message(loaded, nodes)))
    if found.running is False:
        state = found.unit.active_state if found.unit is not None and found.unit.found else "not installed"
        reasons.append(Reason("daemon_not_running", f"the unit is {state}"))
    if found.mismatch == "node_map":
        reasons.append(
            Reason("node_map_mismatch", "the daemon reports a peer with another map: restart all members together")
        )
    if found.mismatch == "version":
        reasons.append(
            Reason("version_mismatch", "the daemon reports a peer of another version: update, then restart all")
        )
    if found.running is not False and in_sync is None:
        reasons.append(
            Reason("loaded_unknown", "nothing says which map the daemon holds; no reason to restart by itself")
        )
    return tuple(reasons)


def differs_message(loaded: Loaded, nodes: tuple[str, ...]) -> str:
    if loaded.nodes is None:
        return "the files were changed after the daemon started"
    change = node_map.compare(loaded.nodes, nodes)
    if not change.added and not change.removed:
        return f"the daemon holds the same members in another order (by its {loaded.source})"
    return (
        f"the daemon holds another map (by its {loaded.source}): without {shown(change.added)}, "
        f"with {shown(change.removed)} beyond it"
    )
