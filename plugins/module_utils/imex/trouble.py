# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a host is not as it should be: another daemon on its ports, or what its daemon wrote when it failed.

Only asked where the first look found something wrong.
"""

from __future__ import annotations

import os
import typing as t

from ..errors import FileError
from . import config_file, endpoint, log
from .look import Facts, Local, Reason, Request, answered
from .node_map import canonical

PORTS = ("SERVER_PORT", "IMEX_CMD_PORT")


def explain(request: Request, local: Local, facts: Facts) -> tuple[Facts, list[Reason]]:
    """The facts with the owner of IMEX filled in, and more reasons."""
    unit = facts.unit
    running = unit is not None and unit.running
    reasons: list[Reason] = []
    if running and unit is not None:
        reasons += _other_answers(request, local, facts, unit.pid)
    elif unit is not None:
        holders = endpoint.holders(request.proc_root, _ports(local), _own(local))
        owner = _owner(request, facts, holders)
        facts = facts._replace(managed_by=owner)
        if owner != "kubernetes" and not unit.starting and (holders or answered(facts)):
            who = ", ".join(f"{holder.shown} on port {holder.port}" for holder in holders) or "somebody else's daemon"
            reasons.append(
                Reason(
                    "foreign_daemon",
                    f"{unit.unit} is not running, but {who} answers in its place: only one daemon can serve the driver, "
                    "end it before the unit is started",
                )
            )
    failed = unit is not None and (unit.restart_loop or unit.active_state == "failed" or unit.starting)
    if failed and "log" not in request.gather:
        reasons += log_reasons(read_log(request, local, facts), local.nodes)
    return facts, reasons


def read_log(request: Request, local: Local, facts: Facts) -> log.Log:
    """The daemon's log where its configuration puts it. A file that cannot be read is said in its note."""
    path = config_file.value(local.values, "LOG_FILE_NAME")
    unit = facts.unit
    if not path or config_file.value(local.values, "LOG_USE_SYSLOG") == "1":
        name = unit.unit if unit else request.service
        return log.read_journal(name, unit.invocation_id if unit else "")
    try:
        return log.read(path, unit.started_at if unit and unit.running else None)
    except FileError as exc:
        return log.Log(path, note=str(exc))


def log_reasons(found: log.Log, nodes: t.Sequence[str]) -> list[Reason]:
    """What the log says that is known to matter, each once, and else its last error. nodes: the map it is held against."""
    known = {line.code: line for line in found.lines if line.code}
    reasons = [
        Reason(
            code, f"the daemon's log says: {line.message.strip()}" + (f" ({line.time})" if line.time else ""), (), True
        )
        for code, line in known.items()
    ]
    if not reasons and found.lines:
        reasons = [
            Reason("log_error", f"the last error in the daemon's log: {found.lines[-1].message.strip()}", (), True)
        ]
    if found.names:
        # An address with a typing error is a host name for the daemon, and so is one of a list that was replaced since.
        strange = [name for name in found.names if canonical(name) not in nodes]
        text = f"the daemon took {len(found.names)} entries of its node list for host names: {_some(found.names)}"
        text += f"; not in the node map now: {_some(strange)}" if strange else ""
        reasons.append(Reason("host_names", text, found.names, True))
    return reasons


def _some(names: t.Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _ports(local: Local) -> tuple[int, ...]:
    words = (config_file.value(local.values, key) for key in PORTS)
    return tuple(int(word) for word in words if word.isdigit())


def _own(local: Local) -> tuple[str, ...]:
    """Where the intended daemon would listen."""
    return (*local.addresses, config_file.value(local.values, "IMEX_CMD_BIND_INTERFACE_IP"))


def _owner(request: Request, facts: Facts, holders: t.Sequence[endpoint.Holder]) -> str:
    from .unit import mask_note

    if os.path.exists(mask_note(request.state_dir, request.service)):
        return "kubernetes"
    # In a pod with a network of its own its ports are not seen, but its process is.
    if any(holder.in_kubernetes for holder in (*holders, *endpoint.named(request.proc_root, "nvidia-imex"))):
        return "kubernetes"
    return "host" if facts.unit is not None and facts.unit.enabled else "unknown"


def _other_answers(request: Request, local: Local, facts: Facts, pid: int | None) -> list[Reason]:
    """The unit runs, but does the answer come from it? Told apart by the cgroup, which a daemon's children share."""
    ports = _ports(local)
    if pid is None or not answered(facts) or len(ports) < 2:
        return []
    own = endpoint.cgroup(request.proc_root, pid)
    others = [
        holder
        for holder in endpoint.holders(request.proc_root, ports[1:], _own(local), pid)
        if holder.pid and holder.cgroup and own and holder.cgroup != own
    ]
    return [
        Reason(
            "foreign_daemon",
            f"port {holder.port} of {request.config_path} is served by {holder.shown}, not by the unit's process {pid}: "
            "the answer is another daemon's",
        )
        for holder in others[:1]
    ]
