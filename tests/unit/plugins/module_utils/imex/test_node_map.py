# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import pathlib
import random
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, node_rules

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "node_map"


def table(name: str) -> list[t.Any]:
    rows = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return [pytest.param(row, id=row["name"]) for row in rows]


@pytest.mark.parametrize("row", table("build"))
def test_build(row: dict[str, t.Any]) -> None:
    policy = node_map.Policy(**row["policy"])
    if "nodes" in row:
        assert node_rules.build(row["entries"], policy).nodes == tuple(row["nodes"])
        return
    with pytest.raises(InputError) as error:
        node_rules.build(row["entries"], policy, what="imex_nodes")
    assert str(error.value).startswith("imex_nodes cannot be used, nothing was written: ")
    for part in row["errors"]:
        assert part in str(error.value)


@pytest.mark.parametrize("row", table("parse"))
def test_parse(row: dict[str, t.Any]) -> None:
    found = node_map.parse(row["text"], "/etc/x.cfg")
    assert list(found.nodes) == row["nodes"]
    assert len(found.problems) == len(row["problems"])
    for problem, part in zip(found.problems, row["problems"]):
        assert problem.startswith("/etc/x.cfg line ")
        assert part in problem
        assert problem.isascii()


@pytest.mark.parametrize("row", table("compare"))
def test_compare(row: dict[str, t.Any]) -> None:
    change = node_map.compare(row["before"], row["after"])
    assert change == (tuple(row["added"]), tuple(row["removed"]), row["reordered"])


@pytest.mark.parametrize("row", table("arrange"))
def test_arrange(row: dict[str, t.Any]) -> None:
    assert list(node_map.arrange(row["entries"], row["order"], row["known"])) == row["result"]


def test_arrange_refuses_an_unknown_order() -> None:
    with pytest.raises(InputError, match="'random', expected given, address or keep"):
        node_map.arrange(["10.0.0.1"], "random")


def test_text_reads_back_as_the_same_map() -> None:
    built = node_rules.build(["10.0.0.2", "10.0.0.1"], node_map.Policy())
    assert built.text == "10.0.0.2\n10.0.0.1\n"
    assert node_map.parse(built.text, "x") == (built.nodes, ())


def test_digest_is_of_the_ordered_lines() -> None:
    built = node_rules.build(["10.0.0.1", "10.0.0.2"], node_map.Policy())
    assert built.digest == "sha256:" + hashlib.sha256(b"10.0.0.1\n10.0.0.2\n").hexdigest()
    assert built.digest != node_map.digest(reversed(built.nodes))
    assert node_map.digest(()) == node_map.NodeMap(()).digest


def test_digest_takes_bytes_that_are_no_utf8() -> None:
    found = node_map.parse(b"\xff\n".decode("utf-8", "surrogateescape"), "x")
    assert node_map.digest(found.nodes).startswith("sha256:")


@pytest.mark.parametrize(
    "a, b, same",
    [
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.0.0.1", "::ffff:a00:1", True),
        ("Node1.", "node1", True),
        ("10.0.0.1", "10.0.0.10", False),
        ("010.0.0.1", "10.0.0.1", False),
        ("node1", "node01", False),
    ],
)
def test_same_host(a: str, b: str, same: bool) -> None:
    assert node_map.same_host(a, b) is same


def test_every_way_to_write_a_map_reads_as_that_map() -> None:
    # N1 in all combinations, by a seeded generator: nothing that does not change the members may look like a change.
    dice = random.Random(20260101)
    nodes = tuple(f"10.{dice.randrange(256)}.0.{number}" for number in range(1, 19))
    for _round in range(300):
        end = dice.choice(["\n", "\r\n", "\r"])
        lines = []
        for node in nodes:
            lines += [dice.choice(["", "# c", "  ", "## 10.9.9.9"]) for _turn in range(dice.randrange(3))]
            spelled = dice.choice([node, f"::ffff:{node}"])
            lines.append(dice.choice(["", " ", "\t"]) + spelled + dice.choice(["", "  ", "\t", " # c", "#c"]))
        text = dice.choice(["", "\ufeff"]) + end.join(lines) + dice.choice(["", end, end + end])
        assert node_map.parse(text, "x") == (nodes, ()), text
