# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import judge, records, report
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

CASES = build.load("judge/judge.json")


def run(case: build.Case) -> report.Seen:
    """All phases of a case, as the role goes through them."""
    made, found, decision = build.make_decision(case)
    seen = report.Seen(made, decision, found, check_mode=case.get("check_mode", False))
    if seen.check_mode:
        return seen
    outcomes = build.make_outcomes(case, decision)
    verdict = judge.judge(made, decision, found, outcomes)
    seen = seen._replace(outcomes=outcomes, verdict=verdict)
    if verdict.put_back:
        back = build.make_back(case, verdict, found)
        seen = seen._replace(
            back=back, back_verdict=judge.judge_put_back(made, decision, verdict, found, outcomes, back)
        )
    return seen


def check(expected: dict[str, t.Any], verdict: records.Verdict, case: build.Case) -> None:
    found = records.plain(verdict._asdict())
    for domain in expected.get("domains", {}).values():
        if "kept" in domain:
            domain["kept"] = build.addresses(domain["kept"])
    if case.get("digest_only"):
        for domain in found["domains"].values():
            domain["unproven"] = [{**lost, "digest": lost["digest"][:9]} for lost in domain["unproven"]]
    assert build.subset(expected, found) == []


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_judge_and_report(case: build.Case) -> None:
    seen = run(case)
    if seen.verdict is not None:
        check(case["verdict"], seen.verdict, case)
        assert records.rebuild_verdict(records.plain(seen.verdict._asdict())) == seen.verdict
    if "back_verdict" in case:
        assert seen.back_verdict is not None
        check(case["back_verdict"], seen.back_verdict, case)
    made = report.report(seen)
    if "outcome" in case:
        assert made.domains["a"].outcome == case["outcome"], made.table
    if "fails" in case:
        assert [host for host, found in made.hosts.items() if found.failed] == case["fails"]
    flat = " ".join(made.table.split()) + " " + " ".join(host.message for host in made.hosts.values())
    assert [said for said in case.get("says", ()) if said not in flat] == [], made.table
    assert all(len(line) <= report.WIDTH for line in made.table.splitlines())


def test_the_table() -> None:
    case = next(case for case in CASES if case["name"] == "a domain that was at quorum gets its files back")
    assert report.report(run(case)).table.splitlines() == [
        "domain a: coordinated, FAILED, previous files put back, UP 2/2, map d6582dbf",
        "  why: domain a: another map than planned runs on a1, a2",
        "  why: 2 of 3 members are READY and pairwise connected, 3 are required; the previous files are put back, the domain was",
        "    at quorum with them; the previous state is back; 2 of 2 members of the previous map are pairwise connected",
        "  a1  10.0.1.1  READY    2/2  d6582dbf  previous files put back",
        "  a2  10.0.1.2  READY    2/2  d6582dbf  previous files put back",
        "  a3  10.0.1.3  stopped       -         a3 in short; log: t ERROR boom; new files removed again",
    ]


def test_local_rounds_stop_at_the_first_that_fails() -> None:
    case: build.Case = {
        "status": {"pending": [["LOG_LEVEL", "local"]]},
        "answers": {},
        "hosts": {"a1": {"after": {"run": None, "start": "failed: bad log file"}}, "a2": {}, "a3": {}},
    }
    made, found, decision = build.make_decision(case)
    assert decision.domains["a"].rounds == 3
    outcomes = build.make_outcomes(case, decision)
    for later in ("a2", "a3"):
        outcomes[later] = judge.Outcome(proof=outcomes[later].proof._replace(state="missing"))
    verdict = judge.judge(made, decision, found, outcomes, None, 0)
    assert not verdict.domains["a"].met
    assert not verdict.domains["a"].go_on
    assert [host for host, back in verdict.hosts.items() if back.put_back] == ["a1"]
    # The next round finds that task skipped on a1; its failure stands all the same.
    skipped = {host: judge.Outcome(proof=outcome.proof) for host, outcome in outcomes.items()}
    again = judge.judge(made, decision, found, skipped, verdict, 1)
    assert not again.domains["a"].met
    assert again.hosts["a1"].failed
    assert again.hosts["a1"].reason == "starting the daemon failed: bad log file"


def test_local_rounds_go_on_while_they_succeed() -> None:
    case: build.Case = {"status": {"pending": [["LOG_LEVEL", "local"]]}, "answers": {}, "hosts": {"a1": {}, "a2": {}}}
    made, found, decision = build.make_decision(case)
    outcomes = build.make_outcomes(case, decision)
    first = judge.judge(made, decision, found, {"a1": outcomes["a1"]}, None, 0)
    assert first.domains["a"].go_on
    assert first.domains["a"].kept == ("10.0.1.1", "10.0.1.2")
    last = judge.judge(made, decision, found, {"a2": outcomes["a2"]}, first, 1)
    assert last.domains["a"].met
    assert last.hosts["a1"].changed
    assert last.hosts["a2"].changed


def test_a_package_is_put_back_to_the_version_before() -> None:
    case: build.Case = {
        "vars": {"imex_package": {"name": "nvidia-imex", "version": "570.1-1"}},
        "status": {"changes": [["package", "560.1-1", "570.1-1"]]},
        "hosts": {"a1": {}, "a2": {"after": {"run": None}}},
        "answers": {},
    }
    verdict = run(case).verdict
    assert verdict is not None
    assert verdict.hosts["a1"].put_back
    assert verdict.hosts["a1"].package == "560.1-1"


def test_a_put_back_that_was_not_carried_out_is_a_failure() -> None:
    case = next(case for case in CASES if case["name"] == "a domain that was at quorum gets its files back")
    seen = run(case)._replace(back_verdict=None)
    made = report.report(seen)
    assert made.domains["a"].outcome == "failed"
    assert "put-back was not carried out" in made.domains["a"].message


def test_a_change_that_nobody_judged_is_a_failure() -> None:
    case = next(case for case in CASES if case["name"] == "met")
    made, found, decision = build.make_decision(case)
    seen = report.Seen(made, decision, found)
    assert report.report(seen).domains["a"].outcome == "failed"
    assert not report.report(seen).ok


def test_in_check_mode_every_round_goes_on() -> None:
    case: build.Case = {"status": {"pending": [["LOG_LEVEL", "local"]]}, "answers": {}, "hosts": {"a1": {}, "a2": {}}}
    made, found, decision = build.make_decision(case)
    verdict = judge.judge(made, decision, found, {}, None, 0, check_mode=True)
    assert verdict.domains["a"].go_on
    assert not verdict.put_back
    seen = report.Seen(made, decision, found, verdict=verdict, check_mode=True)
    assert report.report(seen).domains["a"].outcome == "would_change"
