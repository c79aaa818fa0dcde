# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action in real plays: what it reads of hosts outside the play, and what it refuses."""

from __future__ import annotations

import base64
import json
import pathlib
import re
import typing as t

import pytest
import yaml

from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

# Shows what each host of the play sees, in one line that can be found in the output.
SHOW: dict[str, t.Any] = {
    "ansible.builtin.debug": {
        "msg": "ANSWER {{ inventory_hostname }} {{ {'plan': __imex_plan, 'decision': __imex_decision | default({}), "
        "'report': __imex_report | default({})} | to_json | b64encode }}"
    }
}


def gate(step: str, register: str, **options: t.Any) -> dict[str, t.Any]:
    return {"hpc.fabric.imex_domain_gate": {"step": step, **options}, "run_once": True, "register": register}


TASKS: list[dict[str, t.Any]] = [
    gate("plan", "__imex_plan"),
    {
        "ansible.builtin.set_fact": {"__imex_inspect": "{{ answer }}"},
        "when": "__imex_plan.hosts[inventory_hostname].contact",
    },
    gate("decide", "__imex_decision"),
    gate("report", "__imex_report"),
    SHOW,
]


def inventory(hosts: dict[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    """Hosts a1, b3 ... as in the tables; "answer" is what imex_status would have registered on each."""
    members = {
        host: {
            "imex_domain": host[0],
            "imex_address": build.address(host),
            "answer": build.status_result(host, {}, [build.address(name) for name in hosts if name[0] == host[0]]),
            **values,
        }
        for host, values in hosts.items()
    }
    return {"all": {"hosts": members, "vars": {"ansible_connection": "local"}}}


@pytest.fixture
def play(run_ansible: t.Any, tmp_path: pathlib.Path) -> t.Any:
    """Run one play; return how it ended and what every host saw."""

    def run(
        hosts: dict[str, t.Any],
        *args: str,
        tasks: t.Sequence[dict[str, t.Any]] = tuple(TASKS),
        **keywords: t.Any,
    ) -> tuple[t.Any, dict[str, t.Any]]:
        book = [{"hosts": "all", "gather_facts": False, "tasks": list(tasks), **keywords}]
        (tmp_path / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        ended = run_ansible("playbook", str(tmp_path / "play.yml"), *args, inventory=inventory(hosts))
        answers = re.findall(r"ANSWER (\S+) ([A-Za-z0-9+/=]+)", ended.stdout)
        return ended, {host: json.loads(base64.b64decode(text)) for host, text in answers}

    return run


def test_every_host_reads_one_plan(play: t.Any) -> None:
    ended, seen = play({"a2": {}, "a1": {}, "b1": {}})
    assert ended.rc == 0, ended.text
    assert sorted(seen) == ["a1", "a2", "b1"]
    assert seen["a1"] == seen["a2"] == seen["b1"]
    plan = seen["a1"]["plan"]
    assert plan["domains"]["a"]["nodes"] == ["10.0.1.1", "10.0.1.2"]
    assert plan["changed"] is False
    assert seen["a1"]["decision"]["domains"]["a"]["decision"] == "untouched"
    assert seen["a1"]["report"]["ok"] is True
    assert "changed=1" not in ended.stdout
    assert seen["a1"]["report"]["table"].splitlines()[0] in ended.stdout
    assert "WARNING" not in ended.text


def test_a_limit_does_not_change_the_members(play: t.Any) -> None:
    ended, seen = play({"a1": {}, "a2": {}, "a3": {}}, "--limit", "a3")
    assert ended.rc == 0, ended.text
    domain = seen["a3"]["plan"]["domains"]["a"]
    assert domain["nodes"] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
    assert domain["cut"] == ["a1", "a2"]
    assert sorted(seen["a3"]["decision"]["hosts"]) == ["a3"]
    assert seen["a3"]["decision"]["domains"]["a"]["decision"] == "untouched"


def test_serial_cuts_a_domain_that_is_not_in_one_batch(play: t.Any) -> None:
    old = {"answer": build.status_result("a1", {"file": ["a1", "a2"]}, [])}
    ended, seen = play({"a1": old, "a2": {}, "a3": {}, "b1": {}}, serial=3)
    assert ended.rc == 0, ended.text
    assert seen["a1"]["plan"]["domains"]["a"]["cut"] == []
    assert seen["a1"]["plan"]["domains"]["b"]["cut"] == ["b1"]
    assert seen["b1"]["plan"]["domains"]["a"]["cut"] == ["a1", "a2", "a3"]
    assert seen["b1"]["decision"]["domains"]["b"]["decision"] == "untouched"
    assert "a" not in seen["b1"]["decision"]["domains"]
    ended, seen = play({"a1": {}, "a2": {}}, serial=1)
    assert seen["a2"]["plan"]["domains"]["a"]["cut"] == ["a1"]


def test_a_member_that_failed_earlier_in_the_play_is_lost_not_cut(play: t.Any) -> None:
    fail = {"ansible.builtin.fail": {"msg": "x"}, "when": "inventory_hostname == 'a1'"}
    ended, seen = play({"a1": {}, "a2": {}}, tasks=[fail, *TASKS])
    assert ended.rc == 2
    assert seen["a2"]["plan"]["hosts"]["a1"]["presence"] == "lost"
    assert seen["a2"]["plan"]["domains"]["a"]["cut"] == []
    assert seen["a2"]["decision"]["domains"]["a"]["reasons"][0]["code"] == "not_enough_reachable"


def test_check_mode_plans_and_decides(play: t.Any) -> None:
    bare: dict[str, t.Any] = {"run": None, "file": [], "unit": {"load_state": "not-found", "unit_file_state": ""}}
    hosts = {host: {"answer": build.status_result(host, bare, [])} for host in ("a1", "a2")}
    ended, seen = play(hosts, "--check")
    assert ended.rc == 0, ended.text
    assert seen["a2"]["decision"]["domains"]["a"]["decision"] == "coordinated"
    assert seen["a2"]["report"]["domains"]["a"]["outcome"] == "would_change"
    assert "would write, start" in seen["a2"]["report"]["table"]
    _ended, seen = play(hosts)
    assert seen["a2"]["decision"]["domains"]["a"]["decision"] == "refused"


def test_variables_of_the_play_hold_for_all_hosts(play: t.Any) -> None:
    ended, seen = play({"a1": {}, "a2": {}, "a3": {}}, "--limit", "a1", vars={"imex_quorum": "majority"})
    assert ended.rc == 0, ended.text
    assert seen["a1"]["plan"]["domains"]["a"]["quorum"] == "majority"
    assert seen["a1"]["plan"]["domains"]["a"]["refused"] == []


def test_a_template_of_the_play_is_rendered_for_each_host(play: t.Any) -> None:
    hosts: dict[str, t.Any] = {"a1": {"level": 3}, "a2": {"level": 4}}
    ended, seen = play(hosts, vars={"base": 1, "imex_config": {"LOG_LEVEL": "{{ level - base }}"}})
    assert ended.rc == 0, ended.text
    planned = {host: seen["a1"]["plan"]["hosts"][host]["planned"]["config"] for host in hosts}
    assert planned == {"a1": {"LOG_LEVEL": "2"}, "a2": {"LOG_LEVEL": "3"}}


def test_extra_variables_hold_for_all_hosts(play: t.Any) -> None:
    ended, seen = play({"a1": {}, "a2": {}}, "-e", "imex_max_removed=7", "--limit", "a1")
    assert ended.rc == 0, ended.text
    assert seen["a1"]["plan"]["domains"]["a"]["shared"]["max_removed"] == 7


@pytest.mark.parametrize("name", ["imex_domain", "imex_address", "imex_member_state", "imex_managed_by"])
def test_what_is_one_hosts_own_cannot_be_set_for_the_play(play: t.Any, name: str) -> None:
    tasks = [gate("plan", "__imex_plan"), SHOW]
    for ended, seen in (
        play({"a1": {}}, tasks=tasks, vars={name: "x"}),
        play({"a1": {}}, "-e", f"{name}=x", tasks=tasks),
    ):
        assert ended.rc == 2
        assert seen == {}
        assert f"{name} is set for the whole play" in " ".join(ended.text.split())
        assert "in the inventory" in " ".join(ended.text.split())


def test_role_defaults_are_no_override(play: t.Any) -> None:
    """Inside the role its defaults stand in task_vars; they must not outrank another host's inventory."""
    hosts: dict[str, t.Any] = {"a1": {}, "a2": {"imex_member_state": "maintenance"}, "a3": {}}
    ended, seen = play(hosts, vars={"imex_quorum": "all", "imex_max_removed": 1})
    assert ended.rc == 0, ended.text
    assert seen["a1"]["plan"]["domains"]["a"]["maintenance"] == ["a2"]


def test_a_template_with_hostvars_is_refused_by_name(play: t.Any) -> None:
    hosts: dict[str, t.Any] = {"a1": {"words": "all"}, "a2": {"imex_quorum": "{{ hostvars['a1'].words }}"}, "b1": {}}
    ended, seen = play(hosts)
    assert ended.rc == 0, ended.text
    domain = seen["b1"]["plan"]["domains"]["a"]
    assert domain["refused"][0]["code"] == "unreadable_variable"
    assert domain["refused"][0]["message"].startswith("a2: imex_quorum")
    assert seen["b1"]["plan"]["domains"]["b"]["refused"] == []


@pytest.mark.parametrize("strategy", ["free", "ansible.builtin.host_pinned"])
def test_other_strategies_are_refused(play: t.Any, strategy: str) -> None:
    ended, seen = play({"a1": {}}, tasks=[gate("plan", "__imex_plan"), SHOW], strategy=strategy)
    assert ended.rc == 2
    assert seen == {}
    assert "strategy: linear" in " ".join(ended.text.split())


def test_linear_strategies_are_accepted(play: t.Any) -> None:
    ended, _seen = play({"a1": {}}, tasks=[gate("plan", "__imex_plan")], strategy="ansible.builtin.linear")
    assert ended.rc == 0, ended.text


@pytest.mark.parametrize(
    "task, said",
    [
        ({"hpc.fabric.imex_domain_gate": {"step": "plan"}}, "run_once: true"),
        (gate("decide", "x"), "run step plan first"),
        (gate("report", "x"), "run step plan first"),
        (gate("plans", "x"), "plans"),
        (gate("plan", "x", hosts="all"), "hosts"),
    ],
)
def test_misuse_is_said(play: t.Any, task: dict[str, t.Any], said: str) -> None:
    ended, _seen = play({"a1": {}}, tasks=[task])
    assert ended.rc == 2
    assert said in " ".join(ended.text.split())


def test_a_decision_of_another_run_is_not_read(play: t.Any) -> None:
    tasks = [
        gate("plan", "__imex_plan"),
        gate("decide", "__imex_decision"),
        gate("plan", "__imex_plan"),
        gate("report", "r"),
    ]
    ended, _seen = play({"a1": {}}, tasks=tasks)
    assert ended.rc == 2
    assert "no decision for this plan" in " ".join(ended.text.split())


def test_the_second_decision_reads_what_the_hosts_were_asked(play: t.Any) -> None:
    """The first asks who works there; the answer refuses the domain. The same answer of another run would not be read."""
    old = {"file": ["a1"]}
    busy = {
        "activity": {"gpu_processes": [{"pid": 7, "name": "x"}], "importers": [], "job_records": 0},
        "changed": False,
    }
    hosts = {
        "a1": {"answer": build.status_result("a1", old, []), "activity": busy},
        "a2": {"answer": build.status_result("a2", {"run": None, "file": []}, []), "activity": busy},
    }
    confirm = {"ansible.builtin.set_fact": {"__imex_confirm": "{{ activity }}"}}
    ended, seen = play(hosts, tasks=[confirm, *TASKS])
    assert ended.rc == 0, ended.text
    assert seen["a2"]["decision"]["confirm"] is True
    assert seen["a2"]["decision"]["hosts"]["a1"]["confirm"] is True
    again = gate("decide", "__imex_decision")
    ended, seen = play(hosts, tasks=[confirm, *TASKS[:3], again, *TASKS[3:]])
    assert ended.rc == 0, ended.text
    assert seen["a2"]["decision"]["confirm"] is False
    assert seen["a2"]["decision"]["domains"]["a"]["reasons"][0]["code"] == "active"
    assert seen["a2"]["report"]["hosts"]["a1"]["failed"] is True
