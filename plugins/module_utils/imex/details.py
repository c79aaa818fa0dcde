# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a status that are not in a default call: channels, activity, log, the plan, probes."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .look import Facts, Local, Request


def add(
    result: dict[str, t.Any],
    request: Request,
    local: Local,
    facts: Facts,
    deployment: dict[str, t.Any] | None,
    warnings: list[str],
) -> None:
    """Put what was asked for into result and what limits it into warnings."""
    if "channels" in request.gather:
        result["channels"] = _channels(request)
    if "activity" in request.gather:
        result["activity"] = _activity(request, warnings)
    if "log" in request.gather:
        result["log"] = _log(result, request, local, facts, warnings)
    if deployment is not None and request.planned is not None:
        from . import planned

        result["deployment"] = deployment
        result["host_changes"] = [change._asdict() for change in planned.host_changes(request, local, facts)]
        if (request.planned.get("package") or {}).get("name") and result["versions"]["daemon"] is None:
            from .control import daemon_version

            result["versions"]["daemon"] = daemon_version()
    if request.probe:
        from . import probe

        result["probes"] = [
            found._asdict()
            for found in probe.probe(
                [str(address) for address in request.probe["addresses"]],
                [int(port) for port in request.probe["ports"]],
                float(request.probe["timeout"]),
            )
        ]


def _channels(request: Request) -> dict[str, t.Any]:
    from . import channels

    found = channels.read(request.proc_root, request.device_root, request.slurm_conf)
    return {**found._asdict(), "devices": [device._asdict() for device in found.devices]}


def _activity(request: Request, warnings: list[str]) -> dict[str, t.Any]:
    from . import activity

    found = activity.read(request.smi_command, request.persist_path, request.job_records_dir, request.control_timeout)
    warnings += found.notes
    return {
        "gpu_processes": None
        if found.gpu_processes is None
        else [process._asdict() for process in found.gpu_processes],
        "importers": None if found.importers is None else list(found.importers),
        "job_records": found.job_records,
        "notes": list(found.notes),
    }


def _log(
    result: dict[str, t.Any], request: Request, local: Local, facts: Facts, warnings: list[str]
) -> list[dict[str, t.Any]]:
    from . import trouble
    from .look import Reason
    from .node_map import canonical

    found = trouble.read_log(request, local, facts)
    if found.note:
        warnings.append(found.note)
    own = {canonical(address) for address in local.addresses}
    held = (facts.loaded and facts.loaded.nodes) or facts.configured
    reasons = trouble.log_reasons(found, held) if result["verdict"] != "not_applicable" else []
    # An id beyond the map is of another one too.
    if found.node_id is not None and held and own and not own.intersection(held[found.node_id : found.node_id + 1]):
        place = next((index for index, node in enumerate(held) if node in own), None)
        reasons.append(
            Reason(
                "node_id_differs",
                f"the daemon calls itself node {found.node_id}, "
                + (
                    f"in the node map this host is node {place}"
                    if place is not None
                    else "this host is not in the node map"
                ),
            )
        )
    known = {reason["code"] for reason in result["reasons"]}
    result["reasons"] += [
        {"code": reason.code, "message": reason.message, "nodes": list(reason.nodes)}
        for reason in reasons
        if reason.code not in known
    ]
    return [{"time": line.time, "level": line.level, "message": line.message} for line in found.lines]
