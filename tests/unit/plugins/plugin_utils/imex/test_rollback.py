# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which generation a domain goes back to, and what its members do for it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import facts, records, rollback
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

CASES = build.load("rollback/rollback.json")
STEPS = ("stop", "restore", "write", "empty", "start", "enable", "disable", "mask")


def listed(host: str, kept: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """What imex_generation registers for a host."""
    return {
        "generations": [
            {
                "id": f"{host}-{item['label']}",
                "label": item["label"],
                "saved_at": item.get("at", f"2026-01-01T00:00:{59 - number:02}Z"),
                "nodes": build.addresses(item["nodes"]),
                "unit_file_state": "enabled" if item.get("enabled", True) else "disabled",
                "differs": item.get("differs", True),
            }
            for number, item in enumerate(kept)
        ]
    }


def decide(case: build.Case) -> records.Decision:
    plan = build.make_plan(case)
    found = build.make_facts(case, plan)
    kept = {host: rollback.generations(listed(host, entry.get("kept", ()))) for host, entry in case["hosts"].items()}
    quiet = {host: facts.Activity(facts.OK, "", 0, 0, 0) for host in case["hosts"]}
    return rollback.rollback(plan, found, kept, build.make_answers(case) or quiet, case.get("label", rollback.PREVIOUS))


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_rollback(case: build.Case) -> None:
    decision = decide(case)
    expect = case["expect"]
    domain = decision.domains["a"]
    text = " ".join(reason.message for reason in domain.reasons)
    assert domain.decision == expect["decision"], text
    assert [reason.code for reason in domain.reasons] == expect.get("codes", [])
    for word in expect.get("says", ()):
        assert word in text
    for word in expect.get("warns", ()):
        assert word in " ".join(domain.warnings)
    if "nodes" in expect:
        assert list(domain.nodes) == build.addresses(expect["nodes"])
    if "required" in expect:
        assert domain.required == expect["required"]
    for host, steps in expect.get("work", {}).items():
        assert [step for step in STEPS if getattr(decision.hosts[host], step)] == steps, host
    for host, generation in expect.get("generation", {}).items():
        assert decision.hosts[host].generation == generation


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_refused_or_untouched_does_nothing(case: build.Case) -> None:
    decision = decide(case)
    idle = decision.domains["a"].decision in (records.REFUSED, records.UNTOUCHED)
    assert idle == (not any(host.work for host in decision.hosts.values() if host.domain == "a"))


def test_no_answer_is_no_generation() -> None:
    assert rollback.generations({"failed": True, "msg": "no such module"}) == ()
    assert rollback.generations(None) == ()
