# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that all modules of the action group hpc.fabric.imex share (doc fragment hpc.fabric._imex)."""

from __future__ import annotations

import typing as t


def common_options() -> dict[str, dict[str, t.Any]]:
    """Their argument_spec."""
    return {
        "config_path": {"type": "path", "default": "/etc/nvidia-imex/config.cfg"},
        "nodes_config_path": {"type": "path"},
        "control_command": {"type": "str", "default": "nvidia-imex-ctl"},
        "control_timeout": {"type": "float", "default": 30},
        "service": {"type": "str", "default": "nvidia-imex"},
        "local_addresses": {"type": "list", "elements": "str"},
        "state_dir": {"type": "path", "default": "/var/lib/hpc-fabric"},
        "run_dir": {"type": "path", "default": "/run/hpc-fabric"},
        "systemctl_command": {"type": "str", "default": "systemctl"},
        "unit_dir": {"type": "path", "default": "/etc/systemd/system"},
        "proc_root": {"type": "path", "default": "/proc"},
        "sysfs_root": {"type": "path", "default": "/sys"},
    }
