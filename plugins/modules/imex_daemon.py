#!/usr/bin/python
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stops and starts the IMEX daemon of one host within time limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_daemon
short_description: Stop and start the IMEX daemon of a host within time limits
version_added: 0.1.0
description:
  - Stops, starts and enables the unit of the IMEX daemon and notes what the daemon loaded.
  - The unit as shipped has C(TimeoutStartSec=infinity), so C(systemctl start) may never return. This module starts without waiting for
    the daemon to be ready, use M(hpc.fabric.imex_status) with O(hpc.fabric.imex_status#module:require) for that.
  - A stop is graceful. A daemon that does not end in O(stop_timeout) is killed as a last resort, which is reported in RV(killed), since
    the next start then waits for recovery. A stop also ends a start that hangs.
  - A changed node map needs all members of a domain stopped before any is started. The role C(hpc.fabric.imex) does that, this module
    handles one host.
author:
  - hpc.fabric contributors (@hpc-fabric)
extends_documentation_fragment:
  - hpc.fabric._imex
  - hpc.fabric._attributes
  - hpc.fabric._attributes.actiongroup_imex
attributes:
  check_mode:
    support: full
    details: Says what it would do, also where the unit or systemd is missing.
  diff_mode:
    support: full
    details: Shows the drop-in.
  idempotent:
    support: partial
    details: O(state=restarted) restarts every time.
options:
  state:
    description:
      - V(started) starts a daemon that is not running. V(stopped) stops it. V(restarted) does both. V(unchanged) leaves it.
      - A failed start or a restart loop does not fail the module, RV(unit) and a warning say it.
    type: str
    choices: [started, stopped, restarted, unchanged]
    default: unchanged
  enabled:
    description:
      - Whether it starts at boot. When it is not given, that stays as it is.
    type: bool
  masked:
    description:
      - V(true) masks the unit, for another owner of IMEX such as a Kubernetes driver, and notes in O(state_dir) that this was done here.
      - V(false) unmasks it if there is that note. When it is not given, that stays as it is.
    type: bool
  force_unmask:
    description:
      - With O(masked=false), unmask also what somebody else has masked.
    type: bool
    default: false
  dropin:
    description:
      - V(true) writes the drop-in C(50-hpc-fabric.conf) of the unit. It limits a start to O(start_timeout), and makes O(driver_path) and
        a node list that is not empty conditions of it. V(false) removes it. When it is not given, it stays as it is.
    type: bool
  start_timeout:
    description:
      - C(TimeoutStartSec) of the drop-in, in seconds. The module itself does not wait that long.
    type: float
    default: 90
  stop_timeout:
    description:
      - Seconds that the daemon has to stop before it is killed.
    type: float
    default: 60
  driver_path:
    description:
      - The path whose existence the drop-in makes a condition of a start. Empty for none.
    type: str
    default: /dev/nvidiactl
  note:
    description:
      - Note for a running daemon what is in the files now as what it loaded, without a restart. For a daemon that is known to hold them.
    type: bool
    default: false
  run_id:
    description:
      - The run that this belongs to, kept in the record.
    type: str
    default: ""
  reset_failed:
    description:
      - Before a start, let systemd forget earlier failures, after which it would refuse it.
    type: bool
    default: true
notes:
  - A unit that does not exist, or that somebody else has masked, makes the module fail where it is to be started or enabled.
seealso:
  - module: hpc.fabric.imex_status
  - module: hpc.fabric.imex_nodes_config
"""

EXAMPLES = r"""
- name: Stop the daemon
  hpc.fabric.imex_daemon:
    state: stopped
    stop_timeout: 60

- name: Start it, with a drop-in that gives a start an end
  hpc.fabric.imex_daemon:
    state: started
    enabled: true
    dropin: true
    start_timeout: 90
  register: imex_started

- name: Wait until it is ready
  hpc.fabric.imex_status:
    require: ready
    wait_timeout: 120

- name: Leave IMEX to a Kubernetes driver
  hpc.fabric.imex_daemon:
    state: stopped
    masked: true

- name: Note that the running daemon holds what the files say
  hpc.fabric.imex_daemon:
    note: true
"""

RETURN = r"""
unit:
  description: The unit, as M(hpc.fabric.imex_status) returns it in RV(hpc.fabric.imex_status#module:daemon).
  returned: success
  type: dict
  contains:
    before:
      description: Before anything was done.
      returned: success
      type: dict
    after:
      description: After it. In check mode as before.
      returned: success
      type: dict
invocation_id:
  description: Systemd's id of the present start, empty when it was never started.
  returned: success
  type: str
record:
  description: What is noted for the present start of the daemon, null for nothing.
  returned: success
  type: dict
  contains:
    invocation_id:
      description: Systemd's id of the start.
      returned: success
      type: str
    started_at:
      description: When the start began, in seconds since the epoch.
      returned: success
      type: float
    nodes:
      description: The node map that was loaded.
      returned: success
      type: list
      elements: str
    config:
      description: The keys of C(config.cfg) that were loaded.
      returned: success
      type: dict
    origin:
      description: V(started) by this module, or V(adopted) with O(note).
      returned: success
      type: str
    writer_run:
      description: The O(run_id) of who wrote it.
      returned: success
      type: str
killed:
  description: Whether the daemon had to be killed.
  returned: success
  type: bool
actions:
  description:
    - What was done, in order. V(stop), V(kill), V(unmask), V(dropin), V(remove-dropin), V(daemon-reload), V(enable), V(disable),
      V(reset-failed), V(start), V(mask), V(note).
  returned: success
  type: list
  elements: str
  sample: [reset-failed, start]
warnings:
  description: What is worth a look. Ansible shows them.
  returned: when there is something
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import service
from ansible_collections.hpc.fabric.plugins.module_utils.module_options import common_options


def options() -> dict[str, dict[str, t.Any]]:
    return {
        **common_options(),
        "state": {"type": "str", "choices": ["started", "stopped", "restarted", "unchanged"], "default": "unchanged"},
        "enabled": {"type": "bool"},
        "masked": {"type": "bool"},
        "force_unmask": {"type": "bool", "default": False},
        "dropin": {"type": "bool"},
        "start_timeout": {"type": "float", "default": 90},
        "stop_timeout": {"type": "float", "default": 60},
        "driver_path": {"type": "str", "default": "/dev/nvidiactl"},
        "note": {"type": "bool", "default": False},
        "run_id": {"type": "str", "default": ""},
        "reset_failed": {"type": "bool", "default": True},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=options(), supports_check_mode=True)
    order = service.Order(**{name: module.params[name] for name in service.Order._fields})
    try:
        outcome = service.carry_out(order, module.check_mode)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    result = service.result(order, outcome, module._diff)
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
