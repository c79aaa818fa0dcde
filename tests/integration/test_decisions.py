# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions of a rollout, each on four hosts with their own systemd: what is done is done for the whole domain."""

from __future__ import annotations

import json

from ansible_collections.hpc.fabric.tests.integration import bed as beds


def addresses(nodes):
    return [node.address for node in nodes]


def test_first_rollout_brings_the_domain_up_and_the_second_changes_nothing(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    first = site.rollout()
    assert first.rc == 0
    assert first.decided() == "coordinated"
    assert first.domain()["outcome"] == "changed"
    assert set(first.changed) == {node.name for node in bed.nodes}
    for node in bed.nodes:
        assert bed.is_up(node, bed.nodes)
        assert node.read(beds.NODES) == "".join(f"{address}\n" for address in addresses(bed.nodes))
        assert node.clock().unit_file_state == "enabled"
        assert node.run("stat", "-c", "%a %U:%G", beds.NODES, beds.CONFIG).split("\n")[:2] == ["644 root:root"] * 2
        dropin = node.read(beds.DROPIN)
        assert "TimeoutStartSec=10" in dropin
        assert "ConditionPathExists=/dev/nvidiactl" in dropin
        assert beds.NODES in dropin
    before = bed.snapshots(), bed.starts()
    second = site.rollout()
    assert second.rc == 0
    assert second.changed == {}
    assert second.decided() == "untouched"
    assert second.domain()["outcome"] == "unchanged"
    assert (bed.snapshots(), bed.starts()) == before


def test_added_host_restarts_all_members_together(site):
    bed = site.bed
    bed.by_hand(bed.nodes[:3])
    before = bed.starts()
    site.inventory({"rack1": bed.nodes})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert run.codes() == {"loaded_differs"}
    clocks = bed.clocks()
    assert all(clocks[name].invocation_id != before[name] for name in clocks)
    assert beds.all_together(clocks.values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert all(node.nodes() == addresses(bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}


def test_stopped_member_with_the_right_map_joins_and_nobody_else_restarts(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    bed.by_hand(bed.nodes)
    bed["node4"].stop()
    before, files = bed.starts(), bed.snapshots(bed.nodes[:3])
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "join"
    assert set(run.changed) == {"node4"}
    after = bed.starts()
    assert [name for name in after if after[name] != before[name]] == ["node4"]
    assert bed.snapshots(bed.nodes[:3]) == files
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_order_alone_restarts_all_members_together(site):
    bed = site.bed
    one, two, three, four = bed.nodes
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": [four, two, one, three]}, imex_order="given")
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert beds.all_together(bed.clocks().values())
    assert all(node.nodes() == addresses([four, two, one, three]) for node in bed.nodes)
    ids = {entry["host"]: int(number) for number, entry in one.listing()["nodes"].items()}
    assert ids == {four.address: 0, two.address: 1, one.address: 2, three.address: 3}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}


def test_local_key_restarts_one_member_after_the_other(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    before = bed.starts()
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "LOG_LEVEL": 3})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "local"
    assert run.codes() == {"local_config"}
    clocks = bed.clocks()
    assert all(clocks[name].invocation_id != before[name] for name in clocks)
    assert beds.one_at_a_time(clocks.values())
    assert all(node.config()["LOG_LEVEL"] == "3" for node in bed.nodes)
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}


def test_local_key_stops_at_the_first_member_that_does_not_come_back(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    before = bed.starts()
    bed["node2"].fail_when("^LOG_LEVEL=3", exit_at_start={"code": 1, "text": "no such level here"})
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "LOG_LEVEL": 3}, imex_wait_timeout=8)
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "local"
    assert "node2" in run.message("node2")
    assert "no such level here" in run.message("node2")
    after = bed.starts()
    assert after["node3"] == before["node3"]
    assert after["node4"] == before["node4"]
    assert {node.config()["LOG_LEVEL"] for node in bed.nodes} == {"4"}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_domain_key_restarts_all_members_together(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    before = bed["node1"].read(beds.CONFIG)
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert run.codes() == {"config_changed"}
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    # Every other byte of the file is as it was.
    expected = before.replace("\nSERVER_PORT=50000\n", "\nSERVER_PORT=31000\n")
    assert {node.read(beds.CONFIG) for node in bed.nodes} == {expected}
    assert bed["node1"].run("ss", "-Hltn", f"src {bed['node1'].address}:31000")
    assert site.rollout().changed == {}


def test_right_files_and_no_daemon_at_all_starts_every_member(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed.each(lambda node: node.stop())
    files = {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes}
    site.inventory({"rack1": bed.nodes})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert run.codes() == {"all_stopped"}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes} == files


def test_daemons_with_an_older_map_than_their_files_restart_together(site):
    bed = site.bed
    bed.by_hand(bed.nodes[:3])
    right = "".join(f"{address}\n" for address in addresses(bed.nodes))
    bed.each(lambda node: node.write(beds.NODES, right))
    before = bed.starts()
    site.inventory({"rack1": bed.nodes})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert run.codes() == {"loaded_differs"}
    clocks = bed.clocks()
    assert all(clocks[name].invocation_id != before[name] for name in clocks)
    assert beds.all_together(clocks.values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert {node.read(beds.NODES) for node in bed.nodes} == {right}
    assert site.rollout().changed == {}


def test_node_map_mismatch_restarts_the_whole_domain_though_every_file_is_right(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    bed.by_hand(bed.nodes)
    right = bed["node1"].read(beds.NODES)
    odd = bed["node4"]
    odd.stop()
    odd.write(beds.NODES, "".join(f"{node.address}\n" for node in reversed(bed.nodes)))
    odd.start()
    odd.wait_row(lambda row: row[bed["node1"].address] == "NODE_MAP_MISMATCH")
    # Now the file is right again and the daemon is restarted: the others block it all the same, for good.
    odd.stop()
    odd.write(beds.NODES, right)
    odd.start()
    bed["node1"].wait_row(lambda row: row[odd.address] == "NODE_MAP_MISMATCH")
    odd.wait_row(lambda row: row[bed["node1"].address] == "NODE_MAP_MISMATCH")
    before = bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert "node_map_mismatch" in run.codes()
    clocks = bed.clocks()
    assert all(clocks[name].invocation_id != before[name] for name in clocks)
    assert beds.all_together(clocks.values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert {node.read(beds.NODES) for node in bed.nodes} == {right}
    assert site.rollout().changed == {}


def test_members_with_gpu_processes_are_not_restarted_unless_allowed(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].simulate(gpu_processes=[{"pid": 4711, "process_name": "python3"}])
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000})
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "refused"
    assert run.codes() == {"active"}
    assert "node2" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before
    allowed = site.rollout("-e", json.dumps({"imex_allow_active_jobs": True}))
    assert allowed.rc == 0
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_the_same_with_one_fork_and_with_eight_and_with_privilege_escalation(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_become=True)
    first = site.rollout(ANSIBLE_FORKS="1")
    assert first.rc == 0
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_become=True, imex_config={"IMEX_CMD_ENABLED": 1, "IMEX_CMD_PORT": 31005})
    second = site.rollout(ANSIBLE_FORKS="8")
    assert second.rc == 0
    assert second.decided() == "coordinated"
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout(ANSIBLE_FORKS="1").changed == {}
