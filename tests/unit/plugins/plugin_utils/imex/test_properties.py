# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must hold for every decision, over generated inventories and hosts in any state."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex.quorum import Row
from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import decide, facts, guard, judge, records, report
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

NAMES = ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "c1")
COMMON = {"max_examples": 60, "deadline": None, "derandomize": True}
LINKS = ("CONNECTED", "CONNECTED", "CONNECTED", "RECOVERING", "NODE_MAP_MISMATCH", "VERSION_MISMATCH")


def maps() -> t.Any:
    return st.lists(st.sampled_from(NAMES), unique=True, max_size=4)


@st.composite
def status(draw: t.Any) -> dict[str, t.Any]:
    kind = draw(st.sampled_from(["planned"] * 4 + ["any"] * 3 + ["stopped"] * 3 + ["unreachable", "failed"]))
    if kind in ("unreachable", "failed"):
        return {kind: "x"}
    words: dict[str, t.Any] = {}
    if kind == "stopped":
        words["run"] = None
    if kind != "planned":
        words["file"] = draw(maps())
    if kind == "any":
        words["run"] = draw(maps())
    words["source"] = draw(st.sampled_from(("record", "record", "own_row", "none")))
    words["links"] = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(LINKS), max_size=1))
    words["pending"] = draw(st.sampled_from([[]] * 6 + [[["LOG_LEVEL", "local"]], [["SERVER_PORT", "domain"]]]))
    words["changes"] = draw(st.sampled_from([[]] * 6 + [[["owner", "x", "root"]], [["enabled", False, True]]]))
    return words


@st.composite
def cases(draw: t.Any) -> build.Case:
    quorum = draw(st.sampled_from(("all", "majority", "1", "75%")))
    hosts = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        values: dict[str, t.Any] = {}
        values["imex_member_state"] = draw(st.sampled_from(["active"] * 6 + ["maintenance", "absent"]))
        values["imex_deployment"] = draw(st.sampled_from(["nvlink_partition"] * 8 + ["job"]))
        if draw(st.integers(0, 15)) == 0:
            values["imex_address"] = None
        hosts[name] = {
            "vars": values,
            "presence": draw(st.sampled_from([records.HERE] * 8 + [records.LOST, records.OUTSIDE])),
            "status": draw(status()),
        }
    probes = {
        name: {"50000": draw(st.sampled_from(("silent", "silent", "accepted", "refused", "error")))} for name in NAMES
    }
    busy = {name: {"gpu": [{"pid": 1, "name": "x"}]} for name in draw(st.lists(st.sampled_from(NAMES), max_size=1))}
    return {
        "vars": {"imex_quorum": quorum, "imex_max_removed": draw(st.sampled_from((1, 8)))},
        "hosts": hosts,
        "answers": draw(st.sampled_from([None, {"all": {"probes": probes}, **busy}, {"all": {"probes": probes}}])),
    }


@hypothesis.given(cases())
@hypothesis.settings(**COMMON)
def test_what_every_decision_keeps(case: build.Case) -> None:
    made, found, decision = build.make_decision(case)
    for name, domain in decision.domains.items():
        people = made.domains[name]
        works = {host: decision.hosts[host] for host in people.members if host in decision.hosts}
        # One decision, that every member reads.
        assert {work.decision for work in works.values()} <= {domain.decision}
        if domain.decision in (records.UNTOUCHED, records.REFUSED):
            assert not any(work.work or work.confirm for work in works.values())
        if domain.decision == records.REFUSED:
            assert domain.reasons
            assert not any(decision.hosts[host].work for host in domain.leaving)
        if people.refused:
            assert domain.decision == records.REFUSED
        # All or nothing for domains that exchange hosts.
        fates = {decision.domains[other].decision for other in domain.unit} - {records.UNTOUCHED}
        assert records.REFUSED not in fates or fates == {records.REFUSED}
        known = [host for host in people.members if host in found and found[host].known]
        if (
            len(people.members)
            - len([h for h in people.members if made.hosts[h].presence != records.OUTSIDE and h not in known])
            < people.required
        ):
            assert domain.decision == records.REFUSED
        if people.cut:
            assert domain.decision in (records.UNTOUCHED, records.JOIN, records.REFUSED) or not set(people.cut) & set(
                people.members
            )
        if domain.decision == records.COORDINATED:
            # Nobody that can be asked goes on with what it has, and nobody is started with anything but the final map.
            assert all(works[host].start and works[host].stop == found[host].alive for host in known)
        if domain.decision in (records.JOIN, records.ADOPT, records.LOCAL):
            for host in known:
                if not works[host].start and found[host].running:
                    assert found[host].agrees(domain.nodes)
        if domain.decision == records.JOIN:
            assert not any(
                works[host].stop for host in known if found[host].running and found[host].agrees(domain.nodes)
            )
    for host, work in decision.hosts.items():
        assert made.hosts[host].presence != records.OUTSIDE
        if work.work:
            assert found[host].known
            assert work.involved
            assert made.hosts[host].kind != records.MAINTENANCE
        if work.start:
            assert work.nodes == decision.domains[str(work.domain)].nodes
            assert made.hosts[host].address in work.nodes
            assert work.prove
            assert work.write
        if work.confirm:
            assert case["answers"] is None
        assert not (work.write and work.empty)


@hypothesis.given(cases())
@hypothesis.settings(**COMMON)
def test_the_order_in_which_hosts_answer_does_not_matter(case: build.Case) -> None:
    made, found, decision = build.make_decision(case)
    turned = dict(reversed(list(found.items())))
    again = decide.decide(made, turned, build.make_answers(case))
    assert again == decision


@hypothesis.given(cases())
@hypothesis.settings(**COMMON)
def test_what_is_not_confirmed_does_not_become_less_strict(case: build.Case) -> None:
    """A decision that asks for nothing is the same when it was asked."""
    made, found, _decision = build.make_decision(case)
    first = decide.decide(made, found, None)
    if not first.confirm:
        assert decide.decide(made, found, {}) == first


def carried_out(
    made: records.Plan, found: dict[str, facts.Facts], decision: records.Decision
) -> dict[str, facts.Facts]:
    """The hosts as they are after the decision was carried out and every daemon came up well."""
    after = dict(found)
    for host, work in decision.hosts.items():
        if not work.work:
            continue
        had = found[host]
        assert had.unit is not None
        unit = had.unit
        if work.empty:
            unit = unit._replace(active_state="inactive", sub_state="dead", unit_file_state="disabled")
            after[host] = had._replace(
                unit=unit, configured=(), loaded=None, source="none", row=None, links=(), daemon_state=""
            )
        if work.start:
            unit = unit._replace(active_state="active", sub_state="running")
            after[host] = had._replace(
                unit=unit, loaded=work.nodes, source="record", pending=(), daemon_state="READY", links=()
            )
        if work.write:
            after[host] = after[host]._replace(configured=work.nodes, config_changes=())
        if work.enable and after[host].unit is not None:
            after[host] = after[host]._replace(unit=unit._replace(unit_file_state="enabled"))
        after[host] = after[host]._replace(host_changes=())
    restarted = {str(made.hosts[host].address) for host, work in decision.hosts.items() if work.start}
    for host, fact in after.items():
        if fact.running and fact.loaded is not None:
            old = dict(fact.links)
            links = tuple(
                (node, "CONNECTED" if node in restarted or decision.hosts[host].start else old.get(node, "CONNECTED"))
                for node in fact.loaded
            )
            row = Row(True, frozenset(node for node, state in links if state == "CONNECTED"))
            after[host] = fact._replace(links=links, row=row)
    return after


@hypothesis.given(cases())
@hypothesis.settings(**COMMON)
def test_a_second_run_changes_nothing(case: build.Case) -> None:
    case = {**case, "answers": case["answers"] or {"all": {"probes": {name: {"50000": "silent"} for name in NAMES}}}}
    made, found, decision = build.make_decision(case)
    after = carried_out(made, found, decision)
    again = decide.decide(made, after, build.make_answers(case))
    for name, domain in decision.domains.items():
        if domain.decision != records.REFUSED:
            assert again.domains[name].decision in (records.UNTOUCHED, records.REFUSED), (domain, again.domains[name])
    done = {host for host, work in decision.hosts.items() if work.work}
    assert not [host for host in done if again.hosts[host].work]


@hypothesis.given(cases(), st.lists(st.sampled_from(NAMES), max_size=2))
@hypothesis.settings(**COMMON)
def test_what_every_verdict_keeps(case: build.Case, broken: list[str]) -> None:
    case = {**case, "answers": case["answers"] or {}}
    made, found, decision = build.make_decision(case)
    for name in broken:
        if name in case["hosts"]:
            case["hosts"][name]["after"] = {"start": "failed: x", "run": None}
    outcomes = build.make_outcomes(case, decision)
    verdict = judge.judge(made, decision, found, outcomes)
    for name, domain in verdict.domains.items():
        if domain.met:
            assert not domain.put_back
            assert len(domain.kept) >= decision.domains[name].required
            assert set(decision.domains[name].required_nodes) <= set(domain.kept)
        assert set(domain.kept) | {dropped.address for dropped in domain.dropped} == set(
            decision.domains[name].expected
        )
    for host, back in verdict.hosts.items():
        if back.put_back:
            assert decision.hosts[host].work
            assert not (back.remove and back.start)
        else:
            assert not back.start
    seen = report.Seen(made, decision, found, outcomes, verdict=verdict)
    told = report.report(seen)
    assert all(len(line) <= report.WIDTH for line in told.table.splitlines())
    assert all(not host.failed or host.message for host in told.hosts.values())
    for name, told_domain in told.domains.items():
        assert told_domain.ok == (told_domain.outcome in ("unchanged", "changed", "would_change"))
        failing = {host for host in made.domains[name].members if host in told.hosts and told.hosts[host].failed}
        assert told_domain.ok == (not failing) or not any(host in told.hosts for host in made.domains[name].members)


@hypothesis.given(
    st.lists(st.sampled_from(NAMES), unique=True, max_size=6),
    st.sampled_from(["accepted", "refused", "silent", "error"]),
)
@hypothesis.settings(**COMMON)
def test_only_a_heard_and_closed_or_silent_port_clears_a_suspect(names: list[str], answer: str) -> None:
    case: build.Case = {
        "vars": {"imex_quorum": "1", "imex_max_removed": 9},
        "status": {"file": ["a1", *[name for name in names if name != "a1"]]},
        "hosts": {"a1": {}},
        "answers": {"all": {"probes": {name: {"50000": answer, "50005": "silent"} for name in names}}},
    }
    _made, _found, decision = build.make_decision(case)
    strangers = [name for name in names if name != "a1"]
    expected = (
        records.UNTOUCHED
        if not strangers
        else records.COORDINATED
        if answer in ("refused", "silent")
        else records.REFUSED
    )
    assert decision.domains["a"].decision == expected
    assert guard.Suspects().addresses == ()
