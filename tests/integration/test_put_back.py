# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change that cannot be proved is taken back on every member; a first deployment that fails leaves nothing behind."""

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds

PORT = {"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000}
# Below the role's wait, so that a hanging start is seen while it hangs.
FAULTS = {
    "never_ready": {"never_ready": True},
    "hang_start": {"hang_start": True},
    "exit_at_start": {"exit_at_start": {"code": 3, "text": "Cannot talk to the driver today"}},
}


def contents(node):
    """Files with owner and mode, without the time of the last write."""
    wanted = (beds.NODES, beds.CONFIG, beds.DROPIN)
    return {path: entry[:4] + entry[5:] for path, entry in node.snapshot().items() if path in wanted}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_member_that_never_gets_ready_puts_the_previous_files_back_everywhere(site, fault):
    bed = site.bed
    bed.by_hand(bed.nodes)
    before = bed.each(contents)
    broken = bed["node3"]
    broken.fail_when("^SERVER_PORT=31000", **FAULTS[fault])
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_wait_timeout=6)
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "coordinated"
    assert run.failed == {node.name for node in bed.nodes}
    assert run.domain()["outcome"] == "put_back"
    assert "node3" in run.message("node1")
    assert "node3" in run.message("node3")
    if fault == "exit_at_start":
        assert "Cannot talk to the driver today" in run.message("node3")
        assert "Cannot talk to the driver today" in run.report["table"]
    assert bed.each(contents) == before
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert {node.clock().unit_file_state for node in bed.nodes} == {"enabled"}
    # Nothing of the attempt is in the way once the reason is gone.
    broken.fail_when("^SERVER_PORT=31000")
    assert site.rollout().rc == 0
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def test_put_back_that_cannot_be_proved_either_says_so(site):
    """The member stays broken, whatever its files say: the others run again with the previous ones."""
    bed = site.bed
    bed.by_hand(bed.nodes)
    before = bed.each(contents)
    bed["node3"].fault(exit_at_start={"code": 3, "text": "Cannot talk to the driver today"})
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_wait_timeout=6)
    run = site.rollout()
    assert run.rc != 0
    assert run.domain()["outcome"] in ("put_back", "failed")
    assert not run.domain()["ok"]
    assert "node3" in run.message("node1")
    assert bed.each(contents) == before
    rest = [node for node in bed.nodes if node.name != "node3"]
    assert all(node.row()[peer.address] == "CONNECTED" for node in rest for peer in rest)


def test_first_deployment_that_fails_leaves_nothing_behind(site):
    bed = site.bed
    before = bed.each(contents)
    bed["node2"].fault(exit_at_start={"code": 3, "text": "Cannot talk to the driver today"})
    site.inventory({"rack1": bed.nodes}, imex_wait_timeout=6)
    run = site.rollout()
    assert run.rc != 0
    assert run.failed == {node.name for node in bed.nodes}
    assert "node2" in run.message("node1")
    assert "Cannot talk to the driver today" in run.message("node2")
    for node in bed.nodes:
        assert not node.exists(beds.NODES)
        assert not node.exists(beds.DROPIN)
        clock = node.clock()
        assert clock.unit_file_state == "disabled"
        assert clock.active_state in ("inactive", "failed")
    assert bed.each(contents) == before


def test_start_that_hangs_is_bounded_and_reported(site):
    bed = site.bed
    bed["node2"].fault(hang_start=True)
    site.inventory({"rack1": bed.nodes}, imex_wait_timeout=6, imex_start_timeout=600, imex_unit_dropin=False)
    # The unit itself would wait for ever: TimeoutStartSec=infinity.
    run = site.rollout(timeout=150)
    assert run.rc != 0
    assert "node2" in run.message("node1")
    assert not bed["node2"].exists(beds.NODES)
    assert bed["node2"].clock().active_state in ("inactive", "failed")
    assert bed["node2"].run("systemctl", "list-jobs", "--no-legend") == ""


def test_without_put_back_the_new_files_stay(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node3"].fail_when("^SERVER_PORT=31000", **FAULTS["exit_at_start"])
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_wait_timeout=6, imex_rollback=False)
    run = site.rollout()
    assert run.rc != 0
    assert run.domain()["outcome"] in ("kept", "failed")
    assert {node.config()["SERVER_PORT"] for node in bed.nodes} == {"31000"}


def test_failing_member_inside_a_met_quorum_keeps_the_change(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node3"].fail_when("^SERVER_PORT=31000", **FAULTS["exit_at_start"])
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_wait_timeout=6, imex_quorum="majority")
    run = site.rollout()
    assert run.domain()["outcome"] == "changed"
    assert "node3" in run.report["table"]
    assert {node.config()["SERVER_PORT"] for node in bed.nodes} == {"31000"}
    rest = [node for node in bed.nodes if node.name != "node3"]
    assert all(node.row()[peer.address] == "CONNECTED" for node in rest for peer in rest)


def test_daemon_that_ignores_a_stop_is_killed_and_that_is_said(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node1"].fault(ignore_sigterm=True)
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_stop_timeout=2)
    run = site.rollout()
    assert run.rc == 0
    stopped = run.of("node1", "Stop the daemon")
    assert stopped is not None
    assert stopped.data["killed"] is True
    assert "killed" in run.output
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
