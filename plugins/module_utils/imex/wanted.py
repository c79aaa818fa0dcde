# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wanted of a host, what it has, and why its daemon must be restarted: what deployment.py goes from and says."""

from __future__ import annotations

import typing as t

from . import node_map

if t.TYPE_CHECKING:
    from .daemon import Loaded
    from .unit import Unit


class Wanted(t.NamedTuple):
    """What the caller asks for. nodes, config: as given; max_removed, start_timeout: None for no limit.

    local_addresses: of this host, canonical or not; check_mode: nothing will be written, so what another step of the same
    run brings may still be missing.
    """

    state: str = "present"
    nodes: tuple[str, ...] = ()
    order: str = "given"
    config: tuple[tuple[str, t.Any], ...] = ()
    create_config: bool = True
    policy: node_map.Policy = node_map.Policy()
    require_local_address: bool = True
    max_removed: int | None = None
    local_addresses: tuple[str, ...] = ()
    start_timeout: float | None = None
    check_mode: bool = False


class Found(t.NamedTuple):
    """What the host has. A text is None where there is no file; unit is None where systemd could not be asked.

    mismatch: node_map or version where the daemon's own row says so; names: what the host names among the wanted nodes
    resolve to here; version: of the daemon or the driver, None when not known.
    """

    nodes_path: str
    config_path: str
    nodes_text: str | None = None
    config_text: str | None = None
    unit: Unit | None = None
    loaded: Loaded | None = None
    mismatch: str = ""
    ephemeral: tuple[int, int] | None = None
    reserved: tuple[tuple[int, int], ...] = ()
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    version: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def running(self) -> bool | None:
        """Whether there is a daemon that has read its files; None when systemd could not be asked."""
        return None if self.unit is None else self.unit.running or self.unit.starting


class Reason(t.NamedTuple):
    """Why a restart is required; code is one of the documented words."""

    code: str
    message: str
