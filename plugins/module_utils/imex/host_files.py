# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what deployment.assess needs of a host; host_writes.py writes what it decided."""

from __future__ import annotations

import os
import typing as t

from .. import files
from ..errors import ControlError, InputError, UnitError
from . import config_file, node_map
from .deployment import Deployment
from .wanted import Found, Wanted

if t.TYPE_CHECKING:
    from .daemon import StartRecord
    from .domain import Domain
    from .unit import Unit


class Observed(t.NamedTuple):
    """What systemd, our own notes and the daemon say. None: not known."""

    unit: Unit | None = None
    record: StartRecord | None = None
    domain: Domain | None = None
    warnings: tuple[str, ...] = ()


def observe(
    service: str,
    systemctl: str,
    run_dir: str,
    control_command: str,
    config_path: str,
    control_timeout: float,
    local_addresses: t.Sequence[str],
) -> Observed:
    """Ask the host about its daemon: the unit, the record of its start, its own row where the control tool answers.

    What cannot be asked is a warning, not an error: a broken daemon must not keep its files from being corrected.
    """
    from .daemon import read_record
    from .unit import read_unit

    try:
        unit = read_unit(service, systemctl)
    except UnitError as exc:
        return Observed(warnings=(f"The unit is not known: {exc}",))
    record = read_record(run_dir, service)
    if not (unit.running or unit.starting):
        return Observed(unit, record)
    from .control import query_domain

    try:
        return Observed(unit, record, query_domain(control_command, config_path, control_timeout, local_addresses))
    except ControlError as exc:
        return Observed(unit, record, None, (f"The daemon's own row is not known: {exc}",))


def nodes_path_of(wanted: Wanted, config_path: str, nodes_config_path: str | None, config_text: str | None) -> str:
    """Where the node map belongs: as the option says, else config.cfg as it will be, else the documented default."""
    from . import config_edit

    values = config_file.parse(config_text or "", config_path).values
    values.update(config_edit.normalise(dict(wanted.config)))
    path = nodes_config_path or config_file.value(values, "IMEX_NODE_CONFIG_FILE")
    if not path.startswith("/") or os.path.abspath(path) == os.path.abspath(config_path):
        raise InputError(
            f"The node map's path is {path!r}, expected an absolute path other than {config_path}; nothing was written. "
            "Correct nodes_config_path, or IMEX_NODE_CONFIG_FILE."
        )
    return path


def find(
    wanted: Wanted,
    config_path: str,
    nodes_config_path: str | None,
    observed: Observed,
    proc_root: str = "/proc",
    sysfs_root: str = "/sys",
) -> Found:
    """Read both files and join them with what was observed. Raises FileError, InputError for files that are none."""
    from .config_rules import ephemeral_range, reserved_ports
    from .daemon import loaded
    from .domain import own_row_hosts

    config_text = files.read_plain(config_path)
    nodes_path = nodes_path_of(wanted, config_path, nodes_config_path, config_text)
    nodes_text = files.read_plain(nodes_path)
    unit, domain = observed.unit, observed.domain
    held = None
    if unit is not None:
        configured = node_map.parse(nodes_text or "", nodes_path).nodes
        row = own_row_hosts(domain) if domain is not None else None
        held = loaded(unit, observed.record, row, configured, files.changed_at(config_path, nodes_path))
    names = tuple(str(node) for node in wanted.nodes if not node_map.is_address(str(node)))
    resolved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    version = None
    if names and wanted.policy.allow_hostnames:
        from . import names as host_names

        resolved = host_names.resolve([node_map.canonical(name) for name in names if node_map.is_name(name)])
        local = domain.local if domain is not None else None
        version = local.version if local is not None else None
        version = version or host_names.driver_version(proc_root, sysfs_root)
    return Found(
        nodes_path=nodes_path,
        config_path=config_path,
        nodes_text=nodes_text,
        config_text=config_text,
        unit=unit,
        loaded=held,
        mismatch=mismatch_of(domain),
        ephemeral=ephemeral_range(proc_root),
        reserved=reserved_ports(proc_root),
        names=resolved,
        version=version,
        warnings=observed.warnings,
    )


def mismatch_of(domain: Domain | None) -> str:
    """node_map or version where the local daemon has shut a peer out for that; empty where it has not."""
    local = domain.local if domain is not None else None
    states = {connection.status for connection in local.connections} if local is not None else set()
    if "NODE_MAP_MISMATCH" in states:
        return "node_map"
    return "version" if "VERSION_MISMATCH" in states else ""


def present_paths(deployment: Deployment, found: Found) -> list[str]:
    """The files that are there after host_writes.apply()."""
    texts = (
        (found.config_path, found.config_text, deployment.config_text_after),
        (found.nodes_path, found.nodes_text, deployment.nodes_text_after),
    )
    return [path for path, before, after in texts if before is not None or after is not None]
