# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the files of a host say about its IMEX, read once. Nothing is raised: what is wrong becomes a reason."""

from __future__ import annotations

import os
import typing as t

from .. import files
from ..errors import FileError
from . import config_file, node_map
from .look import Local, Reason, Request

UNREADABLE = ("config_unreadable", "node_map_unreadable")


def read_local(request: Request) -> Local:
    """Read config.cfg, the node list and this host's addresses."""
    found: list[Reason] = []
    config_text = _read(request.config_path, "config_unreadable", found)
    values = config_file.parse(config_text or "", request.config_path).values
    nodes_path = request.nodes_config_path or config_file.value(values, "IMEX_NODE_CONFIG_FILE")
    nodes_text = _read(nodes_path, "node_map_unreadable", found)
    parsed = node_map.parse(nodes_text or "", nodes_path)
    if parsed.problems:
        found.append(Reason("node_map_invalid", "; ".join(parsed.problems[:5])))
    if config_text is None and parsed.nodes and not found:
        found.append(
            Reason("config_missing", f"{request.config_path} does not exist, so the daemon cannot start again")
        )
    return Local(
        config_text,
        values,
        nodes_path,
        nodes_text,
        parsed.nodes,
        files.changed_at(request.config_path, nodes_path),
        _addresses(request, values, parsed.nodes),
        tuple(found),
    )


def has_driver(proc_root: str, sysfs_root: str) -> bool:
    """True when the NVIDIA driver is loaded."""
    return os.path.exists(os.path.join(proc_root, "driver/nvidia/version")) or os.path.exists(
        os.path.join(sysfs_root, "module/nvidia")
    )


def _read(path: str, code: str, found: list[Reason]) -> str | None:
    try:
        return files.read_text(path)
    except FileError as exc:
        found.append(Reason(code, str(exc)))
        return None


def _addresses(request: Request, values: t.Mapping[str, str], nodes: t.Sequence[str]) -> tuple[str, ...]:
    if request.local_addresses is not None:
        return tuple(map(node_map.canonical, request.local_addresses))
    bound = node_map.canonical(config_file.value(values, "BIND_INTERFACE_IP"))
    if bound and bound in nodes:
        # The daemon does not look for another address then.
        return (bound,)
    from . import addresses

    return addresses.local_addresses(request.proc_root, [node for node in nodes if not node_map.is_address(node)])
