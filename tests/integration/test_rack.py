# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole rack: the 18 compute trays of an NVL72."""

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds
from ansible_collections.hpc.fabric.tests.integration.conftest import Site, make_bed

pytestmark = pytest.mark.full
PORT = {"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000}


@pytest.fixture(scope="module")
def rack(tmp_path_factory):
    yield from make_bed(18, tmp_path_factory.mktemp("rack-share"), "rack")


def test_rack_is_brought_up_changed_and_put_back(rack, tmp_path, collections):
    rack.reset()
    site = Site(rack, tmp_path, collections)
    site.inventory({"rack1": rack.nodes}, imex_wait_timeout=60)
    first = site.rollout(timeout=600)
    assert first.rc == 0
    assert all(rack.is_up(node, rack.nodes) for node in rack.nodes)
    again = site.rollout(timeout=600)
    assert again.changed == {}

    site.inventory({"rack1": rack.nodes}, imex_wait_timeout=60, imex_config=PORT)
    second = site.rollout(timeout=600)
    assert second.rc == 0
    assert beds.all_together(rack.clocks().values())
    assert all(rack.is_up(node, rack.nodes) for node in rack.nodes)

    files = {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in rack.nodes}
    rack["node17"].fail_when("^SERVER_PORT=31002", exit_at_start={"code": 1, "text": "Not on this port"})
    site.inventory({"rack1": rack.nodes}, imex_wait_timeout=20, imex_config={**PORT, "SERVER_PORT": 31002})
    third = site.rollout(timeout=600)
    assert third.rc != 0
    assert "node17" in third.message("node1")
    assert "Not on this port" in third.message("node17")
    assert {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in rack.nodes} == files
    assert all(rack.is_up(node, rack.nodes) for node in rack.nodes)
