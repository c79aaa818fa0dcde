# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host should change: its node map, its config.cfg, and whether its daemon must be restarted for them.

assess() decides and touches nothing; host_files.py reads what it needs, host_writes.py writes what it says.
"""

from __future__ import annotations

import typing as t

from ..errors import InputError
from . import config_file, node_map
from .wanted import Found, Reason, Wanted

if t.TYPE_CHECKING:
    from .daemon import Loaded
    from .unit import Unit


class Deployment(t.NamedTuple):
    """What is to be done and what it means. A text_after of None leaves the file; unit_changes: of stop, disable.

    config_pending: keys in which the running daemon differs from the file as it will be.
    """

    state: str
    changed: bool
    nodes: tuple[str, ...]
    digest: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    reordered: bool
    config_changes: tuple[config_file.ConfigChange, ...]
    config_pending: tuple[config_file.ConfigChange, ...]
    warnings: tuple[str, ...]
    loaded: Loaded | None
    restart_required: bool
    restart_reasons: tuple[Reason, ...]
    nodes_text_after: str | None
    config_text_after: str | None
    unit_changes: tuple[str, ...]
    in_sync: bool | None

    @property
    def stop_unit(self) -> bool:
        return bool(self.unit_changes)

    def as_result(self) -> dict[str, t.Any]:
        """What imex_nodes_config returns of it: plain lists, dicts and words."""
        return {
            "changed": self.changed,
            "nodes": list(self.nodes),
            "node_count": len(self.nodes),
            "digest": self.digest,
            "added": list(self.added),
            "removed": list(self.removed),
            "reordered": self.reordered,
            "config_changes": [change_result(change) for change in self.config_changes],
            "config_pending": [change_result(change) for change in self.config_pending],
            "unit_changes": list(self.unit_changes),
            "warnings": list(self.warnings),
            "loaded": {
                "nodes": None if self.loaded is None or self.loaded.nodes is None else list(self.loaded.nodes),
                "digest": None if self.loaded is None else self.loaded.digest,
                "source": "none" if self.loaded is None else self.loaded.source,
                "in_sync": self.in_sync,
            },
            "restart_required": self.restart_required,
            "restart_reasons": [reason._asdict() for reason in self.restart_reasons],
        }


def change_result(change: config_file.ConfigChange) -> dict[str, t.Any]:
    return {"key": change.key, "before": change.before, "after": change.after, "class": change.key_class}


def assess(wanted: Wanted, found: Found) -> Deployment:
    """Compare what is wanted with what was found. Pure; raises InputError for what is to be refused."""
    from . import config_edit

    values = config_edit.normalise(dict(wanted.config))
    before = node_map.parse(found.nodes_text or "", found.nodes_path)
    loaded_nodes = found.loaded.nodes if found.loaded else None
    nodes = plan_nodes(wanted, found, before.nodes, loaded_nodes)
    change = node_map.compare(before.nodes, nodes)
    check_removal(wanted, nodes, before, loaded_nodes)
    rewrite = nodes != before.nodes or (found.nodes_text is None and wanted.state == "present")
    edited, warnings = plan_config(wanted, found, values)
    unit_changes = plan_unit(found.unit) if wanted.state == "empty" else ()
    config_after = config_file.parse(edited.text, found.config_path).values
    pending = plan_pending(found, edited, config_after)
    in_sync = found.loaded.in_sync if found.loaded else None
    if loaded_nodes is not None:
        in_sync = loaded_nodes == nodes
    reasons: tuple[Reason, ...] = ()
    if wanted.state == "present":
        if pending or found.mismatch or not found.running or not in_sync:
            from .reasons import restart_reasons

            reasons = restart_reasons(found, before.nodes, nodes, pending, in_sync)
        warnings += present_warnings(found, nodes, rewrite)
    if rewrite:
        warnings += tuple(f"{problem}; the file is written anew" for problem in before.problems)
    masked = found.unit is not None and found.unit.masked
    text_changed = edited.text != (found.config_text or "")
    return Deployment(
        state=wanted.state,
        changed=rewrite or text_changed or bool(unit_changes),
        nodes=nodes,
        digest=node_map.digest(nodes),
        added=change.added,
        removed=change.removed,
        reordered=change.reordered,
        config_changes=edited.changes,
        config_pending=pending,
        warnings=tuple(dict.fromkeys(found.warnings + warnings)),
        loaded=found.loaded,
        restart_required=not masked and any(reason.code != "loaded_unknown" for reason in reasons),
        restart_reasons=reasons,
        nodes_text_after=node_map.NodeMap(nodes).text if rewrite else None,
        config_text_after=edited.text if text_changed else None,
        unit_changes=unit_changes,
        in_sync=in_sync,
    )


def plan_nodes(
    wanted: Wanted, found: Found, configured: tuple[str, ...], loaded: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The map to have, in its order. Raises InputError for entries that cannot be used on this host."""
    if wanted.state == "empty":
        if wanted.nodes:
            raise InputError(f"state is empty, but nodes has {len(wanted.nodes)} entries: leave nodes out.")
        return ()
    if not wanted.nodes:
        raise InputError(
            "nodes is empty, nothing was written: a daemon cannot start without a list. Use state=empty where no daemon is "
            "wanted."
        )
    from . import node_rules

    built = node_rules.build(wanted.nodes, wanted.policy).nodes
    if any(not node_map.is_address(node) for node in built):
        from .refusals import check_names

        check_names(wanted, found, built)
    # What the daemons hold comes first: the members agree on that, files may not.
    known = tuple(dict.fromkeys((loaded or ()) + configured))
    nodes = node_map.arrange(built, wanted.order, known)
    if wanted.require_local_address:
        check_local(wanted, found, nodes)
    return nodes


def check_local(wanted: Wanted, found: Found, nodes: tuple[str, ...]) -> None:
    """Exactly one of the host's own addresses must be a member, else its daemon does not start (cases N4, 16)."""
    local = {node_map.canonical(address) for address in wanted.local_addresses}
    resolved = dict(found.names)
    own = [node for node in nodes if node in local or local.intersection(resolved.get(node, ()))]
    if len(own) != 1:
        from .refusals import refuse_local

        refuse_local(own, local, nodes)


def check_removal(
    wanted: Wanted, nodes: tuple[str, ...], before: node_map.ParsedMap, loaded: tuple[str, ...] | None
) -> None:
    """Refuse to drop more members at once than max_removed, from the file and from what is loaded (cases N11, 26)."""
    if wanted.max_removed is None or wanted.state == "empty":
        return
    members = dict.fromkeys((loaded or ()) + before.nodes)
    dropped = [node for node in members if node not in nodes and node_map.is_member(node)]
    if len(dropped) > wanted.max_removed:
        from .refusals import refuse_removal

        refuse_removal(dropped, members, wanted.max_removed)


def plan_config(wanted: Wanted, found: Found, values: dict[str, str]) -> tuple[config_file.Edited, tuple[str, ...]]:
    """The new text of config.cfg and warnings. Raises InputError for what the daemon could not work with."""
    path, text = found.config_path, found.config_text
    warnings: tuple[str, ...] = ()
    if text is None and not wanted.create_config and (wanted.state == "present" or values):
        missing = f"{path} does not exist, expected the file of the nvidia-imex package"
        if not (wanted.check_mode and (found.unit is None or not found.unit.found)):
            raise InputError(f"{missing}; nothing was written. Install the package, or set create_config to true.")
        warnings += (f"{missing}; check mode goes on as if it will come with the package",)
    if wanted.state == "empty" and not values:
        # Nothing of the file is used, so a fault in it does not keep a daemon from being stopped.
        return config_file.Edited(text or "", ()), warnings
    from . import config_edit, config_rules

    edited = config_edit.edit(text or "", values, path)
    parsed = config_file.parse(edited.text, path)
    named = config_file.value(parsed.values, "IMEX_NODE_CONFIG_FILE")
    if named != found.nodes_path:
        if "IMEX_NODE_CONFIG_FILE" in values:
            raise InputError(
                f"config sets IMEX_NODE_CONFIG_FILE to {named}, but nodes_config_path is {found.nodes_path}; nothing was "
                "written. Leave one of them out."
            )
        warnings += (
            f"{path}: the daemon reads its list from {named}, this run writes {found.nodes_path}; set "
            "IMEX_NODE_CONFIG_FILE if that is not meant",
        )
    timeout = wanted.start_timeout
    if timeout is None and found.unit is not None:
        timeout = found.unit.start_timeout
    limits = config_file.Limits(timeout, found.ephemeral, found.reserved)
    return edited, warnings + parsed.warnings + config_rules.check(parsed.values, limits, tuple(values), what=path)


def plan_unit(unit: Unit | None) -> tuple[str, ...]:
    """What has to happen to a unit that nobody wants: an enabled one with no list restarts until systemd gives up."""
    if unit is None or not unit.found:
        return ()
    alive = unit.running or unit.active_state in ("activating", "deactivating")
    enabled = unit.unit_file_state.startswith("enabled")
    return ("stop",) * alive + ("disable",) * enabled


def plan_pending(
    found: Found, edited: config_file.Edited, after: dict[str, str]
) -> tuple[config_file.ConfigChange, ...]:
    """Keys that have another value for the daemon than the file will say: as loaded where that is known."""
    if found.loaded is not None and found.loaded.config is not None:
        held = dict(found.loaded.config)
    elif found.running is False:
        return ()
    else:
        held = config_file.parse(found.config_text or "", found.config_path).values
    keys = dict.fromkeys((*held, *after))
    return tuple(
        config_file.ConfigChange(key, held.get(key), config_file.value(after, key), config_file.key_class(key))
        for key in keys
        if config_file.effective(held, key) != config_file.effective(after, key)
    )


def present_warnings(found: Found, nodes: tuple[str, ...], rewrite: bool) -> tuple[str, ...]:
    warnings: list[str] = []
    if len(nodes) == 1:
        warnings.append("nodes has one member: its daemon starts, but no quorum of two or more can be reached")
    unit = found.unit
    if unit is not None and unit.masked:
        warnings.append(f"{unit.unit} is masked, so no start is asked for; unmask it if this host shall be a member")
    elif unit is not None and unit.found and not unit.enabled and found.running is False and not rewrite:
        warnings.append(
            f"{unit.unit} is stopped and {unit.unit_file_state or 'not enabled'}: somebody may have meant it"
        )
    return tuple(warnings)
