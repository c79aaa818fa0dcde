# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what a step of the rollout needs from the variables of all hosts, lets plugin_utils/imex decide, returns data."""

from __future__ import annotations

import os
import secrets
import time
import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError
from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import (
    decide,
    facts as fact_reader,
    judge,
    plan as planner,
    records,
    report,
    rollback,
    settings,
)

STEPS = ("plan", "decide", "judge", "report", "rollback", "status")
DEFAULTS_PATH = os.path.join(os.path.dirname(__file__), "..", "..", "roles", "imex", "defaults", "main.yml")
# Hosts act together under these only; "debug" is linear with a debugger.
STRATEGIES = ("linear", "debug")
UNSET = object()


class Variables:
    """Values of variables for any host of the inventory, also of those outside the play.

    A variable's value comes from the inventory (hostvars: also facts, set_fact, extra vars), else from the role's defaults.
    What play, block or role parameters set is seen only in task_vars, and stands for all hosts.
    """

    def __init__(self, task_vars: dict[str, t.Any], templar: t.Any, defaults: dict[str, t.Any]) -> None:
        self.hostvars = task_vars["hostvars"]
        self.task_vars = task_vars
        self.templar = templar
        self.defaults = defaults
        current = self.hostvars[task_vars["inventory_hostname"]]
        self.current = dict.fromkeys(current, current)
        self.known: dict[str, t.Any] = {}
        self.overrides = {
            name: task_vars[name] for name in settings.NAMES if name in task_vars and self._differs(name, current)
        }

    def _differs(self, name: str, current: t.Mapping[str, t.Any]) -> bool:
        value = self.templar.template(self.task_vars[name])
        try:
            known = current.get(name, self.defaults.get(name, UNSET))
        except Exception:  # what its template raises is reported where the host is read
            return False
        return known is UNSET or value != known

    def getter(self, host: str) -> settings.Get:
        """A function that gives a variable's value for this host, None where it is not set."""
        own = self.hostvars[host]

        def get(name: str) -> t.Any:
            if name in self.overrides:
                return self._override(name, host)
            value = own.get(name)
            return self.defaults.get(name) if value is None else value

        return get

    def _override(self, name: str, host: str) -> t.Any:
        value = self.overrides[name]
        if "{{" not in str(value):
            return value
        # For each host by its own variables; the play's are those that the present host does not have by itself.
        variables = {key: item for key, item in self.task_vars.items() if key not in self.current}
        variables.update(self.hostvars.raw_get(host))
        return self.templar.copy_with_new_env(available_variables=variables).template(value)

    def result(self, host: str, name: str) -> t.Any:
        """What a host has registered. Results hold no templates; to look for some in them costs more than all the rest."""
        if host not in self.known:
            self.known[host] = self.hostvars.raw_get(host)
        return self.known[host].get(name)


class ActionModule(ActionBase):
    """The action of hpc.fabric.imex_domain_gate; its documentation is the module of that name."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset(("step", "put_back", "round", "generation"))

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "step": {"type": "str", "required": True, "choices": list(STEPS)},
                "put_back": {"type": "bool", "default": False},
                "round": {"type": "int", "default": 0},
                "generation": {"type": "str", "default": rollback.PREVIOUS},
            }
        )
        self._check_play()
        try:
            answer = getattr(self, f"_step_{args['step']}")(task_vars or {}, args)
        except FabricError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        result.update(records.plain(answer))
        result.setdefault("changed", False)
        return result

    def _check_play(self) -> None:
        play = self._task.get_play()
        strategy = str(play.strategy).rpartition(".")[2]
        if strategy not in STRATEGIES:
            raise AnsibleActionFail(
                f"The play's strategy is {play.strategy}, but members of a domain must be stopped, written and started "
                "together: set 'strategy: linear'."
            )
        if not self._task.run_once:
            raise AnsibleActionFail(
                "hpc.fabric.imex_domain_gate decides for all hosts: set 'run_once: true' on the task."
            )

    def _step_plan(self, task_vars: dict[str, t.Any], _args: dict[str, t.Any]) -> dict[str, t.Any]:
        variables = Variables(task_vars, self._templar, self._defaults())
        self._refuse_common(variables)
        presence = _presence(task_vars)
        hosts = dict.fromkeys([*task_vars["groups"]["all"], *task_vars["ansible_play_hosts_all"]])
        found = [
            settings.read(str(host), presence.get(host, records.OUTSIDE), variables.getter(host)) for host in hosts
        ]
        run_id = f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"
        return {**planner.plan([host for host in found if host is not None], run_id)._asdict()}

    def _refuse_common(self, variables: Variables) -> None:
        extra = load_extra_vars(self._loader)
        for name in settings.PER_HOST:
            if name in variables.overrides or name in extra:
                raise AnsibleActionFail(
                    f"{name} is set for the whole play, but it is one host's own: set it in the inventory, for the host or "
                    "its group."
                )

    def _defaults(self) -> dict[str, t.Any]:
        try:
            with open(DEFAULTS_PATH, encoding="utf-8") as source:
                return dict(yaml.safe_load(source) or {})
        except (OSError, yaml.YAMLError) as exc:
            raise AnsibleActionFail(f"The defaults of role hpc.fabric.imex cannot be read: {exc}") from exc

    def _step_decide(self, task_vars: dict[str, t.Any], _args: dict[str, t.Any]) -> dict[str, t.Any]:
        variables = Variables(task_vars, self._templar, self._defaults())
        plan = self._plan(task_vars)
        facts = _facts(variables, plan, "__imex_inspect", task_vars)
        earlier = task_vars.get("__imex_decision")
        # The second decision of one run: the first one asked for what __imex_confirm holds now.
        answers = None
        if isinstance(earlier, t.Mapping) and earlier.get("run_id") == plan.run_id and earlier["confirm"]:
            answers = _answers(variables, earlier, "__imex_confirm", bool(self._task.check_mode))
        timeout = float(variables.getter(task_vars["inventory_hostname"])("imex_probe_timeout") or 2)
        return {**decide.decide(plan, facts, answers, bool(self._task.check_mode), timeout)._asdict()}

    def _step_rollback(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> dict[str, t.Any]:
        variables = Variables(task_vars, self._templar, self._defaults())
        plan = self._plan(task_vars)
        facts = _facts(variables, plan, "__imex_inspect", task_vars)
        known = [host for host, found in facts.items() if found.known]
        kept = {host: rollback.generations(variables.result(host, "__imex_generations")) for host in known}
        answers = {host: fact_reader.activity(variables.result(host, "__imex_inspect")) for host in known}
        return {**rollback.rollback(plan, facts, kept, answers, args["generation"])._asdict()}

    def _step_judge(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> dict[str, t.Any]:
        seen = self._seen(task_vars)
        if not args["put_back"]:
            previous = seen.verdict if args["round"] else None
            verdict = judge.judge(
                seen.plan, seen.decision, seen.inspected, seen.outcomes, previous, args["round"], seen.check_mode
            )
            return {**verdict._asdict()}
        if seen.verdict is None:
            raise AnsibleActionFail("put_back is true, but there is no verdict of this run: run step judge first.")
        return {
            **judge.judge_put_back(
                seen.plan, seen.decision, seen.verdict, seen.inspected, seen.outcomes, seen.back
            )._asdict()
        }

    def _step_report(self, task_vars: dict[str, t.Any], _args: dict[str, t.Any]) -> dict[str, t.Any]:
        made = report.report(self._seen(task_vars))
        _show(made.table)
        return {
            "table": made.table,
            "domains": made.domains,
            "hosts": made.hosts,
            "ok": made.ok,
            "run_changed": made.changed,
        }

    def _step_status(self, task_vars: dict[str, t.Any], _args: dict[str, t.Any]) -> dict[str, t.Any]:
        variables = Variables(task_vars, self._templar, {})
        plan = self._plan(task_vars)
        facts = _facts(variables, plan, "__imex_inspect", task_vars)
        shown = report.status(plan, facts)
        _show(shown["table"])
        return shown

    def _plan(self, task_vars: dict[str, t.Any]) -> records.Plan:
        data = task_vars.get("__imex_plan")
        if not isinstance(data, t.Mapping) or "run_id" not in data:
            raise AnsibleActionFail("There is no plan: run step plan first, with 'register: __imex_plan'.")
        return records.rebuild_plan(data)

    def _seen(self, task_vars: dict[str, t.Any]) -> report.Seen:
        """All results of this run. What another run in the same playbook has registered is left out."""
        variables = Variables(task_vars, self._templar, {})
        plan = self._plan(task_vars)
        data = task_vars.get("__imex_decision")
        if not isinstance(data, t.Mapping) or data.get("run_id") != plan.run_id:
            raise AnsibleActionFail(
                "There is no decision for this plan: run step decide first, with 'register: __imex_decision'."
            )
        decision = records.rebuild_decision(data)
        verdict = _of_run(task_vars.get("__imex_verdict"), plan.run_id)
        back_verdict = _of_run(task_vars.get("__imex_back_verdict"), plan.run_id)
        return report.Seen(
            plan=plan,
            decision=decision,
            inspected=_facts(variables, plan, "__imex_inspect", task_vars),
            outcomes={host: _outcome(variables, host, work) for host, work in decision.hosts.items()},
            back={host: _back_outcome(variables, host) for host in decision.hosts}
            if verdict and verdict.put_back
            else {},
            verdict=verdict,
            back_verdict=back_verdict,
            check_mode=bool(self._task.check_mode),
        )


def _show(table: str) -> None:
    """Show a table as it is; as a result it would be one long line. The results hold it as well."""
    Display().display(f"\n{table}\n")


def _presence(task_vars: dict[str, t.Any]) -> dict[str, str]:
    """How each host of the play stands: in this batch, dropped out, or in another batch of serial (not in here)."""
    alive, batch = set(task_vars["ansible_play_hosts"]), set(task_vars["ansible_play_batch"])
    return {
        host: records.HERE if host in batch else records.LOST
        for host in task_vars["ansible_play_hosts_all"]
        if host in batch or host not in alive
    }


def _facts(
    variables: Variables, plan: records.Plan, name: str, task_vars: dict[str, t.Any]
) -> dict[str, fact_reader.Facts]:
    """The inspection of every host of the play that was to be contacted."""
    batch = set(task_vars["ansible_play_batch"])
    return {
        host: fact_reader.facts(host, variables.result(host, name) if host in batch else None, host in batch)
        for host, planned in plan.hosts.items()
        if planned.presence != records.OUTSIDE and (planned.contact or planned.presence == records.LOST)
    }


def _answers(
    variables: Variables, decision: t.Mapping[str, t.Any], name: str, check_mode: bool
) -> dict[str, fact_reader.Activity]:
    found = {}
    for host, work in decision["hosts"].items():
        if work["confirm"]:
            tried = [fact_reader.step(variables.result(host, f"__imex_installable_{kind}")) for kind in ("apt", "rpm")]
            faults = [step.message or "no reason was given" for step in tried if step.state == fact_reader.FAILED]
            # In check mode the package index of the host is as old as it is, so what it lacks says nothing.
            faults = [] if check_mode else faults
            answer = fact_reader.activity(variables.result(host, name))
            found[str(host)] = answer._replace(package="; ".join(faults)) if work["package"] else answer
    return found


def _outcome(variables: Variables, host: str, work: records.HostDecision) -> judge.Outcome:
    if not work.involved:
        return judge.Outcome(proof=fact_reader.Facts(host))
    step = {name: fact_reader.step(variables.result(host, f"__imex_{name}")) for name in ("stop", "write", "start")}
    packages = [
        fact_reader.step(variables.result(host, f"__imex_package_{name}")) for name in ("apt", "hold", "rpm", "lock")
    ]
    package = next(
        (item for item in packages if item.state in (fact_reader.FAILED, fact_reader.UNREACHABLE)),
        next((item for item in packages if item.changed), fact_reader.Step()),
    )
    return judge.Outcome(
        stop=step["stop"] if work.stop else fact_reader.Step(),
        package=package if work.package else fact_reader.Step(),
        write=step["write"] if work.write or work.empty or work.restore else fact_reader.Step(),
        start=step["start"] if work.unit else fact_reader.Step(),
        proof=_proof(variables, host, "__imex_proof") if work.prove else fact_reader.Facts(host),
    )


def _back_outcome(variables: Variables, host: str) -> judge.Outcome:
    return judge.Outcome(
        stop=fact_reader.step(variables.result(host, "__imex_back_stop")),
        write=fact_reader.step(variables.result(host, "__imex_back_files")),
        start=fact_reader.step(variables.result(host, "__imex_back_start")),
        proof=_proof(variables, host, "__imex_back_proof"),
    )


def _proof(variables: Variables, host: str, name: str) -> fact_reader.Facts:
    return fact_reader.facts(host, variables.result(host, name))


def _of_run(data: t.Any, run_id: str) -> records.Verdict | None:
    if not isinstance(data, t.Mapping) or data.get("run_id") != run_id:
        return None
    return records.rebuild_verdict(data)
