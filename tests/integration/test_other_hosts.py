# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that are no ordinary members: other owners of IMEX, the per-job model, maintenance; and the channel device."""

from __future__ import annotations

from ansible_collections.hpc.fabric.tests.integration import bed as beds

MAJOR = 508
CHANNELS = "/dev/nvidia-caps-imex-channels"


def test_kubernetes_takes_a_host_over_and_gives_it_back(site):
    bed = site.bed
    three, guest = bed.nodes[:3], bed["node4"]
    bed.by_hand(three)
    bed.by_hand([guest])
    site.inventory({"rack1": three}, {"node4": {"imex_managed_by": "kubernetes"}})
    starts = bed.starts(three)
    run = site.rollout()
    assert run.rc == 0
    assert guest.clock().active_state == "inactive"
    assert guest.run("systemctl", "is-enabled", beds.UNIT, check=False).strip() == "masked"
    assert guest.nodes() == []
    assert bed.starts(three) == starts
    assert site.rollout().changed == {}

    site.inventory({"rack1": bed.nodes})
    back = site.rollout()
    assert back.rc == 0
    assert guest.clock().unit_file_state == "enabled"
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}


def test_member_that_is_given_to_kubernetes_leaves_its_domain(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, {"node4": {"imex_managed_by": "kubernetes"}})
    run = site.rollout()
    assert run.rc == 0
    rest, guest = bed.nodes[:3], bed["node4"]
    assert guest.run("systemctl", "is-enabled", beds.UNIT, check=False).strip() == "masked"
    assert guest.clock().active_state == "inactive"
    assert all(bed.is_up(node, rest) for node in rest)
    assert site.rollout().changed == {}


def test_job_deployment_configures_and_leaves_the_daemon_to_the_prolog(site):
    bed = site.bed
    site.inventory(
        {},
        {
            node.name: {"imex_deployment": "job", "imex_config": {"IMEX_CMD_ENABLED": 1, "LOG_LEVEL": 3}}
            for node in bed.nodes
        },
    )
    bed.by_hand([bed["node1"]])
    run = site.rollout()
    assert run.rc == 0
    for node in bed.nodes:
        assert node.clock().active_state == "inactive"
        assert node.clock().unit_file_state == "disabled"
        assert node.config()["LOG_LEVEL"] == "3"
    assert bed["node1"].nodes() == []
    assert site.rollout().changed == {}


def test_unmanaged_host_is_left_alone(site):
    bed = site.bed
    bed.by_hand([bed["node4"]])
    site.inventory({"rack1": bed.nodes[:3]}, {"node4": {"imex_deployment": "unmanaged"}})
    before = bed["node4"].snapshot(), bed["node4"].clock()
    run = site.rollout()
    assert run.rc == 0
    assert "node4" not in run.changed
    assert (bed["node4"].snapshot(), bed["node4"].clock()) == before


def test_member_in_maintenance_stays_in_the_map_and_is_neither_asked_nor_counted(site):
    bed = site.bed
    bed["node2"].power_off()
    site.inventory({"rack1": bed.nodes}, {"node2": {"imex_member_state": "maintenance"}})
    run = site.rollout()
    assert run.rc == 0
    assert run.failed == run.unreachable == set()
    asked = [result for result in run.results if result.host == "node2" and result.action.startswith("hpc.fabric.imex")]
    assert {result.status for result in asked} == {"skipped"}
    there = [node for node in bed.nodes if node.name != "node2"]
    assert all(node.nodes() == [peer.address for peer in bed.nodes] for node in there)
    assert all(node.row()[peer.address] == "CONNECTED" for node in there for peer in there)
    assert "maintenance" in run.report["table"]
    assert site.rollout().changed == {}
    # Back from maintenance it joins, and nobody else is restarted.
    bed["node2"].power_on()
    site.inventory({"rack1": bed.nodes})
    starts = bed.starts(there)
    back = site.rollout()
    assert back.rc == 0
    assert back.decided() == "join"
    assert bed.starts(there) == starts
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


def with_channels(node):
    """The driver's registration in /proc/devices."""
    node.shell(
        f"(cat /proc/devices; echo '{MAJOR} nvidia-caps-imex-channels') >/run/devices;"
        " mount --bind /run/devices /proc/devices"
    )


def test_channel0_is_made_now_and_at_every_start_of_the_driver(site):
    bed = site.bed
    bed.each(with_channels)
    site.inventory({"rack1": bed.nodes}, imex_channel0="present")
    predicted = site.check()
    assert predicted.rc == 0
    assert not bed["node1"].exists(f"{CHANNELS}/channel0")
    run = site.rollout()
    assert run.rc == 0
    assert sorted(predicted.changes) == sorted(run.changes)
    for node in bed.nodes:
        assert node.run("stat", "-c", "%F %a %t:%T", f"{CHANNELS}/channel0").strip() == (
            f"character special file 666 {MAJOR:x}:0"
        )
        assert "NVreg_CreateImexChannel0=1" in node.read("/etc/modprobe.d/hpc-fabric-imex.conf")
    assert site.rollout().changed == {}


def test_channel0_is_refused_beside_slurms_switch_plugin(site):
    bed = site.bed
    bed.each(with_channels)
    bed["node2"].shell("mkdir -p /etc/slurm; echo SwitchType=switch/nvidia_imex >/etc/slurm/slurm.conf")
    site.inventory({"rack1": bed.nodes}, imex_channel0="present")
    run = site.rollout()
    assert run.rc != 0
    assert run.failed == {"node2"}
    assert "switch/nvidia_imex" in run.message("node2")
    assert "imex_channel0" in run.message("node2")
    assert not bed["node2"].exists(f"{CHANNELS}/channel0")
    assert not bed["node2"].exists("/etc/modprobe.d/hpc-fabric-imex.conf")
    assert bed["node1"].exists(f"{CHANNELS}/channel0")
