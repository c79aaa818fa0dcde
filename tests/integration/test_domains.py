# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several domains in one play: one's trouble is its own, and hosts may go from one to the other."""

from __future__ import annotations

import json

from ansible_collections.hpc.fabric.tests.integration import bed as beds


def halves(bed):
    return list(bed.nodes[:2]), list(bed.nodes[2:])


def test_one_broken_domain_does_not_stop_the_other(site):
    bed = site.bed
    upper, lower = halves(bed)
    bed["node3"].fault(exit_at_start={"code": 3, "text": "Cannot talk to the driver today"})
    site.inventory({"rack1": upper, "rack2": lower}, imex_wait_timeout=6)
    run = site.rollout()
    assert run.rc != 0
    assert run.failed == {"node3", "node4"}
    assert run.domain("rack1")["outcome"] == "changed"
    assert run.domain("rack1")["ok"]
    assert not run.domain("rack2")["ok"]
    assert all(bed.is_up(node, upper) for node in upper)
    assert not any(node.exists(beds.NODES) for node in lower)
    bed["node3"].fault()
    starts = bed.starts(upper)
    again = site.rollout()
    assert again.rc == 0
    assert again.decided("rack1") == "untouched"
    assert bed.starts(upper) == starts
    assert all(bed.is_up(node, lower) for node in lower)


def test_each_domain_gets_the_decision_that_it_needs(site):
    bed = site.bed
    upper, lower = halves(bed)
    bed.by_hand(upper)
    bed.by_hand(lower)
    bed["node2"].stop()
    site.inventory(
        {"rack1": upper, "rack2": lower},
        {node.name: {"imex_config": {"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000}} for node in lower},
    )
    starts = bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert run.decided("rack1") == "join"
    assert run.decided("rack2") == "coordinated"
    assert bed.starts()["node1"] == starts["node1"]
    assert all(bed.is_up(node, upper) for node in upper)
    assert all(bed.is_up(node, lower) for node in lower)


def test_domains_that_exchange_a_host_change_together(site):
    bed = site.bed
    upper, lower = halves(bed)
    bed.by_hand(upper)
    bed.by_hand(lower)
    one, two, three, four = bed.nodes
    site.inventory({"rack1": [one, three], "rack2": [two, four]})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided("rack1") == run.decided("rack2") == "coordinated"
    assert set(run.decision["domains"]["rack1"]["unit"]) == {"rack1", "rack2"}
    # Both together: a host that still held its old map would be met by the other domain's new one.
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, [one, three]) for node in (one, three))
    assert all(bed.is_up(node, [two, four]) for node in (two, four))
    assert site.rollout().changed == {}


def test_domains_that_exchange_a_host_change_both_or_not_at_all(site):
    bed = site.bed
    upper, lower = halves(bed)
    bed.by_hand(upper)
    bed.by_hand(lower)
    one, two, three, four = bed.nodes
    four.systemctl("-q", "mask", beds.UNIT)
    site.inventory({"rack1": [one, three], "rack2": [two, four]})
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided("rack1") == run.decided("rack2") == "refused"
    assert run.codes("rack2") == {"unit_masked"}
    assert "rack2" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before


def test_a_removed_host_is_stopped_and_emptied_and_the_others_go_on_without_it(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, {"node4": {"imex_member_state": "absent"}})
    run = site.rollout()
    assert run.rc == 0
    gone = bed["node4"]
    assert gone.nodes() == []
    assert gone.clock().active_state == "inactive"
    assert gone.clock().unit_file_state == "disabled"
    rest = bed.nodes[:3]
    assert all(node.nodes() == [peer.address for peer in rest] for node in rest)
    assert all(bed.is_up(node, rest) for node in rest)
    assert beds.all_together(bed.clocks(rest).values())
    assert gone.clock().stopped_at < min(clock.starting_at for clock in bed.clocks(rest).values())
    assert site.rollout().changed == {}


def test_more_removed_members_than_allowed_are_refused(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    leaving = {name: {"imex_member_state": "absent"} for name in ("node3", "node4")}
    site.inventory({"rack1": bed.nodes}, leaving)
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.codes() == {"too_many_removed"}
    assert "imex_max_removed" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before
    assert site.rollout("-e", json.dumps({"imex_max_removed": 2})).rc == 0
    assert all(bed.is_up(node, bed.nodes[:2]) for node in bed.nodes[:2])


def test_limit_lets_a_stopped_member_join(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].stop()
    site.inventory({"rack1": bed.nodes})
    before = bed.starts(), bed.snapshots([bed["node1"], bed["node3"], bed["node4"]])
    run = site.rollout("--limit", "node2")
    assert run.rc == 0
    assert run.decided() == "join"
    starts = bed.starts()
    assert [name for name in starts if starts[name] != before[0][name]] == ["node2"]
    assert bed.snapshots([bed["node1"], bed["node3"], bed["node4"]]) == before[1]
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_limit_lets_a_stopped_member_join_beside_a_running_one(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].stop()
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    before = bed.starts()
    run = site.rollout("--limit", "node1,node2")
    assert run.rc == 0
    assert run.decided() == "join"
    starts = bed.starts()
    assert [name for name in starts if starts[name] != before[name]] == ["node2"]
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_limit_that_cuts_a_domain_which_must_restart_is_refused(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000})
    before = bed.snapshots(), bed.starts()
    run = site.rollout("--limit", "node1")
    assert run.rc != 0
    assert run.codes() == {"cut"}
    assert "--limit" in run.message("node1")
    assert "node3" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before


def test_serial_that_cuts_a_domain_is_refused(site, tmp_path):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000})
    playbook = tmp_path / "serial.yml"
    play = {
        "name": "In batches",
        "hosts": "all",
        "serial": 2,
        "gather_facts": False,
        "roles": ["hpc.fabric.imex"],
    }
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    before = bed.snapshots(), bed.starts()
    run = site.ansible.playbook(site.path, str(playbook))
    assert run.rc != 0
    assert run.codes() == {"cut"}
    assert (bed.snapshots(), bed.starts()) == before


def test_serial_that_holds_whole_domains_is_fine(site, tmp_path):
    bed = site.bed
    upper, lower = halves(bed)
    site.inventory({"rack1": upper, "rack2": lower})
    playbook = tmp_path / "serial.yml"
    play = {"name": "In batches", "hosts": "all", "serial": 2, "gather_facts": False, "roles": ["hpc.fabric.imex"]}
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    run = site.ansible.playbook(site.path, str(playbook))
    assert run.rc == 0
    assert all(bed.is_up(node, upper) for node in upper)
    assert all(bed.is_up(node, lower) for node in lower)
