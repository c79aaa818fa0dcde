# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which members of a map answer on the network, asked before anything is written."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from . import config_file, node_map
from .deployment import Deployment
from .probe import probe
from .quorum import required
from .wanted import Found, Wanted


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


def reach(deployment: Deployment, wanted: Wanted, spec: str, port: int | None, timeout: float, found: Found) -> Reach:
    """Ask every member of the new map for an answer on the network. Raises InputError for a spec that none can meet, a
    port that is none, and no time.

    port: None for the SERVER_PORT that config.cfg will have.
    """
    needed = required(spec, len(deployment.nodes)) if deployment.nodes else 0
    # The system would take a port that is none for another one.
    if port is not None and not 0 < port < 65536:
        raise InputError(f"probe_port is {port}, expected a port from 1 to 65535.")
    if timeout <= 0:
        raise InputError(f"probe_timeout is {timeout:g}, expected seconds above 0.")
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
