# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What IMEX is doing on this host: asks every source that was asked for, once, and lets the pure parts decide.

What a call does not need is not imported: a module's imports are compiled on every host at every call.
"""

from __future__ import annotations

import time
import typing as t

from ..errors import ControlError, InputError, NoSystemdError, UnitError
from .look import Facts, Local, Look, Reason, Request, answered
from .words import READY

if t.TYPE_CHECKING:
    from .daemon import Loaded
    from .unit import Unit

BUILT = ("daemon", "domain", "channels", "activity", "log")
LATER = ("errors", "statistics", "nvlink")


def run(request: Request) -> tuple[dict[str, t.Any], str]:
    """The result of imex_status, and why it failed ("" for success). Raises FabricError for bad arguments."""
    request, warnings = _checked(request)
    begin = time.monotonic()
    deadline = begin + request.wait_timeout
    limit = request.control_timeout
    while True:
        look = look_once(request, limit)
        failure = _failure(request, look, time.monotonic() - begin)
        left = deadline - time.monotonic()
        if not failure or left <= 0 or _hopeless(look.facts):
            break
        time.sleep(max(0.05, min(request.wait_interval, left)))
        # The last look may take some time too, but no more than that.
        limit = min(request.control_timeout, max(deadline - time.monotonic(), 2.0))
    from . import report

    return {**report.result(request, look, warnings), "warnings": warnings}, failure


def look_once(request: Request, limit: float) -> Look:
    """Read the files, ask systemd and the control tool (limit: seconds for the latter), and judge."""
    from . import config_file, host, node_map, verdict

    local = host.read_local(request)
    found = list(local.found)
    driver = host.has_driver(request.proc_root, request.sysfs_root)
    # A list of placeholders names nobody, so by itself it expects no daemon.
    expected = tuple(node for node in local.nodes if node not in node_map.PLACEHOLDERS)
    if request.expected_nodes is not None:
        expected = tuple(map(node_map.canonical, request.expected_nodes))
    if request.planned is not None and request.expected_nodes is None:
        from . import planned

        expected = planned.expected(request.planned)
    unit, unit_known = None, True
    if "daemon" in request.gather:
        unit, unit_known = _unit(request, found)
    facts = Facts(
        expected=expected,
        expected_known=request.expected_nodes is not None
        or request.planned is not None
        or not any(reason.code in host.UNREADABLE for reason in found),
        asked="daemon" in request.gather or "domain" in request.gather,
        configured=local.nodes,
        driver=driver,
        unit=unit,
        unit_known=unit_known,
        domain_asked="domain" in request.gather,
        command_enabled=config_file.value(local.values, "IMEX_CMD_ENABLED") != "0",
        now=time.time(),
        starting_limit=request.starting_limit,
    )
    facts = _ask(request, local, facts, limit)
    if not driver and facts.unit is None and not answered(facts) and "daemon" not in request.gather:
        # Is there any IMEX at all? Only this cheap question needs the unit.
        asked, unit_known = _unit(request, found)
        facts = facts._replace(
            unit=asked if asked and not asked.found else None,
            unit_known=unit_known,
            driver=asked is not None and asked.found,
        )
    facts = facts._replace(loaded=_loaded(request, local, facts))
    deployment = None
    if request.planned is not None:
        from . import planned

        result = planned.assess(request, local, facts)
        deployment = result.as_result()
        if request.expected_nodes is None:
            facts = facts._replace(expected=result.nodes)
    if "domain" in request.gather:
        from . import quorum

        facts = facts._replace(
            quorum=quorum.evaluate(facts.domain, facts.expected, request.quorum, request.required_nodes)
        )
    facts = facts._replace(managed_by="host" if facts.unit and facts.unit.running else "unknown")
    judged = verdict.judge(facts._replace(found=tuple(found)))
    if judged.word not in ("healthy", "starting", "not_applicable"):
        # Not as it should be: look for other daemons and, where it failed, into its log.
        from . import trouble

        facts, more = trouble.explain(request, local, facts)
        found += more
        judged = verdict.judge(facts._replace(found=tuple(found)))
    return Look(local, facts._replace(found=tuple(found)), judged, deployment)


def _checked(request: Request) -> tuple[Request, list[str]]:
    gather = list(dict.fromkeys(request.gather))
    warnings = []
    if "all" in gather:
        gather = list(BUILT)
        warnings.append(f"gather=all: {', '.join(LATER)} are not built in this release and were left out")
    later = [word for word in gather if word in LATER]
    if later:
        raise InputError(
            f"gather asks for {', '.join(later)}, which is not built in this release; built are: {', '.join(BUILT)}"
        )
    if request.control_timeout <= 0 or request.wait_timeout < 0 or request.wait_interval < 0:
        raise InputError(
            f"control_timeout is {request.control_timeout:g}, wait_timeout {request.wait_timeout:g}, wait_interval "
            f"{request.wait_interval:g}: expected more than 0 for the first, and nothing negative"
        )
    needed = {"ready": ("daemon",), "quorum": ("domain",)}.get(request.require, ())
    if not set(gather) & {"daemon", "domain"} or request.require == "quorum":
        gather += [word for word in needed if word not in gather]
    return request._replace(gather=tuple(gather)), warnings


def _unit(request: Request, found: list[Reason]) -> tuple[Unit | None, bool]:
    """The unit, and whether that is certain: without systemd there is none, but systemd can fail to answer too."""
    from .unit import read_unit

    try:
        return read_unit(request.service, request.systemctl_command, request.control_timeout), True
    except UnitError as exc:
        found.append(Reason("unit_unknown", str(exc), (), True))
        return None, isinstance(exc, NoSystemdError)


def _ask(request: Request, local: Local, facts: Facts, limit: float) -> Facts:
    """Ask the control tool: one call, for the whole domain if that is wanted, else for the local daemon."""
    unit = facts.unit
    off = unit is not None and not (unit.running or unit.starting)
    if off and (not facts.expected or (not facts.driver and unit is not None and not unit.found)):
        return facts
    if not facts.asked:
        return facts
    from . import control

    kind = message = ""
    domain = state = None
    if "domain" in request.gather:
        try:
            domain = control.query_domain(
                request.control_command,
                request.config_path,
                limit,
                local.addresses,
                request.detail == "full",
            )
            state = domain.local.status if domain.local else None
        except ControlError as exc:
            kind, message = exc.kind, str(exc)
    # An answer without a row of our own, or without a list to ask by, leaves the daemon's own word to be asked.
    # So may a daemon that is not the unit's: a rollout has to know of it.
    ask = not off or (request.planned is not None and domain is None)
    if state is None and kind in ("", "not_configured") and ask and (unit is not None or domain is None):
        try:
            state = control.query_daemon(request.control_command, request.config_path, limit)
            kind = message = ""
        except ControlError as exc:
            if domain is None:
                kind, message = kind or exc.kind, message or str(exc)
    return facts._replace(domain=domain, state=state, control_kind=kind, control_message=message)


def _loaded(request: Request, local: Local, facts: Facts) -> Loaded:
    from . import daemon
    from .domain import own_row_hosts
    from .unit import Unit

    row = own_row_hosts(facts.domain) if facts.domain else None
    unit = facts.unit
    if unit is None:
        # Without systemd only the daemon's own row says anything, and that it runs.
        unit = Unit(request.service, active_state="active" if row else "")
    record = daemon.read_record(request.run_dir, request.service) if unit.invocation_id else None
    return daemon.loaded(unit, record, row, local.nodes, local.changed_at)


def _hopeless(facts: Facts) -> bool:
    """True when waiting cannot help: systemd will not start the daemon."""
    unit = facts.unit
    return unit is not None and not unit.running and (not unit.found or unit.masked or unit.result == "start-limit-hit")


def _failure(request: Request, look: Look, waited: float) -> str:
    facts, judged = look.facts, look.verdict
    if request.require == "none":
        return ""
    # An answer in the place of a unit that does not run is another daemon's.
    runs = facts.unit is None or facts.unit.running
    found = facts.quorum
    if request.require == "ready":
        if facts.state == READY and runs:
            return ""
        wanted = f"expected the local daemon to be READY, it says {facts.state or 'nothing'}"
    elif found is None or (found.met and runs):
        return ""
    else:
        wanted = (
            f"expected a quorum of {found.required} of {found.expected} members (quorum={found.spec}), "
            f"{found.connected} are READY and connected as this host sees it"
        )
        if found.connected >= found.required and found.expected and not found.met:
            wanted += f", but of required_nodes some are not: {', '.join(request.required_nodes)}"
    if not runs and facts.unit is not None:
        wanted += f", and {facts.unit.unit} is {facts.unit.active_state}"
    why = "; ".join(f"{reason.code}: {reason.message}" for reason in judged.reasons) or "no reason was found"
    return f"Not reached after {waited:.1f} s: {wanted}. {judged.word}: {why}."
