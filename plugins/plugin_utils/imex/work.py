# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done on one host once its domain's decision stands. Pure."""

from __future__ import annotations

import typing as t

from .facts import Facts
from .records import (
    ADOPT,
    COORDINATED,
    IDLE,
    JOIN,
    KUBERNETES,
    LEAVE,
    LOCAL,
    UNTOUCHED,
    HostDecision,
    Plan,
    Wait,
)

if t.TYPE_CHECKING:
    from .view import View

# What a rewrite of the two files sets right, and what the call for the unit does.
FILE_CHANGES = ("owner", "group", "mode")


def member_work(
    host: str,
    plan: Plan,
    found: Facts,
    nodes: tuple[str, ...],
    decision: str,
    view: View | None = None,
    restart: bool = False,
) -> HostDecision:
    """The work on a member. restart: its daemon is started anew, or for the first time; view: None when only asked whether
    there is any work."""
    planned = plan.hosts[host].planned
    differs = found.configured != nodes or bool(found.config_changes) or any(map(found.change, FILE_CHANGES))
    dropin = found.change("dropin") is not None
    package = restart and found.change("package") is not None
    # Who is started anew keeps its generation, also where its files happen to be right: the put-back restores it.
    write = differs or dropin or restart
    enable = found.change("enabled") is not None or (restart and not (found.unit is not None and found.unit.enabled))
    unmask = found.unit is not None and found.unit.masked
    # A record says which map was loaded; where nobody knows, none is made up.
    note = not restart and write and found.running and found.loaded == nodes and found.source != "record"
    work = restart or write or enable or unmask
    # A torn list keeps the control tool from finding the daemon's own row; once it is whole, it is asked again.
    prove = decision in (JOIN, LOCAL, COORDINATED) or (
        decision == ADOPT and write and found.running and found.row is None
    )
    started = (len(view.here) + len(view.cut)) if view is not None else 0
    return HostDecision(
        host=host,
        domain=plan.hosts[host].domain,
        address=plan.hosts[host].address,
        kind=plan.hosts[host].kind,
        decision=decision,
        work=work,
        involved=work or prove,
        prove=prove,
        stop=restart and found.alive,
        package=package,
        write=write,
        start=restart,
        note=note,
        enable=enable,
        unmask=unmask,
        dropin=dropin,
        unit=restart or note or enable or unmask or dropin,
        nodes=nodes,
        config=dict(planned.get("config") or {}),
        owner=str(planned.get("owner") or ""),
        group=str(planned.get("group") or ""),
        wait=Wait(started, _active(view, nodes, plan), view.domain.required) if view is not None else Wait(),
    )


def leaving_work(host: str, plan: Plan, found: Facts) -> HostDecision:
    """The work on a host that leaves: its daemon is stopped, its list emptied, its unit disabled or masked."""
    planned = plan.hosts[host]
    held = bool(found.configured) or found.alive
    masked = found.unit is not None and found.unit.masked
    enabled = found.unit is not None and found.unit.found and found.unit.unit_file_state.startswith("enabled")
    mask = planned.kind == KUBERNETES and not masked
    unmask = planned.kind == IDLE and masked and found.ours
    dropin = planned.kind == IDLE and found.change("dropin") is not None
    empty = held or enabled or found.changed or bool(found.config_changes) or any(map(found.change, FILE_CHANGES))
    work = empty or mask or unmask or dropin
    return HostDecision(
        host=host,
        domain=planned.domain,
        address=planned.address,
        kind=planned.kind,
        decision=LEAVE if work else UNTOUCHED,
        reason=f"{planned.kind}: no daemon is wanted here" if work else "",
        work=work,
        involved=work,
        stop=found.alive,
        empty=empty,
        disable=enabled,
        mask=mask,
        unmask=unmask,
        dropin=dropin,
        unit=mask or unmask or dropin or enabled,
        config=dict(planned.planned.get("config") or {}),
        owner=str(planned.planned.get("owner") or ""),
        group=str(planned.planned.get("group") or ""),
    )


def _active(view: View, nodes: tuple[str, ...], plan: Plan) -> tuple[str, ...]:
    members = {plan.hosts[host].address for host in view.domain.members}
    return tuple(node for node in nodes if node in members)
