# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what deployment.assess needs of a host, and writes what it decided."""

from __future__ import annotations

import os
import typing as t

from .. import files
from ..errors import ControlError, FabricError, InputError, UnitError
from . import config_file, node_map
from .deployment import Deployment, Found, Wanted

if t.TYPE_CHECKING:
    from .daemon import StartRecord
    from .domain import Domain
    from .unit import Unit

LOCK = "imex.lock"


class Observed(t.NamedTuple):
    """What systemd, our own notes and the daemon say. None: not known."""

    unit: Unit | None = None
    record: StartRecord | None = None
    domain: Domain | None = None
    warnings: tuple[str, ...] = ()


class Reach(t.NamedTuple):
    """Which of the wanted members answer on the network; this host counts as one that does."""

    spec: str
    required: int
    answered: tuple[str, ...]
    silent: tuple[str, ...]

    @property
    def met(self) -> bool:
        return len(self.answered) >= self.required

    def as_result(self) -> dict[str, t.Any]:
        return {
            "spec": self.spec,
            "required": self.required,
            "answered": list(self.answered),
            "silent": list(self.silent),
            "met": self.met,
        }


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
    values = config_file.parse(config_text or "", config_path).values
    values.update(config_file.normalise(dict(wanted.config)))
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


def reach(deployment: Deployment, wanted: Wanted, spec: str, port: int | None, timeout: float, found: Found) -> Reach:
    """Ask every member of the new map for an answer on the network. Raises InputError for a spec that none can meet.

    port: None for the SERVER_PORT that config.cfg will have.
    """
    from .probe import probe
    from .quorum import required

    needed = required(spec, len(deployment.nodes)) if deployment.nodes else 0
    if port is None:
        text = deployment.config_text_after or found.config_text or ""
        port = int(config_file.value(config_file.parse(text, found.config_path).values, "SERVER_PORT"))
    local = {node_map.canonical(address) for address in wanted.local_addresses}
    resolved = dict(found.names)
    own = {node for node in deployment.nodes if node in local or local.intersection(resolved.get(node, ()))}
    others = [node for node in deployment.nodes if node not in own]
    answers = own | {answer.address for answer in probe(others, (port,), timeout) if answer.reachable}
    return Reach(
        spec,
        needed,
        tuple(node for node in deployment.nodes if node in answers),
        tuple(node for node in deployment.nodes if node not in answers),
    )


def refuse_unreachable(reached: Reach) -> None:
    """Raise InputError when fewer members answer than are required."""
    if not reached.met:
        raise InputError(
            f"{len(reached.answered)} of {len(reached.answered) + len(reached.silent)} members answer on the network, expected "
            f"{reached.required} (reachable: {reached.spec}); nothing was written. Silent: {', '.join(reached.silent)}. Bring "
            "them back, or open the port in the firewall; or ask for less."
        )


def lock(run_dir: str, config_path: str, timeout: float) -> t.ContextManager[None]:
    """The lock under which files are read, judged and written; beside config.cfg where run_dir cannot be used."""
    try:
        files.ensure_folder(run_dir)
    except FabricError:
        return files.locked(os.path.join(os.path.dirname(config_path), f".{LOCK}"), timeout)
    return files.locked(os.path.join(run_dir, LOCK), timeout)


def apply(deployment: Deployment, found: Found) -> None:
    """Write the files of a deployment, config.cfg first. Call it under lock(), with a found that was read under it.

    A unit that is to be stopped must be stopped before, since its daemon must not start with half of it. Raises FileError.
    """
    for path, text in (
        (found.config_path, deployment.config_text_after),
        (found.nodes_path, deployment.nodes_text_after),
    ):
        if text is not None:
            files.ensure_folder(os.path.dirname(path))
            files.replace(path, files.encode(text))


def diffs(deployment: Deployment, found: Found) -> list[dict[str, str]]:
    """Before and after of each file that changes, for Ansible's diff mode."""
    pairs = (
        (found.nodes_path, found.nodes_text, deployment.nodes_text_after),
        (found.config_path, found.config_text, deployment.config_text_after),
    )
    return [
        {
            "before_header": path,
            "after_header": path,
            "before": printable(before or ""),
            "after": printable(after),
        }
        for path, before, after in pairs
        if after is not None
    ]


def printable(text: str) -> str:
    """Text that can be sent as JSON: bytes that are no UTF-8 are shown as question marks."""
    return files.encode(text).decode("utf-8", "replace")


def changed_paths(deployment: Deployment, found: Found) -> list[str]:
    """The files that apply() writes, the node map last."""
    pairs = ((found.config_path, deployment.config_text_after), (found.nodes_path, deployment.nodes_text_after))
    return [path for path, text in pairs if text is not None]


def present_paths(deployment: Deployment, found: Found) -> list[str]:
    """The files that are there after apply()."""
    texts = (
        (found.config_path, found.config_text, deployment.config_text_after),
        (found.nodes_path, found.nodes_text, deployment.nodes_text_after),
    )
    return [path for path, before, after in texts if before is not None or after is not None]


def save_generation(found: Found, state_dir: str, run_id: str, keep: int, unit_dir: str, service: str) -> str:
    """Keep the files as they were found, under the run's label; the id of the generation."""
    from . import dropin, generations

    paths = generations.Paths(found.config_path, found.nodes_path, dropin.path(unit_dir, service))
    state = found.unit.unit_file_state if found.unit is not None else ""
    return generations.save(state_dir, run_id, paths, state, keep).id


def retire_unit(deployment: Deployment, options: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Stop and disable the unit, as unit_changes says; warnings, of a kill for instance. Raises UnitError, FileError.

    options: those of service.Order that say where the unit and our notes are, and stop_timeout.
    """
    from . import service

    disable = False if "disable" in deployment.unit_changes else None
    return service.carry_out(service.Order(state="stopped", enabled=disable, **options), False).warnings
