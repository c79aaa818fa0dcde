# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import ControlError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import domain
from ansible_collections.hpc.fabric.plugins.module_utils.imex.table import parse as parse_table

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "ctl"
JSON = json.loads((FIXTURES / "json_cases.json").read_text(encoding="utf-8"))
TABLE = json.loads((FIXTURES / "table_cases.json").read_text(encoding="utf-8"))


def text_of(case: dict[str, t.Any]) -> str:
    text = str(case["text"])
    return (FIXTURES / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def good(table: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    return [case for case in table["cases"] if "error" not in case]


def bad(table: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    return [case for case in table["cases"] if "error" in case]


def shape(found: domain.Domain) -> list[list[t.Any]]:
    return [[node.id, node.host, node.status, [link.status for link in node.connections]] for node in found.nodes]


def check(found: domain.Domain, case: dict[str, t.Any]) -> None:
    assert found.state == case["state"]
    assert shape(found) == case["nodes"]
    assert (found.local.id if found.local else None) == case["local"]
    if "hostnames" in case:
        assert [node.hostname for node in found.nodes] == case["hostnames"]
    if "versions" in case:
        assert [node.version for node in found.nodes] == case["versions"]
    if "timestamp" in case:
        assert found.timestamp == case["timestamp"]
    if "raw" in case:
        assert [link.status_raw for link in found.nodes[0].connections] == case["raw"]


@pytest.mark.parametrize("case", good(JSON), ids=lambda case: case["name"])
def test_parse_json(case: dict[str, t.Any]) -> None:
    found = domain.parse_json(text_of(case), JSON["local_addresses"])
    check(found, case)
    row = domain.own_row_hosts(found)
    assert (list(row) if row else None) == case["own_row"]


@pytest.mark.parametrize("case", bad(JSON), ids=lambda case: case["name"])
def test_parse_json_refuses(case: dict[str, t.Any]) -> None:
    with pytest.raises(ControlError) as raised:
        domain.parse_json(text_of(case), JSON["local_addresses"])
    assert case["error"] in str(raised.value)
    assert raised.value.kind == "unreadable"


@pytest.mark.parametrize("case", good(TABLE), ids=lambda case: case["name"])
def test_parse_table(case: dict[str, t.Any]) -> None:
    found = parse_table(text_of(case), TABLE["local_addresses"])
    check(found, case)
    # The table's hosts come from the local file, so they say nothing of what the daemon holds.
    assert domain.own_row_hosts(found) is None


@pytest.mark.parametrize("case", bad(TABLE), ids=lambda case: case["name"])
def test_parse_table_refuses(case: dict[str, t.Any]) -> None:
    with pytest.raises(ControlError) as raised:
        parse_table(text_of(case), TABLE["local_addresses"])
    assert case["error"] in str(raised.value)
    assert raised.value.kind == "unreadable"


def test_parse_table_reads_two_digit_columns() -> None:
    text = (FIXTURES / "ctl_N_570.172_18node.txt").read_text(encoding="utf-8")
    found = parse_table(text, ["172.31.56.47"])
    assert [node.id for node in found.nodes] == list(range(18))
    assert all([link.id for link in node.connections] == list(range(18)) for node in found.nodes)
    assert {link.status for node in found.nodes for link in node.connections} == {"CONNECTED"}
    assert found.nodes[0].connections[17].host == "172.31.56.47"
    assert {node.version for node in found.nodes} == {"570.172"}
    assert found.local == found.nodes[17]
    assert found.state == "UP"


def test_parse_json_and_table_agree_on_570_172() -> None:
    table = parse_table((FIXTURES / "ctl_N_570.172_18node.txt").read_text(encoding="utf-8"), [])
    nodes = {
        str(node.id): {
            "status": node.status,
            "host": node.host,
            "version": node.version,
            "connections": {str(link.id): {"host": link.host, "status": "CONNECTED"} for link in node.connections},
        }
        for node in reversed(table.nodes)
    }
    answer = json.dumps({"nodes": nodes, "timestamp": table.timestamp, "status": table.state})
    assert shape(domain.parse_json(answer, [])) == shape(table)


@pytest.mark.parametrize("word", sorted(domain.WORDS))
def test_known_words_stay(word: str) -> None:
    assert domain.normalise_connection(word) == word


@pytest.mark.parametrize(
    "word, name",
    [
        ("connected", "CONNECTED"),
        ("Never Connected", "NEVER_CONNECTED"),
        ("NODE_MAP_MISMATCH", "NODE_MAP_MISMATCH"),
        ("NODES_MISMATCH", "NODE_MAP_MISMATCH"),
        ("MAP-MISMATCH", "NODE_MAP_MISMATCH"),
        ("VERSION_MISMATCH", "VERSION_MISMATCH"),
        ("IMEX_VERSION_MISMATCH", "VERSION_MISMATCH"),
        ("MISMATCH", "MISMATCH"),
        ("Half Open", "Half Open"),
        ("CONNECTED_BUT_SLOW", "CONNECTED_BUT_SLOW"),
        ("", ""),
    ],
)
def test_normalise_connection(word: str, name: str) -> None:
    assert domain.normalise_connection(word) == name


def test_several_own_addresses_mean_the_node_that_answers() -> None:
    answer = {
        "nodes": {str(i): {"host": f"10.0.0.{i}", "status": word} for i, word in enumerate(["UNAVAILABLE", "READY"])}
    }
    found = domain.parse_json(json.dumps(dict(answer, status="DEGRADED")), ["10.0.0.0", "10.0.0.1"])
    assert [node.is_local for node in found.nodes] == [True, True]
    assert found.local is not None
    assert found.local.id == 1


def test_own_address_in_another_spelling() -> None:
    answer = {"nodes": {"0": {"host": "2001:DB8:0::1", "status": "READY"}}, "status": "UP"}
    found = domain.parse_json(json.dumps(answer), ["2001:db8::1"])
    assert found.nodes[0].is_local


def test_a_long_answer_is_shown_by_its_ends() -> None:
    with pytest.raises(ControlError) as raised:
        domain.parse_json("begin" + "x" * 5000 + "end", [])
    assert "begin" in str(raised.value)
    assert "xend" in str(raised.value)
    assert len(str(raised.value)) < 1000
    assert len(raised.value.output) == 2000
