# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import records, settings
from ansible_collections.hpc.fabric.tests.unit.plugins.plugin_utils.imex import build

CASES = build.load("plan/plan.json")


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_plan(case: build.Case) -> None:
    made = build.make_plan(case)
    for name, expected in case["domains"].items():
        domain = made.domains[name]
        assert [reason.code for reason in domain.refused] == expected.get("refused", [])
        for said in expected.get("says", ()):
            assert said in " ".join(reason.message for reason in domain.refused)
        if "nodes" in expected:
            assert list(domain.nodes) == build.addresses(expected["nodes"])
        for field in ("members", "maintenance", "absent", "cut"):
            assert list(getattr(domain, field)) == expected.get(field, list(getattr(domain, field)))
        if "required" in expected:
            assert domain.required == expected["required"]
        if "required_nodes" in expected:
            assert list(domain.required_nodes) == build.addresses(expected["required_nodes"])
    assert sorted(made.domains) == sorted(case["domains"])
    for host, expected in case.get("expect_hosts", {}).items():
        assert build.subset(expected, records.plain(made.hosts[host])) == []


@pytest.mark.parametrize("case", CASES, ids=build.name_of)
def test_a_plan_survives_being_a_variable(case: build.Case) -> None:
    made = build.make_plan(case)
    assert records.rebuild_plan(records.plain(made._asdict())) == made


def test_a_host_whose_domain_cannot_be_read_stops_the_plan() -> None:
    def get(name: str) -> t.Any:
        if name == "imex_domain":
            raise ValueError("'hostvars' is undefined")
        return build.DEFAULTS.get(name)

    with pytest.raises(
        InputError, match=r"n1: imex_domain cannot be templated .*'hostvars' is undefined.*no domain can be planned"
    ):
        settings.read("n1", records.OUTSIDE, get)


def test_planned_is_what_imex_status_takes() -> None:
    made = build.make_plan(
        {"hosts": {"a1": {}, "a2": {"vars": {"imex_package": {"name": "nvidia-imex", "version": "570.1-1"}}}}}
    )
    planned = made.hosts["a2"].planned
    assert planned["nodes"] == ["10.0.1.1", "10.0.1.2"]
    assert planned["package"] == {"name": "nvidia-imex", "version": "570.1-1"}
    assert planned["config"] == {"IMEX_CMD_ENABLED": "1"}
    assert planned["unit"] == {
        "enabled": True,
        "masked": False,
        "dropin": True,
        "start_timeout": 90.0,
        "driver_path": "/dev/nvidiactl",
    }


ADDRESSES = [
    ({"imex_network": "10.0.0.0/24", "ansible_host": "10.0.0.7"}, "10.0.0.7", []),
    ({"imex_network": "10.0.0.0/24", "ansible_host": "n7"}, None, ["no_address"]),
    ({"imex_network": "10.0.0.0/24"}, None, ["no_address"]),
    (
        {"imex_network": "10.0.0.0/24", "ansible_facts": {"all_ipv4_addresses": ["10.0.0.7", "10.0.0.8"]}},
        None,
        ["ambiguous_address"],
    ),
    (
        {
            "imex_network": "10.0.0.0/24",
            "ansible_host": "10.0.0.9",
            "ansible_facts": {"all_ipv4_addresses": ["192.168.0.1", "10.0.0.7"]},
        },
        "10.0.0.7",
        [],
    ),
    ({"imex_network": "fd00::/64", "ansible_facts": {"all_ipv6_addresses": ["fd00:0::7", "fe80::1"]}}, "fd00::7", []),
    ({"imex_network": "10.0.0/33"}, None, ["bad_variable"]),
    ({"imex_network": "10.0.0.0/24", "imex_address": "10.9.0.1"}, "10.9.0.1", []),
    ({"imex_address": " FD00:0:0::1 "}, "fd00::1", []),
    ({}, None, []),
]


@pytest.mark.parametrize("values, expected, codes", ADDRESSES)
def test_address(values: dict[str, t.Any], expected: str | None, codes: list[str]) -> None:
    reader = settings.Reader("n", values.get)
    assert settings.address_of(reader) == expected
    assert [problem.code for problem in reader.problems] == codes


def test_an_address_by_network_says_when_netaddr_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HAS_NETADDR", False)
    reader = settings.Reader("n", {"imex_network": "10.0.0.0/24", "ansible_host": "10.0.0.1"}.get)
    assert settings.address_of(reader) is None
    assert "netaddr" in reader.problems[0].message
