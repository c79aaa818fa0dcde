# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import records
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

CASES = build.load("decide/decide.json")


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_decide(case: build.Case) -> None:
    _plan, _facts, decision = build.make_decision(case)
    found = records.plain(decision._asdict())
    expected = dict(case["expect"])
    for name, wanted in expected.pop("domains", {}).items():
        domain = decision.domains[name]
        wanted = dict(wanted)
        if "codes" in wanted:
            assert [reason.code for reason in domain.reasons] == wanted.pop("codes"), domain.reasons
        for field in ("nodes", "expected"):
            if field in wanted:
                wanted[field] = build.addresses(wanted[field])
        assert build.subset(wanted, found["domains"][name]) == [], domain.reasons
    assert build.subset(expected, found) == []
    text = " ".join(reason.message for domain in decision.domains.values() for reason in domain.reasons)
    assert [said for said in case.get("says", ()) if said not in text] == []
    warnings = " ".join(warning for domain in decision.domains.values() for warning in domain.warnings)
    assert [said for said in case.get("warns", ()) if said not in warnings] == []


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_a_decision_survives_being_a_variable(case: build.Case) -> None:
    _plan, _facts, decision = build.make_decision(case)
    assert records.rebuild_decision(records.plain(decision._asdict())) == decision
