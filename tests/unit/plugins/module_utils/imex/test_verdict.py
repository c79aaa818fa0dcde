# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import faults, look, quorum, verdict
from ansible_collections.hpc.fabric.plugins.module_utils.imex.daemon import Loaded
from ansible_collections.hpc.fabric.plugins.module_utils.imex.domain import Connection, Domain, Node
from ansible_collections.hpc.fabric.plugins.module_utils.imex.node_map import digest
from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import Unit

ROOT = pathlib.Path(__file__).resolve().parents[5]
TABLE = json.loads((ROOT / "tests" / "fixtures" / "status" / "verdicts.json").read_text(encoding="utf-8"))
WORDS = {
    "C": "CONNECTED",
    "N": "NEVER_CONNECTED",
    "R": "RECOVERING",
    "D": "DISCONNECTED",
    "A": "AUTHENTICATING",
    "I": "INVALID",
    "M": "NODE_MAP_MISMATCH",
    "V": "VERSION_MISMATCH",
    "?": "SOMETHING_NEW",
}
# Keys of a row that are facts as they stand.
PLAIN = (
    "driver",
    "asked",
    "domain_asked",
    "expected_known",
    "control_kind",
    "command_enabled",
    "managed_by",
    "starting_limit",
)


def domain_of(rows: list[dict[str, t.Any]], state: str, local: int | None) -> Domain:
    hosts = [row["host"] for row in rows]
    return Domain(
        state,
        "8/8/2025 17:38:02.641",
        tuple(
            Node(
                number,
                row["host"],
                None,
                row["status"],
                row["version"],
                number == local,
                tuple(Connection(peer, hosts[peer], WORDS[cell], cell) for peer, cell in enumerate(row["row"])),
            )
            for number, row in enumerate(rows)
        ),
    )


def loaded_of(held: t.Any) -> Loaded | None:
    if held is None:
        return None
    if isinstance(held, dict):
        return Loaded(None, None, held["source"], held["in_sync"], None)
    return Loaded(tuple(held), digest(held), "own_row", True, None)


def facts_of(case: dict[str, t.Any]) -> look.Facts:
    expected = tuple(case.get("expected", TABLE["expected"]))
    rows = case.get("domain", TABLE["well"])
    domain = None if rows is None else domain_of(rows, case.get("domain_state", "UP"), case.get("local", 0))
    unit = case.get("unit", "running")
    facts = look.Facts(
        expected=expected,
        configured=tuple(case.get("configured", TABLE["expected"])),
        unit=None if unit is None else Unit("nvidia-imex.service", **TABLE["units"][unit]),
        domain=domain,
        state=case.get("state", "READY"),
        control_message="what the control tool said" if case.get("control_kind") else "",
        loaded=loaded_of(case.get("loaded", TABLE["expected"])),
        now=1000.0,
        found=tuple(look.Reason(code, f"the text of {code}", (), note) for code, note in case.get("found", ())),
    )
    facts = facts._replace(**{key: case[key] for key in PLAIN if key in case})
    if facts.domain_asked:
        facts = facts._replace(quorum=quorum.evaluate(domain, expected))
    return facts


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_judge(case: dict[str, t.Any]) -> None:
    judged = verdict.judge(facts_of(case))
    assert judged.word == case["verdict"]
    assert [reason.code for reason in judged.reasons if not reason.note] == case["codes"]
    assert [reason.code for reason in judged.reasons if reason.note] == case["notes"]
    assert judged.summary.startswith(f"{case['verdict']}: ")
    assert "\n" not in judged.summary
    if "contains" in case:
        assert case["contains"] in judged.summary + " ".join(reason.message for reason in judged.reasons)
    nodes = {reason.code: list(reason.nodes) for reason in judged.reasons if reason.nodes}
    for code, wanted in case.get("nodes", {}).items():
        assert nodes[code] == wanted


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_the_short_way_and_the_long_way_agree(case: dict[str, t.Any]) -> None:
    facts = facts_of(case)
    if verdict.all_well(facts):
        assert faults.find(facts) == ("healthy", [])


def test_a_host_that_is_well_takes_the_short_way() -> None:
    assert verdict.all_well(facts_of(TABLE["cases"][0]))


def test_summary_of_a_healthy_domain() -> None:
    held = digest(TABLE["expected"]).partition(":")[2][:4]
    judged = verdict.judge(facts_of({}))
    assert judged.summary == f"healthy: 3 of 3 nodes ready and connected (UP, map loaded {held}…)"
    assert judged.evidence == ("unit", "own_row", "member_rows", "loaded_by_own_row")


def test_summary_of_a_degraded_domain_names_the_node() -> None:
    case = next(case for case in TABLE["cases"] if case["name"].startswith("J3"))
    summary = verdict.judge(facts_of(case)).summary
    assert summary.startswith("degraded: 2 of 3 nodes ready and connected (DEGRADED, ")
    assert summary.endswith("): not READY: 10.0.0.3 (UNAVAILABLE) (and 1 more)")


def test_evidence_says_what_was_asked() -> None:
    alone = verdict.judge(facts_of({"domain": None, "domain_asked": False, "unit": None, "loaded": None}))
    assert alone.evidence == ("daemon_state",)
    nothing = verdict.judge(facts_of({"domain": None, "state": None, "unit": "inactive", "loaded": None}))
    assert nothing.evidence == ("unit",)


def test_every_code_is_documented() -> None:
    core = ROOT / "plugins" / "module_utils" / "imex"
    codes = {"loaded_differs", "order_differs", *verdict_codes()}
    for name in ("faults", "host", "status", "trouble", "details"):
        codes |= set(re.findall(r'Reason\(\s*"([a-z_]+)"', (core / f"{name}.py").read_text(encoding="utf-8")))
    module = (ROOT / "plugins" / "modules" / "imex_status.py").read_text(encoding="utf-8")
    documented = set(re.findall(r"V\(([a-z_]+)\)", module))
    assert sorted(codes - documented) == []


def verdict_codes() -> set[str]:
    from ansible_collections.hpc.fabric.plugins.module_utils.imex import host, log

    known = {code for _part, code in log.KNOWN}
    return {*faults.MISMATCH.values(), *faults.CONTROL_CODES.values(), *host.UNREADABLE, *known}
