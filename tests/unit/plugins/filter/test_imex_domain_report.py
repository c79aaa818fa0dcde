# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpc.fabric.plugins.filter import imex_domain_report as plugin
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

imex_domain_report = plugin.FilterModule().filters()["imex_domain_report"]
MAP = build.addresses(["a1", "a2", "a3"])


def results(**words: dict[str, t.Any]) -> dict[str, t.Any]:
    return {host: build.status_result(host, words.get(host, {}), MAP) for host in ("a1", "a2", "a3")}


def test_a_healthy_domain() -> None:
    (report,) = imex_domain_report(results(), {"a1": "rack", "a2": "rack", "a3": "rack"})
    assert report["domain"] == "rack"
    assert report["state"] == "UP"
    assert report["proved"] == MAP
    assert report["matrix"] == [["CONNECTED"] * 3] * 3
    assert report["apart"] == []
    assert [node["host"] for node in report["nodes"]] == ["a1", "a2", "a3"]
    assert report["verdicts"] == {"healthy": 3}


def test_a_link_that_one_side_sees() -> None:
    (report,) = imex_domain_report(results(a3={"links": {"a1": "RECOVERING"}}))
    assert report["state"] == "DEGRADED"
    assert report["proved"] == MAP[:2]
    assert report["apart"] == [{"a": MAP[0], "b": MAP[2], "a_says": "CONNECTED", "b_says": "RECOVERING"}]
    assert report["matrix"][2] == ["RECOVERING", "CONNECTED", "CONNECTED"]


def test_a_row_that_is_not_known_is_not_healthy() -> None:
    (report,) = imex_domain_report(results(a2={"unreachable": "no route"}), {"a1": "a", "a2": "a", "a3": "a"})
    assert report["matrix"][1] == [None, None, None]
    assert report["unreachable"] == ["a2"]
    nobody = report["nodes"][1]
    assert (nobody["id"], nobody["address"], nobody["host"], nobody["agrees"]) == (1, MAP[1], "", None)
    assert (nobody["state"], nobody["verdict"], nobody["summary"]) == ("", "", "")
    assert {"a": MAP[0], "b": MAP[1], "a_says": "CONNECTED", "b_says": None} in report["apart"]
    assert report["state"] == "DEGRADED"


def test_a_host_with_another_map_disagrees() -> None:
    (report,) = imex_domain_report(results(a3={"file": ["a3", "a1"]}), {"a1": "a", "a2": "a", "a3": "a"})
    assert report["disagreeing"] == ["a3"]
    assert report["proved"] == MAP[:2]
    assert [node["agrees"] for node in report["nodes"]] == [True, True, False]


def test_without_names_a_map_is_a_domain() -> None:
    found = imex_domain_report({**results(), "b1": build.status_result("b1", {}, build.addresses(["b1"]))})
    assert sorted(len(report["nodes"]) for report in found) == [1, 3]
    assert all(report["domain"] == report["digest"] for report in found)


@pytest.mark.parametrize("case", build.load("report/timestamps.json"), ids=build.name_of)
def test_answers_of_different_times(case: build.Case) -> None:
    found = {}
    for host, words in case["hosts"].items():
        found[host] = build.status_result(words.get("as", host), words, MAP)
        if "at" in words:
            found[host]["domain"]["timestamp"] = words["at"]
    (report,) = imex_domain_report(found, dict.fromkeys(found, "rack"), max_age=case.get("max_age"))
    rows = dict(zip(("a1", "a2", "a3"), report["matrix"]))
    assert {host: rows[host] for host in case["rows"]} == case["rows"]
    assert report["state"] == case["state"]
    assert report["proved"] == build.addresses(case["proved"])
    assert [node["host"] for node in report["nodes"] if node["stale"]] == case["stale"]
    assert {node["host"]: node["timestamp"] for node in report["nodes"] if node["host"]} == {
        host: words["at"] for host, words in case["hosts"].items() if "at" in words and "as" not in words
    }


@pytest.mark.parametrize("max_age", [-1, "600", True])
def test_a_limit_that_is_none(max_age: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="max_age"):
        imex_domain_report(results(), max_age=max_age)


def test_a_failed_result_with_facts_is_read() -> None:
    """imex_status fails when what was required is not met; its rows are evidence all the same."""
    failed = {**results()["a1"], "failed": True, "msg": "Not reached"}
    (report,) = imex_domain_report({**results(), "a1": failed})
    assert report["state"] == "UP"


def test_nobody_answers() -> None:
    (report,) = imex_domain_report({"a1": {"unreachable": True, "msg": "x"}}, {"a1": "a"})
    assert report["state"] == ""
    assert report["nodes"] == []
    assert report["unreachable"] == ["a1"]


def test_only_plain_values_are_returned() -> None:
    kinds = {dict, list, str, int, bool, type(None)}

    def walk(value: t.Any) -> None:
        assert type(value) in kinds
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    walk(imex_domain_report(results(a3={"file": ["a3"]})))


@pytest.mark.parametrize("value, domains", [([], None), ("x", None), ({}, ["a"])])
def test_misuse_is_said(value: t.Any, domains: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="imex_domain_report"):
        imex_domain_report(value, domains)
