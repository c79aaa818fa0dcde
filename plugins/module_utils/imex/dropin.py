# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drop-in of the IMEX unit: a finite start, and a start only with the driver and a node list."""

from __future__ import annotations

import os

from .unit import unit_name

NAME = "50-hpc-fabric.conf"


def path(unit_dir: str, service: str) -> str:
    """Where the drop-in of a service lies."""
    return os.path.join(unit_dir, unit_name(service) + ".d", NAME)


def text(start_timeout: float, driver_path: str, nodes_path: str) -> str:
    """The content. The unit as shipped waits for ever (TimeoutStartSec=infinity, reference 1.3).

    start_timeout is in seconds; an empty driver_path leaves that condition out.
    """
    conditions = [f"ConditionPathExists={driver_path}"] if driver_path else []
    return "\n".join(
        [
            "# Written by the Ansible collection hpc.fabric; changes are lost.",
            "[Unit]",
            "# No start on a host without the driver, or without a node list: it would only fail again and again.",
            *conditions,
            f"ConditionFileNotEmpty={nodes_path}",
            "",
            "[Service]",
            f"TimeoutStartSec={start_timeout:g}",
            "",
        ]
    )
