#!/usr/bin/python
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Says what IMEX is doing on one host and in its domain."""

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_status
short_description: Tell what IMEX is doing on a host and in its domain
version_added: 0.1.0
description:
  - Asks systemd, the control tool and the files of one host, once each, and says in one word and one line whether IMEX is as it should
    be, with reasons.
  - This module is read-only. It changes nothing, also not with O(planned).
  - It does not fail because something is broken. A daemon that is down, a control tool that is missing, a file that cannot be read are
    answers, in RV(verdict) and RV(reasons). It fails for arguments that cannot be used, and where O(require) was not reached.
  - Which addresses are this host's is read from C(/proc/net/fib_trie) and C(/proc/net/if_inet6) without starting a program. Only where
    the kernel offers no C(fib_trie), C(ip addr) is asked.
author:
  - hpc.fabric contributors (@hpc-fabric)
extends_documentation_fragment:
  - hpc.fabric._imex
  - hpc.fabric._attributes.read_only
  - hpc.fabric._attributes.actiongroup_imex
options:
  gather:
    description:
      - What to look at. RV(verdict) rests on what was gathered, and RV(evidence) says on what.
      - V(daemon) asks systemd for the unit and, without V(domain), the local daemon for its state.
      - V(domain) asks every node of the domain through the control tool. Alone it does not ask systemd, the daemon's own row counts.
      - V(channels) looks at the channel devices, V(activity) at who uses IMEX now, V(log) at the daemon's error lines since its start.
      - V(errors), V(statistics) and V(nvlink) are not built in this release, asking for them fails. V(all) is everything that is built,
        with a warning that names what is not.
    type: list
    elements: str
    choices: [daemon, domain, errors, statistics, channels, nvlink, log, activity, all]
    default: [daemon, domain]
  detail:
    description:
      - V(summary) returns every node with its state and, of the connections, those that are not as they should be.
      - V(own) adds all connections of this host's own row.
      - V(full) returns all connections of all nodes and asks for host names too, for which the control tool looks every node up.
    type: str
    choices: [summary, own, full]
    default: summary
  planned:
    description:
      - What this host is to have. Adds RV(deployment), which is what M(hpc.fabric.imex_nodes_config) would return in check mode, and
        RV(host_changes). A rollout inspects a host with this one call.
    type: dict
    suboptions:
      state:
        description:
          - V(present), or V(empty) for a host where no daemon is wanted.
        type: str
        choices: [present, empty]
        default: present
      nodes:
        description:
          - Addresses in the order of the ids.
        type: list
        elements: str
      order:
        description:
          - As in M(hpc.fabric.imex_nodes_config).
        type: str
        choices: [given, address, keep]
        default: given
      config:
        description:
          - Keys of C(config.cfg) and their values.
        type: dict
        default: {}
      create_config:
        description:
          - Whether a missing C(config.cfg) is made.
        type: bool
        default: false
      allow_hostnames:
        description:
          - Accept host names among the nodes.
        type: bool
        default: false
      allow_loopback_addresses:
        description:
          - Accept loopback addresses.
        type: bool
        default: false
      allow_documentation_addresses:
        description:
          - Accept addresses from the ranges reserved for documentation.
        type: bool
        default: false
      require_local_address:
        description:
          - Exactly one of this host's addresses must be among the nodes.
        type: bool
        default: true
      start_timeout:
        description:
          - Seconds that a start of the unit may take, for the check of C(IMEX_CONN_WAIT_TIMEOUT).
        type: float
      owner:
        description:
          - Who shall own both files, a name or a number.
        type: str
      group:
        description:
          - The group both files shall have, a name or a number.
        type: str
      mode:
        description:
          - The permissions both files shall have, octal.
        type: str
      unit:
        description:
          - How the unit shall be. What is not given is not compared.
        type: dict
        suboptions:
          dropin:
            description:
              - Whether the collection's drop-in shall be there.
            type: bool
          enabled:
            description:
              - Whether the unit shall start at boot.
            type: bool
          masked:
            description:
              - Whether the unit shall be masked.
            type: bool
          start_timeout:
            description:
              - C(TimeoutStartSec) of the drop-in, in seconds.
            type: float
            default: 90
          driver_path:
            description:
              - The path whose existence the drop-in makes a condition. Empty for none.
            type: str
            default: /dev/nvidiactl
      package:
        description:
          - The package that shall be installed.
        type: dict
        suboptions:
          name:
            description:
              - Its name, which depends on branch and distribution.
            type: str
          version:
            description:
              - Its version, with or without the distribution's release behind it. Not given, any version will do.
            type: str
  expected_nodes:
    description:
      - The node map this host should have. When it is not given, the nodes of O(planned), else what the node list file says.
    type: list
    elements: str
  quorum:
    description:
      - How many of the expected nodes are enough. V(all), V(majority), a percentage such as V(75%) (rounded up), or a count such as
        V(16). More than there are is an error. This host counts.
    type: str
    default: all
  required_nodes:
    description:
      - Addresses or host names that must be among them.
    type: list
    elements: str
    default: []
  require:
    description:
      - What must be reached. V(ready) is a local daemon that says READY, V(quorum) is RV(quorum.met).
      - The module looks again until it is reached or O(wait_timeout) is over, then it fails with the reasons. It fails at once where
        waiting cannot help, because the unit is missing or masked or systemd has given up starting it.
    type: str
    choices: [none, ready, quorum]
    default: none
  wait_timeout:
    description:
      - Seconds to wait for O(require).
    type: float
    default: 0
  wait_interval:
    description:
      - Seconds between two looks.
    type: float
    default: 1
  starting_limit:
    description:
      - Seconds that a daemon may initialise before it counts as hanging. A finite C(TimeoutStartSec) of the unit comes first while
        systemd is starting it.
    type: float
    default: 300
  probe:
    description:
      - Connect to ports of other hosts, all at the same time. Adds RV(probes).
    type: dict
    suboptions:
      addresses:
        description:
          - Addresses or host names.
        type: list
        elements: str
        required: true
      ports:
        description:
          - TCP ports, each on every address.
        type: list
        elements: int
        required: true
      timeout:
        description:
          - Seconds to wait for an answer.
        type: float
        default: 5
  smi_command:
    description:
      - The program that knows the GPU processes, a path or a name, for V(activity) in O(gather).
    type: str
    default: nvidia-smi
  persist_path:
    description:
      - The daemon's list of importers, for V(activity) in O(gather).
    type: path
    default: /var/run/nvidia-imex/persist.dat
  job_records_dir:
    description:
      - Where the prolog notes jobs, for V(activity) in O(gather).
    type: path
    default: /run/hpc-fabric/jobs
  slurm_conf:
    description:
      - Files that may say that Slurm's switch plugin makes the channel devices, for V(channels) in O(gather).
    type: list
    elements: path
    default: [/etc/slurm/slurm.conf, /run/slurm/conf/slurm.conf]
  device_root:
    description:
      - Where devices are, for V(channels) in O(gather).
    type: path
    default: /dev
notes:
  - Read-only, so it runs in check mode as it does else.
  - From one host only the star around it is proved. What all members see of each other is proved by asking each of them.
  - Reading the files, another user's processes and the log needs root on most hosts.
seealso:
  - module: hpc.fabric.imex_nodes_config
  - module: hpc.fabric.imex_daemon
"""

EXAMPLES = r"""
- name: Look
  hpc.fabric.imex_status:
  register: imex

- name: Say it in one line
  ansible.builtin.debug:
    msg: "{{ imex.summary }}"

- name: Wait until three quarters of the domain are connected with this host
  hpc.fabric.imex_status:
    require: quorum
    quorum: 75%
    wait_timeout: 300

- name: Wait for the local daemon alone
  hpc.fabric.imex_status:
    gather: [daemon]
    require: ready
    wait_timeout: 60

- name: What would a new node map mean for this host?
  hpc.fabric.imex_status:
    planned:
      nodes: [10.0.0.11, 10.0.0.12, 10.0.0.13, 10.0.0.14]
      order: keep
      config:
        IMEX_CMD_ENABLED: 1
      unit:
        dropin: true
        enabled: true

- name: Everything there is to know
  hpc.fabric.imex_status:
    gather: [all]
    detail: full

- name: Do the members answer on the network?
  hpc.fabric.imex_status:
    gather: [daemon]
    probe:
      addresses: [10.0.0.12, 10.0.0.13]
      ports: [50000, 50005]
      timeout: 3
"""

RETURN = r"""
verdict:
  description:
    - One word, the first of these that holds.
    - V(not_applicable), no driver and no unit. V(idle), nothing expects a daemon, or a Kubernetes driver owns IMEX here. V(down), a daemon
      is expected and not running. V(not_queryable), it runs, but its command service is off or closed. V(unknown), no usable answer within
      the time. V(starting), it initialises, within its time. V(degraded), it runs, and an expected node is missing, not connected,
      mismatched or unexpected, or the loaded map is another. V(healthy), every expected node is READY and connected.
  returned: always
  type: str
  sample: healthy
summary:
  description: One line for a person.
  returned: always
  type: str
  sample: "healthy: 4 of 4 nodes ready and connected (UP, map loaded 3b1f\u2026)"
reasons:
  description: Why, the gravest first. A healthy host may have notes here.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description:
        - Of the unit, V(daemon_not_running), V(restart_loop), V(unit_masked), V(unit_disabled), V(unit_not_found),
          V(unit_condition_failed), V(unit_unknown) (systemd could not be asked), V(start_hangs), V(starting), V(foreign_daemon) (another
          process has the daemon's port or the driver), V(managed_by_kubernetes), V(nothing_expected), V(not_applicable), V(not_gathered).
        - Of the answer, V(command_service_off), V(command_service_closed), V(control_tool_missing), V(control_tool_failed),
          V(not_configured), V(time_limit), V(unreadable_answer).
        - Of the domain, V(node_missing), V(node_unexpected), V(node_not_ready), V(node_not_connected), V(node_map_mismatch) (the lists
          differ, this is no network fault), V(version_mismatch), V(version_differs), V(own_address_missing), V(domain_not_up).
        - Of the files, V(loaded_differs), V(order_differs), V(configured_differs), V(config_missing), V(config_unreadable),
          V(node_map_unreadable), V(node_map_invalid).
        - Of the log, V(port_in_use), V(driver_notification_failed), V(import_failed), V(node_id_differs), V(host_names), V(log_error).
      returned: always
      type: str
      sample: node_not_ready
    message:
      description: The same for a person.
      returned: always
      type: str
      sample: "not READY: 10.0.0.13 (UNAVAILABLE)"
    nodes:
      description: The nodes it is about.
      returned: always
      type: list
      elements: str
evidence:
  description:
    - What RV(verdict) rests on. V(unit), systemd. V(own_row), the local daemon's own connections. V(daemon_state), its state word alone.
      V(member_rows), rows of other members. V(loaded_by_record), V(loaded_by_own_row), V(loaded_by_start_time), how the loaded map is
      known.
  returned: always
  type: list
  elements: str
  sample: [unit, own_row, member_rows, loaded_by_record]
daemon:
  description: The unit and its daemon.
  returned: when V(daemon) is gathered
  type: dict
  contains:
    unit:
      description: The unit's full name.
      returned: always
      type: str
      sample: nvidia-imex.service
    load_state:
      description: C(LoadState) of the unit.
      returned: when systemd answers, as are all that follow down to C(restart_loop)
      type: str
      sample: loaded
    active_state:
      description: C(ActiveState).
      returned: when systemd answers
      type: str
      sample: active
    sub_state:
      description: C(SubState).
      returned: when systemd answers
      type: str
      sample: running
    unit_file_state:
      description: C(UnitFileState).
      returned: when systemd answers
      type: str
      sample: enabled
    restarts:
      description: How often systemd has restarted it by itself.
      returned: when systemd answers
      type: int
    invocation_id:
      description: Systemd's id of the present start.
      returned: when systemd answers
      type: str
    pid:
      description: The main process, null when there is none.
      returned: when systemd answers
      type: int
    started_at:
      description: When the start was done, in seconds since the epoch. Null when not known.
      returned: when systemd answers
      type: float
    activating_at:
      description: When the start began, in seconds since the epoch. Null when not known.
      returned: when systemd answers
      type: float
    start_timeout:
      description: C(TimeoutStartSec) in seconds, null for no limit.
      returned: when systemd answers
      type: float
    exec_status:
      description: The exit status of the last main process.
      returned: when systemd answers
      type: int
    result:
      description: C(Result) of the last run.
      returned: when systemd answers
      type: str
      sample: success
    condition:
      description: Whether the unit's conditions held at the last start, null when never asked.
      returned: when systemd answers
      type: bool
    fragment:
      description: The unit file.
      returned: when systemd answers
      type: str
    drop_ins:
      description: Its drop-ins.
      returned: when systemd answers
      type: list
      elements: str
    need_reload:
      description: Whether unit files changed since systemd read them.
      returned: when systemd answers
      type: bool
    job:
      description: The id of a waiting job of the unit, null for none.
      returned: when systemd answers
      type: int
    running:
      description: Whether the unit is active.
      returned: when systemd answers
      type: bool
    enabled:
      description: Whether it starts at every boot. C(enabled-runtime), C(static) and C(linked) do not count.
      returned: when systemd answers
      type: bool
    masked:
      description: Whether it is masked.
      returned: when systemd answers
      type: bool
    restart_loop:
      description: Whether systemd starts it again and again, or has given up doing so.
      returned: when systemd answers
      type: bool
    state:
      description: The local daemon's own word, null when it said none.
      returned: always
      type: str
      sample: READY
    version:
      description: Its version, null when not known.
      returned: always
      type: str
      sample: 570.172.08
    driver_version:
      description: The version of the loaded driver, null when not known.
      returned: always
      type: str
      sample: 570.172.08
    managed_by:
      description: V(host), V(kubernetes) or V(unknown).
      returned: always
      type: str
      sample: host
    masked_by_us:
      description: Whether M(hpc.fabric.imex_daemon) has masked the unit, so that it can unmask it too.
      returned: always
      type: bool
domain:
  description: The domain as the control tool reports it, null when it has no usable answer.
  returned: when V(domain) is gathered
  type: dict
  contains:
    state:
      description: The domain's word. It proves nothing alone.
      returned: always
      type: str
      sample: UP
    timestamp:
      description: When the tool made the answer, as it says it.
      returned: always
      type: str
      sample: 8/8/2025 17:38:02.641
    node_count:
      description: How many nodes it lists.
      returned: always
      type: int
    ready_count:
      description: How many of them are READY.
      returned: always
      type: int
    nodes:
      description: The nodes in the order of their ids.
      returned: always
      type: list
      elements: dict
      contains:
        id:
          description: The id.
          returned: always
          type: int
        host:
          description: The address, or the name, as the list has it.
          returned: always
          type: str
        hostname:
          description: The host name, null when not asked or not known.
          returned: always
          type: str
        status:
          description: The word of its daemon, V(UNAVAILABLE) where it does not answer. Unknown words stay as they are.
          returned: always
          type: str
          sample: READY
        version:
          description: The version of its daemon, null when not known.
          returned: always
          type: str
        is_local:
          description: Whether it is this host.
          returned: always
          type: bool
        connections:
          description: Its connections as it sees them, see O(detail).
          returned: always
          type: list
          elements: dict
          contains:
            id:
              description: The id of the other node.
              returned: always
              type: int
            host:
              description: The other node.
              returned: always
              type: str
            status:
              description:
                - V(CONNECTED), V(NEVER_CONNECTED), V(RECOVERING), V(DISCONNECTED), V(INVALID), V(AUTHENTICATING), V(VERSION_MISMATCH),
                  V(NODE_MAP_MISMATCH), or the tool's word where it is another.
              returned: always
              type: str
            status_raw:
              description: The tool's word or table cell.
              returned: always
              type: str
node_map:
  description: The node map of the file and of the daemon, compared with what is expected.
  returned: always
  type: dict
  contains:
    configured:
      description: What the file says.
      returned: always
      type: list
      elements: str
    loaded:
      description: What the running daemon holds, null when not known.
      returned: always
      type: list
      elements: str
    source:
      description: How that is known. V(record), V(own_row), V(start_time) or V(none).
      returned: always
      type: str
      sample: record
    digest:
      description: The identity of the loaded map, order included. Null when not known.
      returned: always
      type: str
    in_sync:
      description: Whether daemon and file agree, null when not known.
      returned: always
      type: bool
    missing:
      description: Expected nodes that are not in the loaded map (in the domain's answer, in the file, where nothing better is known).
      returned: always
      type: list
      elements: str
    unexpected:
      description: Nodes in there that are not expected.
      returned: always
      type: list
      elements: str
    reordered:
      description: Whether the common nodes stand in another order.
      returned: always
      type: bool
quorum:
  description: What this host proves of the quorum.
  returned: when V(domain) is gathered
  type: dict
  contains:
    scope:
      description: Always V(local), the star around this host.
      returned: always
      type: str
    spec:
      description: What O(quorum) asks for.
      returned: always
      type: str
    required:
      description: How many nodes that are.
      returned: always
      type: int
    expected:
      description: How many nodes are expected.
      returned: always
      type: int
    connected:
      description: How many count, this host among them. 0 while the local daemon is not READY.
      returned: always
      type: int
    met:
      description: Whether they are enough and hold all O(required_nodes).
      returned: always
      type: bool
    missing:
      description: Expected nodes that do not count.
      returned: always
      type: list
      elements: str
    one_sided:
      description: Nodes that count though their own row is not known.
      returned: always
      type: list
      elements: str
    not_mutual:
      description: Nodes where one side says CONNECTED and the other does not.
      returned: always
      type: list
      elements: str
local_addresses:
  description: The addresses that were taken for this host's.
  returned: always
  type: list
  elements: str
versions:
  description: Versions as far as they are known without another program, null where not.
  returned: always
  type: dict
  contains:
    daemon:
      description: Of the daemon, by its own row. With a planned package and no row, of the installed program.
      returned: always
      type: str
    driver:
      description: Of the loaded driver.
      returned: always
      type: str
ports:
  description: The daemon's ports as C(config.cfg) has them, or as documented. Null for what is no number.
  returned: always
  type: dict
  contains:
    server:
      description: C(SERVER_PORT).
      returned: always
      type: int
      sample: 50000
    command:
      description: C(IMEX_CMD_PORT).
      returned: always
      type: int
      sample: 50005
channels:
  description: The channel devices.
  returned: when V(channels) is gathered
  type: dict
  contains:
    driver_major:
      description: The major number of the driver's channels, null where it has none.
      returned: always
      type: int
    count_limit:
      description: How many channels the driver allows, null when not known.
      returned: always
      type: int
    devices:
      description: The files of the channel folder.
      returned: always
      type: list
      elements: dict
      contains:
        channel:
          description: The number of the channel.
          returned: always
          type: int
        path:
          description: The device file.
          returned: always
          type: str
        mode:
          description: Its permissions.
          returned: always
          type: str
        usable:
          description: Whether it is the driver's device of that number.
          returned: always
          type: bool
    manager:
      description: Who makes them. V(switch_plugin), V(driver), V(manual) or V(none).
      returned: always
      type: str
activity:
  description: Who uses IMEX here now. Null means that nobody can say, a warning says why.
  returned: when V(activity) is gathered
  type: dict
  contains:
    gpu_processes:
      description: Compute processes.
      returned: always
      type: list
      elements: dict
      contains:
        pid:
          description: The process.
          returned: always
          type: int
        name:
          description: Its program.
          returned: always
          type: str
    importers:
      description: Nodes that hold memory of this one.
      returned: always
      type: list
      elements: str
    job_records:
      description: How many jobs the prolog has noted.
      returned: always
      type: int
    notes:
      description: Why something is not known.
      returned: always
      type: list
      elements: str
log:
  description: The last error lines since the daemon's start. Without a log file they come from the journal, a warning says so.
  returned: when V(log) is gathered
  type: list
  elements: dict
  contains:
    time:
      description: Local time of the host, ISO 8601 without a zone. Null when the line has none.
      returned: always
      type: str
    level:
      description: The level.
      returned: always
      type: str
    message:
      description: The line.
      returned: always
      type: str
deployment:
  description: What M(hpc.fabric.imex_nodes_config) would return in check mode for O(planned).
  returned: with O(planned)
  type: dict
host_changes:
  description: What else O(planned) would change.
  returned: with O(planned)
  type: list
  elements: dict
  contains:
    what:
      description: V(owner), V(group), V(mode), V(dropin), V(enabled), V(masked) or V(package).
      returned: always
      type: str
    path:
      description: The file, the unit or the package.
      returned: always
      type: str
    before:
      description: As it is.
      returned: always
      type: raw
    after:
      description: As it would be.
      returned: always
      type: raw
probes:
  description: What each connection of O(probe) met, in the order asked.
  returned: with O(probe)
  type: list
  elements: dict
  contains:
    address:
      description: The address.
      returned: always
      type: str
    port:
      description: The port.
      returned: always
      type: int
    answer:
      description: V(accepted), V(refused) (the host is there, the port is closed), V(silent) or V(error).
      returned: always
      type: str
    detail:
      description: More about silence and errors.
      returned: always
      type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import status
from ansible_collections.hpc.fabric.plugins.module_utils.imex.look import Request
from ansible_collections.hpc.fabric.plugins.module_utils.module_options import common_options

GATHER = [*status.BUILT, *status.LATER, "all"]


def planned_options() -> dict[str, dict[str, t.Any]]:
    return {
        "state": {"type": "str", "choices": ["present", "empty"], "default": "present"},
        "nodes": {"type": "list", "elements": "str"},
        "order": {"type": "str", "choices": ["given", "address", "keep"], "default": "given"},
        "config": {"type": "dict", "default": {}},
        "create_config": {"type": "bool", "default": False},
        "allow_hostnames": {"type": "bool", "default": False},
        "allow_loopback_addresses": {"type": "bool", "default": False},
        "allow_documentation_addresses": {"type": "bool", "default": False},
        "require_local_address": {"type": "bool", "default": True},
        "start_timeout": {"type": "float"},
        "owner": {"type": "str"},
        "group": {"type": "str"},
        "mode": {"type": "str"},
        "unit": {
            "type": "dict",
            "options": {
                "dropin": {"type": "bool"},
                "enabled": {"type": "bool"},
                "masked": {"type": "bool"},
                "start_timeout": {"type": "float", "default": 90},
                "driver_path": {"type": "str", "default": "/dev/nvidiactl"},
            },
        },
        "package": {"type": "dict", "options": {"name": {"type": "str"}, "version": {"type": "str"}}},
    }


def options() -> dict[str, dict[str, t.Any]]:
    return {
        **common_options(),
        "gather": {"type": "list", "elements": "str", "choices": GATHER, "default": ["daemon", "domain"]},
        "detail": {"type": "str", "choices": ["summary", "own", "full"], "default": "summary"},
        "planned": {"type": "dict", "options": planned_options()},
        "expected_nodes": {"type": "list", "elements": "str"},
        "quorum": {"type": "str", "default": "all"},
        "required_nodes": {"type": "list", "elements": "str", "default": []},
        "require": {"type": "str", "choices": ["none", "ready", "quorum"], "default": "none"},
        "wait_timeout": {"type": "float", "default": 0},
        "wait_interval": {"type": "float", "default": 1},
        "starting_limit": {"type": "float", "default": 300},
        "probe": {
            "type": "dict",
            "options": {
                "addresses": {"type": "list", "elements": "str", "required": True},
                "ports": {"type": "list", "elements": "int", "required": True},
                "timeout": {"type": "float", "default": 5},
            },
        },
        "smi_command": {"type": "str", "default": "nvidia-smi"},
        "persist_path": {"type": "path", "default": "/var/run/nvidia-imex/persist.dat"},
        "job_records_dir": {"type": "path", "default": "/run/hpc-fabric/jobs"},
        "slurm_conf": {
            "type": "list",
            "elements": "path",
            "default": ["/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"],
        },
        "device_root": {"type": "path", "default": "/dev"},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=options(), supports_check_mode=True)
    try:
        result, failure = status.run(Request(**module.params))
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    for warning in result.pop("warnings"):
        module.warn(warning)
    if failure:
        module.fail_json(msg=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
