#!/usr/bin/python
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action of the same name (plugins/action/imex_domain_gate.py); nothing of this runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_domain_gate
short_description: Plan, decide, judge and report for whole IMEX domains
version_added: 0.1.0
description:
  - What role P(hpc.fabric.imex#role) decides over many hosts. Each step reads the variables and the registered results of all hosts
    on the controller, and returns one decision that every host of the play reads.
  - It contacts no host and changes nothing.
  - Membership comes from the inventory, all of it, whatever C(--limit) or C(serial) select. Nobody is a member because it answered, and
    nobody stops being one because it did not.
author:
  - hpc.fabric contributors (@hpc-fabric)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: This action does not modify state. In check mode a unit that is not installed yet does not make a domain refused.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
    support: N/A
    details: This action does not modify state.
  idempotent:
    description: When run twice in a row with the same arguments, the second run makes no change.
    support: full
  action:
    description: Runs on the controller as an action plugin.
    support: full
  bypass_host_loop:
    description: Forces a single run for all hosts.
    support: none
    details: Set C(run_once=true) on the task, which also gives the registered result to every host. Without it the step is refused.
  connection:
    description: Uses the target's configured connection information to execute code on it.
    support: none
options:
  step:
    description:
      - V(plan) reads the settings of every host of the inventory and makes the node map of every domain. Register it as
        C(__imex_plan); all other steps need it.
      - V(decide) reads C(__imex_plan) and what M(hpc.fabric.imex_status) answered on each host (C(__imex_inspect), gathered with
        C(daemon), C(domain), C(detail=own) and C(planned)). Register it as C(__imex_decision). Where RV(confirm) is true, ask the hosts
        concerned (C(gather=activity) and C(probe), registered as C(__imex_confirm)) and run this step again.
      - V(judge) reads what the tasks of the change have registered (C(__imex_stop), C(__imex_write), C(__imex_start), C(__imex_proof), with
        the packages C(__imex_package_apt), C(__imex_package_hold), C(__imex_package_rpm), C(__imex_package_lock)). Register it as
        C(__imex_verdict).
      - V(report) puts all of it into a table and data.
      - V(rollback) decides in place of V(decide) which kept generation every domain goes back to. It reads C(__imex_inspect) (gathered with
        C(activity) too) and what M(hpc.fabric.imex_generation) listed (C(__imex_generations)).
      - V(status) puts C(__imex_inspect) into a table and data, without any change.
    type: str
    required: true
    choices: [plan, decide, judge, report, rollback, status]
  put_back:
    description:
      - With O(step=judge), judge the put-back (C(__imex_back_stop), C(__imex_back_files), C(__imex_back_start), C(__imex_back_proof)). Register
        it as C(__imex_back_verdict).
    type: bool
    default: false
  round:
    description:
      - With O(step=judge), the number of the round that has ended. Failures of earlier rounds stand.
    type: int
    default: 0
  generation:
    description:
      - With O(step=rollback), the label or id of the generation, or V(previous) for the newest that all members have in common.
    type: str
    default: previous
notes:
  - The play must use the linear strategy, since members are stopped, written and started together. Another one is refused.
  - The variables are those of role P(hpc.fabric.imex#role), and its defaults are read from the role itself. O(ignore:imex_domain),
    O(ignore:imex_address), O(ignore:imex_member_state) and O(ignore:imex_managed_by) belong into the inventory; set for a whole play, or
    as extra variables, they are an error.
  - A variable that is read of other hosts must be a plain value or a template without C(hostvars).
  - Choosing an address by C(imex_network) needs the Python library netaddr on the controller.
seealso:
  - module: hpc.fabric.imex_status
  - module: hpc.fabric.imex_nodes_config
  - module: hpc.fabric.imex_daemon
"""

EXAMPLES = r"""
---
- name: Plan every domain from the inventory
  hpc.fabric.imex_domain_gate:
    step: plan
  run_once: true
  register: __imex_plan

- name: Inspect the host against the plan
  hpc.fabric.imex_status:
    gather: [daemon, domain]
    detail: own
    planned: "{{ __imex_plan.hosts[inventory_hostname].planned }}"
  when: __imex_plan.hosts[inventory_hostname].contact
  register: __imex_inspect
  ignore_errors: true
  ignore_unreachable: true

- name: Decide for every domain
  hpc.fabric.imex_domain_gate:
    step: decide
  run_once: true
  register: __imex_decision

- name: Show what would be done
  ansible.builtin.debug:
    msg: "{{ __imex_decision.domains[imex_domain].decision }}"
"""

RETURN = r"""
run_id:
  description: The name of this run. Generations kept by it carry it as their label, and results of other runs are not read.
  returned: with O(step=plan), O(step=decide), O(step=rollback), O(step=judge)
  type: str
  sample: 20260102T030405-a1b2c3
warnings:
  description: What is worth knowing of the plan, for example members in maintenance.
  returned: with O(step=plan)
  type: list
  elements: str
domains:
  description:
    - By name. What each step says of a domain.
    - "O(step=plan): C(members) (active, in map order), C(nodes) (the map), C(maintenance), C(absent), C(cut) (outside the play), C(refused)
      (reasons), C(order), C(quorum), C(required), C(required_nodes), C(shared) (the domain's settings)."
    - "O(step=decide) and O(step=rollback): C(decision), C(reasons), C(warnings), C(nodes) in final order, C(digest), C(unit) (domains decided
      together), C(leaving) (leaving hosts decided with it), C(rounds), C(at_quorum_before), C(first), C(before) (the map it had),
      C(expected), C(required), C(required_nodes), C(rollback)."
    - "O(step=judge): C(met), C(required), C(kept), C(dropped) (C(host), C(address), C(reason)), C(unproven) (C(host), C(digest)), C(put_back),
      C(go_on), C(message)."
    - "O(step=report): C(decision), C(outcome) (V(unchanged), V(changed), V(would_change), V(put_back), V(refused), V(failed), V(kept)), C(ok),
      C(nodes), C(digest), C(proved), C(expected), C(required), C(members) (C(host), C(address), C(state), C(connected), C(before), C(after),
      C(note)), C(reasons), C(warnings), C(message)."
    - "O(step=status): as filter P(hpc.fabric.imex_domain_report#filter) returns it."
  returned: always
  type: dict
  sample:
    rack1:
      decision: coordinated
      reasons:
        - {code: loaded_differs, message: "domain rack1: n1, n2 run with another map than planned", hosts: [n1, n2]}
hosts:
  description:
    - By inventory name.
    - "O(step=plan): C(presence), C(kind) (V(member), V(maintenance), V(absent), V(idle), V(kubernetes), V(unmanaged)), C(domain), C(address),
      C(contact), C(quorum), C(planned) (the option of M(hpc.fabric.imex_status)), C(problems), C(allow_active_jobs)."
    - "O(step=decide) and O(step=rollback): C(decision), C(reason), C(work), C(involved), C(prove), C(confirm), C(probe), C(stop), C(package),
      C(write), C(empty), C(restore), C(generation), C(start), C(note), C(enable), C(disable), C(mask), C(unmask), C(dropin), C(unit) (the unit
      is to be touched), C(round), C(nodes), C(config), C(owner), C(group), C(wait) (C(expected_started), C(nodes), C(quorum))."
    - "O(step=judge): C(failed), C(reason), C(changed), C(log), C(go_on), C(put_back), C(remove), C(restart), C(start), C(enabled), C(package),
      C(nodes), C(wait)."
    - "O(step=report): C(failed), C(message). O(step=status): C(verdict), C(summary)."
  returned: always
  type: dict
  sample:
    n1: {decision: coordinated, work: true, stop: true, write: true, start: true}
work:
  description: Whether anything is to be done on any host.
  returned: with O(step=decide) and O(step=rollback)
  type: bool
confirm:
  description: Whether hosts must be asked (who works there, who answers on the network) before the decision is final.
  returned: with O(step=decide) and O(step=rollback)
  type: bool
rounds:
  description: How many rounds the change takes. Only changes of local keys take more than one.
  returned: with O(step=decide) and O(step=rollback)
  type: int
put_back:
  description: Whether any host is to get back what it had.
  returned: with O(step=judge)
  type: bool
round:
  description: The round judged last.
  returned: with O(step=judge)
  type: int
table:
  description: The report for a person, at most 120 columns wide.
  returned: with O(step=report) and O(step=status)
  type: str
ok:
  description: Whether no host is to fail.
  returned: with O(step=report)
  type: bool
run_changed:
  description: Whether anything was changed on any host, or would be in check mode.
  returned: with O(step=report)
  type: bool
"""
