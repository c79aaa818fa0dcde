# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that all modules of the action group hpc.fabric.imex share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  config_path:
    description:
      - The daemon's C(config.cfg).
    type: path
    default: /etc/nvidia-imex/config.cfg
  nodes_config_path:
    description:
      - The daemon's node map.
      - When it is not given, C(IMEX_NODE_CONFIG_FILE) of C(config.cfg) says where it is, else it is
        C(/etc/nvidia-imex/nodes_config.cfg).
    type: path
  control_command:
    description:
      - The control tool, a path or a name. A name is looked for on C(PATH), then in the directories where packages put it.
    type: str
    default: nvidia-imex-ctl
  control_timeout:
    description:
      - Seconds that one call of the control tool may take. Past them it is killed, and its answer is not known.
    type: float
    default: 30
  service:
    description:
      - The unit of the daemon, with or without C(.service).
    type: str
    default: nvidia-imex
  local_addresses:
    description:
      - The addresses of this host. When given, they override what the host says of itself.
    type: list
    elements: str
  state_dir:
    description:
      - Where the collection keeps what must outlive a reboot.
    type: path
    default: /var/lib/hpc-fabric
  run_dir:
    description:
      - Where the collection keeps what ends with a reboot, such as locks and the records of starts.
    type: path
    default: /run/hpc-fabric
  systemctl_command:
    description:
      - The command that talks to systemd, a path or a name.
    type: str
    default: systemctl
  unit_dir:
    description:
      - The directory in which the directory with the unit's drop-in lies.
    type: path
    default: /etc/systemd/system
  proc_root:
    description:
      - Where C(proc) is mounted.
    type: path
    default: /proc
  sysfs_root:
    description:
      - Where C(sysfs) is mounted.
    type: path
    default: /sys
"""
