# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import quorum
from ansible_collections.hpc.fabric.plugins.module_utils.imex.domain import Connection, Domain, Node

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "quorum"
TABLE = json.loads((FIXTURES / "cases.json").read_text(encoding="utf-8"))
WORDS = {
    "C": "CONNECTED",
    "N": "NEVER_CONNECTED",
    "R": "RECOVERING",
    "I": "INVALID",
    "M": "NODE_MAP_MISMATCH",
    "?": "SOMETHING_NEW",
}


def domain_of(rows: list[dict[str, t.Any]] | None, local: int | None) -> Domain | None:
    if rows is None:
        return None
    hosts = [row["host"] for row in rows]
    nodes = []
    for number, row in enumerate(rows):
        links = [Connection(peer, hosts[peer], WORDS[cell], cell) for peer, cell in enumerate(row["row"])]
        nodes.append(
            Node(number, row["host"], f"host-{number + 1}", row["status"], None, number == local, tuple(links))
        )
    return Domain("ANY", "", tuple(nodes))


@pytest.mark.parametrize("case", TABLE["star"], ids=lambda case: case["name"])
def test_evaluate(case: dict[str, t.Any]) -> None:
    found = quorum.evaluate(
        domain_of(case["domain"], case.get("local", 0)),
        case.get("nodes", TABLE["nodes"]),
        case.get("spec", "all"),
        case.get("required_nodes", ()),
    )
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in found._asdict().items()}
    assert {key: values[key] for key in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", TABLE["pairs"], ids=lambda case: case["name"])
def test_prove(case: dict[str, t.Any]) -> None:
    rows = {address: quorum.Row(row["ready"], frozenset(row["connected"])) for address, row in case["rows"].items()}
    proof = quorum.prove(
        rows, case.get("nodes", TABLE["nodes"]), case.get("spec", "all"), case.get("required_nodes", ())
    )
    values: dict[str, t.Any] = dict(proof._asdict(), dropped=[address for address, _reason in proof.dropped])
    found = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    assert {key: found[key] for key in case["expect"]} == case["expect"]
    assert all(reason for _address, reason in proof.dropped)
    # What is kept is a clique.
    assert all(b in rows[a].connected for a in proof.members for b in proof.members if a != b)


def test_prove_says_why() -> None:
    rows = {"10.0.0.1": quorum.Row(True, frozenset()), "10.0.0.2": quorum.Row(False, frozenset())}
    proof = quorum.prove(rows, ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    assert dict(proof.dropped) == {"10.0.0.2": "its daemon is not READY", "10.0.0.3": "it gave no account of itself"}
    many = [f"10.0.1.{number}" for number in range(7)]
    alone = {node: quorum.Row(True, frozenset()) for node in many}
    first = quorum.prove(alone, many).dropped[0]
    assert first == (
        "10.0.1.6",
        "it is not connected with 10.0.1.0, 10.0.1.1, 10.0.1.2, 10.0.1.3 and 2 more",
    )


@pytest.mark.parametrize(
    "spec, total, count",
    [
        ("all", 18, 18),
        ("majority", 18, 10),
        ("majority", 17, 9),
        ("majority", 1, 1),
        ("75%", 18, 14),
        ("75%", 4, 3),
        ("100%", 18, 18),
        ("1%", 18, 1),
        ("66 %", 3, 2),
        ("16", 18, 16),
        (16, 18, 16),
        (" 16 ", 16, 16),
    ],
)
def test_required(spec: str | int, total: int, count: int) -> None:
    assert quorum.required(spec, total) == count


@pytest.mark.parametrize(
    "spec, message",
    [
        ("19", "19 members are asked for, but there are only 18"),
        ("101%", "101% of the members is more than there are"),
        ("0", "'0' is no count of members"),
        ("0%", "'0%' is no count of members"),
        ("-1", "'-1' is no count of members"),
        ("7.5%", "'7.5%' is no count of members"),
        ("most", "'most' is no count of members: use all, majority"),
        ("", "'' is no count of members"),
        ("%", "'%' is no count of members"),
    ],
)
def test_required_refuses(spec: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        quorum.required(spec, 18)
    assert message in str(raised.value)


def test_evaluate_refuses_a_required_node_that_is_no_member() -> None:
    with pytest.raises(InputError, match=r"required_nodes names 10.0.9.9, which is not among the 4 expected nodes"):
        quorum.evaluate(None, TABLE["nodes"], "all", ["10.0.9.9"])
