# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that cannot be reached: who counts, what is refused, and what becomes of a member that comes back."""

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds

PORT = {"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000}


def test_powered_off_member_and_quorum_all_is_refused_and_nothing_is_written_anywhere(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node4"].power_off()
    site.inventory({"rack1": bed.nodes}, imex_config=PORT)
    before = bed.snapshots(), bed.starts(bed.nodes[:3])
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "refused"
    assert run.codes() == {"not_enough_reachable"}
    assert {"node1", "node2", "node3"} <= run.failed
    assert "node4" in run.message("node1")
    assert "imex_quorum" in run.message("node1")
    assert (bed.snapshots(), bed.starts(bed.nodes[:3])) == before


def test_majority_is_carried_out_and_who_comes_back_with_an_old_config_is_joined(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    off, rest = bed["node4"], bed.nodes[:3]
    off.power_off()
    files = off.snapshot()
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_quorum="majority")
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert run.failed == set()
    assert beds.all_together(bed.clocks(rest).values())
    assert all(node.row()[peer.address] == "CONNECTED" for node in rest for peer in rest)
    assert "node4" in run.report["table"]
    assert off.snapshot() == files
    off.power_on()
    off.wait_row(lambda row: row[off.address] == "CONNECTED")
    starts = bed.starts()
    status = site.playbook("status")
    assert "stale" in status.output or "node4" in status.output
    again = site.rollout()
    assert again.rc == 0
    assert again.decided() == "join"
    assert again.codes() == {"stale"}
    after = bed.starts()
    assert [name for name in after if after[name] != starts[name]] == ["node4"]
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_who_comes_back_with_an_old_map_blocks_itself_and_the_next_run_restarts_all(site):
    bed = site.bed
    three = [bed["node1"], bed["node2"], bed["node4"]]
    bed.by_hand(three)
    off = bed["node4"]
    off.power_off()
    site.inventory({"rack1": bed.nodes}, imex_quorum="majority")
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    off.power_on()
    off.wait_row(lambda row: row[bed["node1"].address] == "NODE_MAP_MISMATCH")
    bed["node1"].wait_row(lambda row: row[off.address] == "NODE_MAP_MISMATCH")
    again = site.rollout()
    assert again.rc == 0
    assert again.decided() == "coordinated"
    assert {"node_map_mismatch"} <= again.codes()
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}


def test_who_comes_back_stopped_with_an_old_map_joins(site):
    bed = site.bed
    bed.by_hand([bed["node1"], bed["node2"], bed["node4"]])
    off = bed["node4"]
    off.systemctl("-q", "disable", beds.UNIT)
    off.power_off()
    site.inventory({"rack1": bed.nodes}, imex_quorum="majority")
    assert site.rollout().rc == 0
    off.power_on()
    starts = bed.starts(bed.nodes[:3])
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "join"
    assert set(run.changed) == {"node4"}
    assert bed.starts(bed.nodes[:3]) == starts
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_dead_ssh_beside_a_living_daemon_is_refused_whatever_the_quorum(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node4"].freeze_ssh()
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_quorum="majority")
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "refused"
    assert run.codes() == {"stale_member"}
    assert "node4" in run.message("node1")
    assert "imex_allow_stale_members" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before


def test_dead_ssh_does_not_matter_where_nothing_is_to_be_done(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node4"].freeze_ssh()
    site.inventory({"rack1": bed.nodes}, imex_quorum="majority", imex_unit_dropin=False)
    run = site.rollout()
    assert run.decided() == "untouched"
    assert run.changed == {}
    assert run.failed == set()
    assert run.rc == 0


def test_a_running_member_that_nobody_plans_any_more_is_refused_until_it_is_named(site):
    """Taken out of the inventory while its daemon still runs with the old map."""
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes[:3]})
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "refused"
    assert run.codes() == {"unplanned_peer"}
    assert bed["node4"].address in run.message("node1")
    assert "imex_forget_addresses" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before
    bed["node4"].stop()
    silent = site.rollout()
    assert silent.rc == 0
    assert all(bed.is_up(node, bed.nodes[:3]) for node in bed.nodes[:3])


@pytest.mark.parametrize("quorum", ["75%", "3"])
def test_a_share_or_a_number_is_enough(site, quorum):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_quorum=quorum)
    bed["node2"].power_off()
    run = site.rollout()
    assert run.rc == 0
    assert run.domain()["ok"]
    assert set(run.changed) == {"node1", "node3", "node4"}


def test_a_required_node_that_is_off_refuses_whatever_the_quorum(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_quorum="majority", imex_required_nodes=["node2"])
    bed["node2"].power_off()
    before = bed.snapshots()
    run = site.rollout()
    assert run.rc != 0
    assert run.codes() == {"required_node_unreachable"}
    assert bed.snapshots() == before
