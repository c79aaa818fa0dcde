# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After the exchange and the leave: rack1 is node1 and node3, rack2 is node2 alone. Run once for each host."""

from __future__ import annotations

import json

import pytest

NODES = "/etc/nvidia-imex/nodes_config.cfg"
DOMAINS = {
    "node1": ["10.77.0.11", "10.77.0.13"],
    "node2": ["10.77.0.12"],
    "node3": ["10.77.0.11", "10.77.0.13"],
}


@pytest.fixture
def members(host):
    """The addresses of the host's domain; None for the host that left."""
    return DOMAINS.get(host.check_output("hostname"))


def test_list(host, members):
    assert host.file(NODES).content_string.split() == (members or [])


def test_unit(host, members):
    assert host.service("nvidia-imex").is_running is bool(members)
    assert host.service("nvidia-imex").is_enabled is bool(members)


def test_domain_is_up(host, members):
    if not members:
        assert host.run("nvidia-imex-ctl -q").rc != 0
        return
    answer = json.loads(host.check_output("nvidia-imex-ctl -N -j"))
    assert answer["status"] == "UP"
    assert sorted(node["host"] for node in answer["nodes"].values()) == members
