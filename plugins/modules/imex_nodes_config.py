#!/usr/bin/python
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_nodes_config
short_description: Manage the node map and config.cfg of one host's IMEX daemon
version_added: 0.1.0
description:
  - Writes the ordered list of addresses that form an IMEX domain (C(nodes_config.cfg)) and sets keys of C(config.cfg), on one host.
  - Says whether the running daemon must be restarted for them, judged by what the daemon has loaded and not by whether a file changed.
  - The daemon is never restarted here. The daemons of a domain must be stopped all, then written, then started all, since one that
    meets a peer with another map shuts it out until both are restarted. P(hpc.fabric.imex#role) does that.
  - Before anything is written every entry is checked, and every one that cannot be used is named with its position.
  - A file is replaced in one step, under a lock. At any moment the old or the new one is there, whole.
author:
  - hpc.fabric contributors (@hpc-fabric)
extends_documentation_fragment:
  - ansible.builtin.files
  - hpc.fabric._imex
  - hpc.fabric._attributes
  - hpc.fabric._attributes.actiongroup_imex
attributes:
  check_mode:
    support: full
    details:
      - Works also on a host that has neither the package nor its directory.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) makes O(nodes) the node map of the host.
      - V(empty) says that no daemon is wanted. The list is emptied, and the unit is stopped and disabled, since an enabled unit
        without a list restarts until systemd gives up. A list that does not exist is empty already.
    type: str
    choices: [present, empty]
    default: present
  nodes:
    description:
      - The members of the domain, one address each. The position is the node's id, so all members need the same order.
      - Refused are addresses that are given twice (also in two spellings), loopback, link-local, multicast, unspecified, reserved and
        documentation addresses, prefixes, zones, leading zeros, a mix of IPv4 and IPv6, and host names. Some of that can be allowed.
      - An IPv4-mapped IPv6 address is its IPv4 address.
      - Required with O(state=present), not to be given with O(state=empty).
    type: list
    elements: str
  order:
    description:
      - V(given) takes O(nodes) as they stand.
      - V(address) sorts by number, IPv4 first.
      - V(keep) keeps the order that is loaded, else configured now, and appends new members in the order given.
    type: str
    choices: [given, address, keep]
    default: given
  config:
    description:
      - Keys of C(config.cfg) and their values. Everything else in the file stays as it is, byte for byte.
      - A key that is not in the file is appended once. A boolean becomes V(1) or V(0), a null an empty value.
      - Refused are a key that stands twice in the file, a line that is neither C(KEY=VALUE) nor a comment, C(SERVER_PORT) equal to
        C(IMEX_CMD_PORT), a port that is none, a value that a known key does not accept, C(IMEX_CONN_WAIT_TIMEOUT) that is not below the
        start timeout, and encryption with a part of its keys. A port in the kernel's range of local ports is a warning.
    type: dict
    default: {}
  create_config:
    description:
      - Whether a missing C(config.cfg) is made. With V(false) it must exist, as the package brings it.
      - In check mode, a missing one is a warning where the unit does not exist either, since the package may come in the same run.
    type: bool
    default: false
  allow_hostnames:
    description:
      - Accept host names among O(nodes). Each must have an address on this host, and no two may have the same.
      - Needs driver 570.158.01 or newer. An older one is refused where the version is known.
    type: bool
    default: false
  allow_loopback_addresses:
    description:
      - Accept loopback addresses, for laptops and tests.
    type: bool
    default: false
  allow_documentation_addresses:
    description:
      - Accept addresses from the ranges that are reserved for documentation, for tests.
    type: bool
    default: false
  require_local_address:
    description:
      - Exactly one of this host's own addresses must be among O(nodes). A daemon that finds none does not start.
    type: bool
    default: true
  max_removed:
    description:
      - Refuse to drop more members than this at once, counted against the file and against what the daemon has loaded.
      - No limit when it is not given. Not used with O(state=empty).
    type: int
  reachable:
    description:
      - How many members must answer on the network before anything is written. V(all), V(majority), a percentage such as V(75%)
        (rounded up), or a count such as V(16).
      - A TCP connect that is accepted or refused is an answer, silence is none. This host counts as one that answers.
      - When it is not given, nobody is asked.
    type: str
  probe_port:
    description:
      - The port to connect to for O(reachable). When it is not given, the C(SERVER_PORT) that C(config.cfg) will have.
    type: int
  probe_timeout:
    description:
      - Seconds to wait for an answer. All members are asked at the same time.
    type: float
    default: 5
  start_timeout:
    description:
      - Seconds that a start of the unit may take, for the check of C(IMEX_CONN_WAIT_TIMEOUT).
      - When it is not given, the C(TimeoutStartSec) of the unit.
    type: float
  stop_timeout:
    description:
      - Seconds that the daemon has to stop with O(state=empty). Past them it is killed, which is reported as a warning.
    type: float
    default: 60
  backup:
    description:
      - Keep a copy, with a timestamp in its name, beside each file that is replaced.
    type: bool
    default: false
  generation:
    description:
      - The label of the run. When it is given, the files as they are before the change are kept under it, to be put back with
        M(hpc.fabric.imex_generation). A second call with the same label keeps the first state.
    type: str
  keep_generations:
    description:
      - How many generations are kept.
    type: int
    default: 5
  mode:
    description:
      - The permissions of both files. New ones have V(0644) when it is not given.
  owner:
    description:
      - The owner of both files.
  group:
    description:
      - The group of both files.
  unsafe_writes:
    description:
      - Has no effect. A file is always replaced in one step, and where that is not possible, the module fails.
notes:
  - A symbolic link in the place of one of the files is refused. A list that hosts share is one for two domains sooner or later.
  - Comments in a node map that holds other members than O(nodes) go with it. In C(config.cfg) they stay.
seealso:
  - module: hpc.fabric.imex_status
  - module: hpc.fabric.imex_daemon
  - module: hpc.fabric.imex_generation
"""

EXAMPLES = r"""
- name: Write the node map of this rack's domain
  hpc.fabric.imex_nodes_config:
    nodes: "{{ groups['rack1'] | map('extract', hostvars, 'imex_address') }}"
    config:
      IMEX_CMD_ENABLED: true
    owner: root
    group: root
    mode: "0644"
  register: imex_files

- name: Show who must be restarted, and why
  ansible.builtin.debug:
    msg: "{{ imex_files.restart_reasons | map(attribute='message') }}"
  when: imex_files.restart_required

- name: Keep the order that the daemons have loaded, and never lose more than one member
  hpc.fabric.imex_nodes_config:
    nodes: [10.0.0.11, 10.0.0.12, 10.0.0.13, 10.0.0.14]
    order: keep
    max_removed: 1
    reachable: all
    generation: "{{ run_id }}"

- name: Set the grace time, which may differ between members
  hpc.fabric.imex_nodes_config:
    nodes: [10.0.0.11, 10.0.0.12]
    config:
      IMEX_NODE_DISCONNECTED_GRACE_TIME: 300
    backup: true

- name: Say that no daemon is wanted here
  hpc.fabric.imex_nodes_config:
    state: empty

- name: Try it on a laptop
  hpc.fabric.imex_nodes_config:
    config_path: /tmp/imex/config.cfg
    nodes_config_path: /tmp/imex/nodes_config.cfg
    nodes: [127.0.0.1]
    allow_loopback_addresses: true
    local_addresses: [127.0.0.1]
    run_dir: /tmp/imex/run
"""

RETURN = r"""
nodes:
  description: The node map as it is after the run, in the order of the ids.
  returned: success
  type: list
  elements: str
  sample: [10.0.0.11, 10.0.0.12]
node_count:
  description: How many members it has.
  returned: success
  type: int
  sample: 2
digest:
  description: The identity of the map, its order included.
  returned: success
  type: str
  sample: sha256:8e1d3a5d5a3f9e0c4d8c6c1f6b1a6f8f0b6f0f5c5a3d8a2b7c9e4f1a0d2b3c4d
added:
  description: Members that were not in the file.
  returned: success
  type: list
  elements: str
removed:
  description: Entries of the file that are no longer in the map.
  returned: success
  type: list
  elements: str
reordered:
  description: Whether the members that stay have another relative order than in the file.
  returned: success
  type: bool
config_changes:
  description: The keys of C(config.cfg) that change.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The name of the key.
      returned: success
      type: str
      sample: IMEX_CMD_ENABLED
    before:
      description: Its value in the file, null when it was not there.
      returned: success
      type: str
      sample: "0"
    after:
      description: Its new value.
      returned: success
      type: str
      sample: "1"
    class:
      description: V(domain) for keys in which all members must agree, V(local) for those that may differ.
      returned: success
      type: str
      sample: domain
config_pending:
  description:
    - The keys in which the running daemon differs from C(config.cfg) as it is after the run. In the form of RV(config_changes).
    - By what the daemon has loaded where a record says so, else by what changes in the file.
  returned: success
  type: list
  elements: dict
unit_changes:
  description: With O(state=empty), what is done to the unit. V(stop), V(disable).
  returned: success
  type: list
  elements: str
loaded:
  description: What the running daemon holds, by the best evidence there is.
  returned: success
  type: dict
  contains:
    nodes:
      description: Its node map, null when it is not known.
      returned: success
      type: list
      elements: str
    digest:
      description: The digest of that map.
      returned: success
      type: str
    source:
      description:
        - V(record) is what the collection noted after the start, valid while the start is the same one.
        - V(own_row) are the daemon's own connections.
        - V(start_time) compares the start with the files' last change.
        - V(none) means that nothing says it, or that no daemon runs.
      returned: success
      type: str
      sample: record
    in_sync:
      description: Whether it holds the map of RV(nodes), null when that is not known.
      returned: success
      type: bool
restart_required:
  description:
    - Whether the daemon must be restarted, together with all other members of the domain, or started.
    - False for a masked unit, which no restart could start.
  returned: success
  type: bool
restart_reasons:
  description: Why. V(loaded_unknown) alone is no reason to restart.
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description:
        - V(nodes_changed), V(order_changed), V(config_changed), V(loaded_differs), V(daemon_not_running), V(node_map_mismatch),
          V(version_mismatch) or V(loaded_unknown).
      returned: success
      type: str
      sample: nodes_changed
    message:
      description: The same for a person.
      returned: success
      type: str
      sample: 1 added, 0 removed in the file
reachable:
  description: Who answered on the network.
  returned: when O(reachable) is given
  type: dict
  contains:
    spec:
      description: What O(reachable) asks for.
      returned: success
      type: str
      sample: majority
    required:
      description: How many that are.
      returned: success
      type: int
      sample: 2
    answered:
      description: Members that answered, this host among them.
      returned: success
      type: list
      elements: str
    silent:
      description: Members that did not.
      returned: success
      type: list
      elements: str
    met:
      description: Whether enough answered.
      returned: success
      type: bool
backup_file:
  description: The copy of the node map, or of C(config.cfg) when that alone was replaced.
  returned: changed, O(backup=true), and there was a file
  type: str
  sample: /etc/nvidia-imex/nodes_config.cfg.4711.2026-01-31@12:00:00~
backup_files:
  description: All copies that were made.
  returned: changed, O(backup=true), and there was a file
  type: list
  elements: str
generation:
  description: The id of the generation that holds the state before the run.
  returned: when O(generation) is given, not in check mode
  type: str
  sample: 20260131T120000.123-7f3a
warnings:
  description: What is worth a look. Ansible shows them.
  returned: when there is something
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpc.fabric.plugins.module_utils import module_files
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import deployment, node_map
from ansible_collections.hpc.fabric.plugins.module_utils.imex.wanted import Found, Wanted
from ansible_collections.hpc.fabric.plugins.module_utils.module_options import common_options

# What stopping the unit needs.
STOP_OPTIONS = ("service", "systemctl_command", "stop_timeout", "state_dir", "run_dir", "unit_dir")


def options() -> dict[str, dict[str, t.Any]]:
    return {
        **common_options(),
        "state": {"type": "str", "choices": ["present", "empty"], "default": "present"},
        "nodes": {"type": "list", "elements": "str"},
        "order": {"type": "str", "choices": ["given", "address", "keep"], "default": "given"},
        "config": {"type": "dict", "default": {}},
        "create_config": {"type": "bool", "default": False},
        "allow_hostnames": {"type": "bool", "default": False},
        "allow_loopback_addresses": {"type": "bool", "default": False},
        "allow_documentation_addresses": {"type": "bool", "default": False},
        "require_local_address": {"type": "bool", "default": True},
        "max_removed": {"type": "int"},
        "reachable": {"type": "str"},
        "probe_port": {"type": "int"},
        "probe_timeout": {"type": "float", "default": 5},
        "start_timeout": {"type": "float"},
        "stop_timeout": {"type": "float", "default": 60},
        "backup": {"type": "bool", "default": False},
        "generation": {"type": "str"},
        "keep_generations": {"type": "int", "default": 5},
    }


def wanted_of(params: dict[str, t.Any], check_mode: bool) -> Wanted:
    return Wanted(
        state=params["state"],
        nodes=tuple(params["nodes"] or ()),
        order=params["order"],
        config=tuple((params["config"] or {}).items()),
        create_config=params["create_config"],
        policy=node_map.Policy(
            params["allow_hostnames"], params["allow_loopback_addresses"], params["allow_documentation_addresses"]
        ),
        require_local_address=params["require_local_address"],
        max_removed=params["max_removed"],
        local_addresses=module_files.local_addresses(params),
        start_timeout=params["start_timeout"],
        check_mode=check_mode,
    )


def run(module: AnsibleModule) -> dict[str, t.Any]:
    from ansible_collections.hpc.fabric.plugins.module_utils.imex import host_files

    params = module.params
    module_files.check_attributes(params)
    wanted = wanted_of(params, module.check_mode)
    observed = host_files.observe(
        params["service"],
        params["systemctl_command"],
        params["run_dir"],
        params["control_command"],
        params["config_path"],
        params["control_timeout"],
        wanted.local_addresses,
    )
    found = host_files.find(
        wanted, params["config_path"], params["nodes_config_path"], observed, params["proc_root"], params["sysfs_root"]
    )
    plan = deployment.assess(wanted, found)
    result = plan.as_result()
    diffs: list[dict[str, t.Any]] = []
    if module._diff:
        from ansible_collections.hpc.fabric.plugins.module_utils.imex import host_writes

        diffs += host_writes.diffs(plan, found)
    if params["reachable"] is not None:
        from ansible_collections.hpc.fabric.plugins.module_utils.imex import reach

        reached = reach.reach(plan, wanted, params["reachable"], params["probe_port"], params["probe_timeout"], found)
        result["reachable"] = reached.as_result()
        if plan.changed:
            reach.refuse_unreachable(reached)
    if not module.check_mode:
        result.update(write(module, plan, found))
    if module_files.set_attributes(module, host_files.present_paths(plan, found), diffs):
        result["changed"] = True
    if module._diff:
        result["diff"] = diffs
    return result


def write(module: AnsibleModule, plan: deployment.Deployment, found: Found) -> dict[str, t.Any]:
    """Everything that touches the host, in the order in which a failure does the least harm."""
    from ansible_collections.hpc.fabric.plugins.module_utils.imex import host_writes

    params = module.params
    result: dict[str, t.Any] = {}
    if params["generation"] is not None:
        result["generation"] = host_writes.save_generation(
            found,
            params["state_dir"],
            params["generation"],
            params["keep_generations"],
            params["unit_dir"],
            params["service"],
        )
    if plan.stop_unit:
        stopping = {name: params[name] for name in STOP_OPTIONS}
        result["warnings"] = [*plan.warnings, *host_writes.retire_unit(plan, stopping)]
    if params["backup"]:
        copies = module_files.back_up(module, host_writes.changed_paths(plan, found))
        if copies:
            result.update(backup_file=copies[-1], backup_files=copies)
    host_writes.apply(plan, found)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec=options(),
        add_file_common_args=True,
        supports_check_mode=True,
        required_if=[("state", "present", ("nodes",))],
    )
    try:
        with module_files.lock(module):
            result = run(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module_files.leave(module, result)


if __name__ == "__main__":
    main()
