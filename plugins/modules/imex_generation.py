#!/usr/bin/python
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_generation
short_description: List and restore what the IMEX files of a host were before
version_added: 0.1.0
description:
  - M(hpc.fabric.imex_nodes_config) keeps the node map, C(config.cfg) and the drop-in of the unit as they are before it changes them, as
    one generation, when it is given a label. This module lists generations and puts one back.
  - A generation is put back byte for byte, with owner and mode. A file that did not exist then is removed.
  - The daemon is neither stopped nor started, and the unit neither enabled nor disabled. As with every change of the node map all
    members of the domain must be stopped first and started after. M(hpc.fabric.imex_daemon) does that on one host.
author:
  - hpc.fabric contributors (@hpc-fabric)
extends_documentation_fragment:
  - hpc.fabric._imex
  - hpc.fabric._attributes
  - hpc.fabric._attributes.actiongroup_imex
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - A second run with O(generation=previous) goes one step further back where there is one.
options:
  state:
    description:
      - V(listed) reads only.
      - V(restored) puts O(generation) back.
    type: str
    choices: [listed, restored]
    default: listed
  generation:
    description:
      - The id or the label of a generation. V(previous) is the newest one that differs from the present files.
      - Required with O(state=restored).
    type: str
  label:
    description:
      - Keep the present files under this label before another generation takes their place.
    type: str
  keep_generations:
    description:
      - How many generations are kept when O(label) adds one.
    type: int
    default: 5
notes:
  - The files are put back where they were, whatever O(config_path) and O(nodes_config_path) say.
seealso:
  - module: hpc.fabric.imex_nodes_config
  - module: hpc.fabric.imex_daemon
"""

EXAMPLES = r"""
- name: See what can be put back
  hpc.fabric.imex_generation:
  register: kept

- name: Put back what was there before the last change
  hpc.fabric.imex_generation:
    state: restored
    generation: previous

- name: Put back what was there before a certain run, and keep what is there now
  hpc.fabric.imex_generation:
    state: restored
    generation: "{{ run_id }}"
    label: "before the rollback of {{ run_id }}"
"""

RETURN = r"""
generations:
  description: What is kept after the run, the newest first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The name of the generation. Names sort by time.
      returned: success
      type: str
      sample: 20260131T120000.123-7f3a
    label:
      description: The label of the run that kept it.
      returned: success
      type: str
    saved_at:
      description: When, in UTC.
      returned: success
      type: str
      sample: "2026-01-31T12:00:00Z"
    nodes:
      description: The node map it holds.
      returned: success
      type: list
      elements: str
    digest:
      description: The identity of that map, its order included.
      returned: success
      type: str
    config_digest:
      description: The identity of the keys and values of C(config.cfg).
      returned: success
      type: str
    absent:
      description: Paths of files that did not exist.
      returned: success
      type: list
      elements: str
    unit_file_state:
      description: The enablement of the unit at that time, empty when it was not known.
      returned: success
      type: str
      sample: enabled
    differs:
      description: Whether restoring it would change any file now.
      returned: success
      type: bool
restored:
  description: The generation that is in place now, or would be. In the form of an element of RV(generations).
  returned: O(state=restored)
  type: dict
changed_paths:
  description: The files that were, or would be, written or removed.
  returned: O(state=restored)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpc.fabric.plugins.module_utils import module_files
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError, UnitError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import generations
from ansible_collections.hpc.fabric.plugins.module_utils.module_options import common_options


def unit_file_state(params: dict[str, t.Any]) -> str:
    from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import read_unit

    try:
        return read_unit(params["service"], params["systemctl_command"]).unit_file_state
    except UnitError:
        return ""


def reload_units(params: dict[str, t.Any]) -> list[str]:
    """Let systemd read the drop-in; what it says when it cannot is a warning, since the files are in place."""
    from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import run_systemctl

    try:
        run_systemctl(params["systemctl_command"], ["daemon-reload"], 60)
    except UnitError as exc:
        return [f"The drop-in is put back, but systemd has not read it yet: {exc}"]
    return []


def restore(module: AnsibleModule) -> dict[str, t.Any]:
    params = module.params
    wanted = generations.find(params["state_dir"], params["generation"])
    planned = generations.changes(wanted)
    result: dict[str, t.Any] = {
        "changed": bool(planned),
        "restored": wanted.as_result(),
        "changed_paths": [change.stored.path for change in planned],
    }
    if module._diff:
        result["diff"] = [change.diff() for change in planned]
    if not module.check_mode:
        # Kept also where nothing differs: who takes a rollback back finds its label on every host.
        if params["label"] is not None:
            state, keep = unit_file_state(params), params["keep_generations"]
            generations.save(params["state_dir"], params["label"], wanted.paths, state, keep, {wanted.id})
        generations.write(planned)
        if any(change.stored.role == "dropin" for change in planned):
            result["warnings"] = reload_units(params)
    return result


def described(kept: t.Sequence[generations.Generation]) -> list[dict[str, t.Any]]:
    return [{**item.as_result(), "differs": bool(generations.changes(item))} for item in kept]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **common_options(),
            "state": {"type": "str", "choices": ["listed", "restored"], "default": "listed"},
            "generation": {"type": "str"},
            "label": {"type": "str"},
            "keep_generations": {"type": "int", "default": 5},
        },
        supports_check_mode=True,
        required_if=[("state", "restored", ("generation",))],
    )
    result: dict[str, t.Any] = {"changed": False}
    try:
        if module.params["state"] == "restored":
            with module_files.lock(module):
                result = restore(module)
        kept = generations.listing(module.params["state_dir"])
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module_files.leave(module, dict(result, generations=described(kept)))


if __name__ == "__main__":
    main()
