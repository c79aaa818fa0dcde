# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of nvidia-imex-ctl against published output of the real one, byte for byte."""

from __future__ import annotations

import json
import re

import pytest
from imex_simulator import ctl, rules


@pytest.fixture
def control(tmp_path):
    """control(version, letters): a Control with a config.cfg of its own."""

    def make(version, letters="N"):
        (tmp_path / "config.cfg").write_text("")
        (tmp_path / "imex-simulator.json").write_text(json.dumps({"version": version}))
        made = ctl.Control({"c": str(tmp_path / "config.cfg"), **dict.fromkeys(letters, True)})
        made.read_config()
        return made

    return make


def table(control, nodes, version, stamp, states=None):
    answers = [
        ((states or {}).get(i, "READY"), version, "", [(j, h, "CONNECTED") for j, h in enumerate(nodes)])
        for i in range(len(nodes))
    ]
    rows = {i: (a[0], {j: word for j, _h, word in a[3]}) for i, a in enumerate(answers)}
    state = rules.domain_state(rows, range(len(nodes)))
    return control.as_table(nodes, answers, rows, stamp, state)


@pytest.mark.parametrize(
    "sample, version, shown",
    [("ctl_N_570.86_2node.txt", "570.86.15", ""), ("ctl_N_570.172_18node.txt", "570.172.08", "570.172")],
)
def test_table_of_570(control, fixture_text, sample, version, shown):
    text = fixture_text(sample)
    nodes = re.findall(r"^Node #\d+\s+- (\S+)", text, re.M)
    stamp = re.search(r"^\d+/\d+/\d+ .*", text, re.M).group()
    assert table(control(version), nodes, shown, stamp) == text


def test_node_lines_of_580(fixture_text):
    lines = [line for line in fixture_text("ctl_N_H_580_lines.txt").splitlines() if line.startswith("Node")]
    r = rules.VersionRules("580.173.02")
    assert r.node_line(10, "10.66.6.18", "READY", "580.173.02", False, "theia0281") == lines[0]
    assert r.node_line(11, "10.66.6.19", "UNAVAILABLE", "", False, "theia0282") == lines[1]
    # the author of the sample shortened state and version: the host column is exact
    own = r.node_line(4, "180.100.41.232", "READY", "580.95.09", True, "MKE030104700131")
    assert own[:34] == lines[2][:34]
    assert r.node_line(0, "180.100.41.183", "READY", "580.95.09", False, "x")[:34] == lines[3][:34]


def test_cells_for_mismatches_are_three_wide(control):
    r = rules.VersionRules("570.172.08")
    assert r.matrix_row(1, ["C", "!M!", "!V!"]) == "       1        C   !M! !V!"
    assert "!M!" in r.legend
    assert "!M!" not in rules.VersionRules("570.86.15").legend


def sorted_lines(text):
    """The order of protobuf's maps is random, so lines are compared as a set, without the comma that depends on it."""
    return sorted(line.rstrip(",") for line in text.splitlines())


def test_json_of_570_up(control, fixture_text):
    text = fixture_text("ctl_Nj_570.172.08_up.json")
    nodes = ["192.168.103.159", "192.168.107.187"]
    answers = [("READY", "570.172.08", "x", [(j, h, "CONNECTED") for j, h in enumerate(nodes)])] * 2
    made = control("570.172.08", "Nj").as_json(nodes, answers, None, "8/8/2025 17:38:02.641", "UP")
    assert json.loads(made) == json.loads(text)
    assert sorted_lines(made) == sorted_lines(text)
    assert made.splitlines()[-2] == ' "status": "UP"'


def test_json_of_570_down(control, fixture_text):
    text = fixture_text("ctl_Nj_570.172.08_down_unconfigured.json")
    made = control("570.172.08", "Nj").as_json(["0.0.0.0"], [None], None, "8/11/2025 20:08:55.625", "DOWN")
    assert made == text  # one node: nothing is random


def test_json_of_580_with_host_names(control, fixture_text):
    want = json.loads(fixture_text("ctl_NjH_580.95.05_down_payload.json"))
    made = json.loads(
        control("580.95.05", "NjH").as_json(
            ["10.0.0.1", "10.0.0.2"], [None, None], None, "9/4/2026 00:00:00.000", "DOWN"
        )
    )
    assert made["nodes"]["1"]["hostName"] == "N/A"
    for node in (*want["nodes"].values(), *made["nodes"].values()):
        # the sample has a subset of the keys, and the name of the node that it ran on
        for key in ("changed", "version", "hostName"):
            node.pop(key, None)
    assert made == want


@pytest.mark.parametrize(
    "version, letters, want", [("570.172.08", "Nj", None), ("580.30.01", "Nj", ""), ("580.30.01", "NjH", "gb-01")]
)
def test_host_name_key(control, version, letters, want):
    answers = [("READY", version, "gb-01", [(0, "10.0.0.1", "CONNECTED")])]
    made = json.loads(control(version, letters).as_json(["10.0.0.1"], answers, None, "1/1/2026 00:00:00.000", "UP"))
    assert made["nodes"]["0"].get("hostName") == want


@pytest.mark.parametrize(
    "rows, want",
    [
        ({}, "DOWN"),
        ({0: ("READY", {0: "CONNECTED", 1: "CONNECTED"}), 1: ("READY", {0: "CONNECTED", 1: "CONNECTED"})}, "UP"),
        ({0: ("READY", {0: "CONNECTED", 1: "CONNECTED"})}, "DEGRADED"),
        ({0: ("READY", {0: "CONNECTED", 1: "RECOVERING"}), 1: ("READY", {0: "CONNECTED", 1: "CONNECTED"})}, "DEGRADED"),
        (
            {0: ("INIT_GPU", {0: "CONNECTED", 1: "CONNECTED"}), 1: ("READY", {0: "CONNECTED", 1: "CONNECTED"})},
            "DEGRADED",
        ),
    ],
    ids=["nobody", "all", "one absent", "one link", "one not ready"],
)
def test_domain_state(rows, want):
    assert rules.domain_state(rows, range(2)) == want


@pytest.mark.parametrize(
    "text, want",
    [
        ("10.0.0.1\n10.0.0.2\n", ["10.0.0.1", "10.0.0.2"]),
        ("\ufeff# head\r\n10.0.0.1 \r\n\r\n10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
        ("0.0.0.0\n" * 9, ["0.0.0.0"]),
        ("## AWS\n", []),
    ],
)
def test_nodes_file(text, want):
    assert rules.parse_nodes(text) == want
