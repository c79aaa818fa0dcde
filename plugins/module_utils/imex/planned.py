# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan would change on this host: what imex_nodes_config would do in check mode, and the host around it."""

from __future__ import annotations

import os
import stat
import typing as t

from .. import files
from ..errors import FabricError
from . import deployment, dropin, host_files, node_map
from .wanted import Wanted

if t.TYPE_CHECKING:
    from .look import Facts, Local, Request


class HostChange(t.NamedTuple):
    """One thing besides the files' content. what: owner, group, mode, dropin, enabled, masked or package."""

    what: str
    path: str
    before: t.Any
    after: t.Any


def expected(plan: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """The node map the plan asks for, before it is put in order."""
    return (
        () if plan.get("state") == "empty" else tuple(node_map.canonical(str(node)) for node in plan.get("nodes") or ())
    )


def wanted(plan: t.Mapping[str, t.Any], local_addresses: t.Sequence[str]) -> Wanted:
    """The plan as imex_nodes_config would have it from its options."""
    return Wanted(
        state=plan["state"],
        nodes=tuple(str(node) for node in plan.get("nodes") or ()),
        order=plan["order"],
        config=tuple((plan.get("config") or {}).items()),
        create_config=plan["create_config"],
        policy=node_map.Policy(
            plan["allow_hostnames"], plan["allow_loopback_addresses"], plan["allow_documentation_addresses"]
        ),
        require_local_address=plan["require_local_address"],
        local_addresses=tuple(local_addresses),
        start_timeout=plan.get("start_timeout"),
        check_mode=True,
    )


def assess(request: Request, local: Local, facts: Facts) -> deployment.Deployment:
    """What imex_nodes_config would return, from what was already asked. Raises FabricError as that module would fail."""
    plan = t.cast("t.Mapping[str, t.Any]", request.planned)
    asked = wanted(plan, local.addresses)
    record = None
    if facts.unit is not None:
        from .daemon import read_record

        record = read_record(request.run_dir, request.service)
    observed = host_files.Observed(facts.unit, record, facts.domain)
    found = host_files.find(
        asked, request.config_path, request.nodes_config_path, observed, request.proc_root, request.sysfs_root
    )
    return deployment.assess(asked, found)


def host_changes(request: Request, local: Local, facts: Facts) -> tuple[HostChange, ...]:
    """What else the plan would change: ownership of the files, the unit's drop-in and state, the package."""
    plan = t.cast("t.Mapping[str, t.Any]", request.planned)
    changes: list[HostChange] = []
    nodes_path = local.nodes_path
    for path in (request.config_path, nodes_path):
        changes += _file_changes(path, plan)
    unit = plan.get("unit") or {}
    if unit.get("dropin") is not None:
        changes += _dropin_changes(request, unit, nodes_path)
    found = facts.unit
    for what in ("enabled", "masked"):
        asked = unit.get(what)
        if asked is None:
            continue
        before = bool(found and getattr(found, what))
        # A masked unit has no other enablement; it is shown as one change.
        if before != asked and not (what == "enabled" and found and found.masked and unit.get("masked") is not False):
            changes.append(HostChange(what, found.unit if found else request.service, before, asked))
    package = plan.get("package") or {}
    if package.get("name"):
        changes += _package_changes(str(package["name"]), package.get("version"))
    return tuple(changes)


def _file_changes(path: str, plan: t.Mapping[str, t.Any]) -> t.Iterator[HostChange]:
    try:
        found = os.stat(path)
    except OSError:
        # A file that is to be made is made with these.
        return
    for what, number in (("owner", found.st_uid), ("group", found.st_gid)):
        asked = plan.get(what)
        name = _name(what, number)
        if asked is not None and str(asked) not in (name, str(number)):
            yield HostChange(what, path, name, str(asked))
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    asked = plan.get("mode")
    if asked is not None and str(asked).lstrip("0o").zfill(4) != mode:
        yield HostChange("mode", path, mode, str(asked))


def _name(what: str, number: int) -> str:
    import grp
    import pwd

    try:
        return pwd.getpwuid(number).pw_name if what == "owner" else grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _dropin_changes(request: Request, unit: t.Mapping[str, t.Any], nodes_path: str) -> t.Iterator[HostChange]:
    path = dropin.path(request.unit_dir, request.service)
    asked = dropin.text(unit["start_timeout"], unit["driver_path"], nodes_path) if unit["dropin"] else None
    have = files.read_text(path)
    if have != asked:
        before = "absent" if have is None else "present" if asked is None else "different"
        yield HostChange("dropin", path, before, "absent" if asked is None else "present")


def _package_changes(name: str, version: str | None) -> t.Iterator[HostChange]:
    from . import package

    try:
        have = package.installed_version(name)
    except FabricError as exc:
        yield HostChange("package", name, str(exc), version)
        return
    if have is None or (version and not package.fits(have, str(version))):
        yield HostChange("package", name, have, version)
