# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts and inventories that are not as they should be: the error names host, finding, expectation and remedy, and nothing
is lost."""

from __future__ import annotations

import json

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds

PORT = {"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 31000}


def refused(site, code, *words):
    """Roll out; it must be refused for that reason (None: any), say these words, and have written nothing anywhere."""
    bed = site.bed
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "refused"
    assert code is None or code in run.codes()
    message = run.message("node1")
    for word in words:
        assert word in message
    assert (bed.snapshots(), bed.starts()) == before
    return run


def test_unit_masked_by_somebody_else(site):
    bed = site.bed
    bed.by_hand(bed.nodes[:3])
    bed["node4"].systemctl("-q", "mask", beds.UNIT)
    site.inventory({"rack1": bed.nodes})
    refused(site, "unit_masked", "node4", "masked", "systemctl unmask")


def test_unit_missing(site):
    bed = site.bed
    bed["node2"].shell("rm /usr/lib/systemd/system/nvidia-imex.service; systemctl daemon-reload")
    site.inventory({"rack1": bed.nodes})
    refused(site, "unit_not_found", "node2", "nvidia-imex.service", "imex_package")


def test_unit_in_a_restart_loop_fails_alone_and_joins_once_mended(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    sick = bed["node2"]
    sick.stop()
    sick.fault(exit_at_start={"code": 1, "text": "No device of mine is here"})
    sick.start()
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False, imex_wait_timeout=12)
    others = [node for node in bed.nodes if node is not sick]
    starts = bed.starts(others)
    run = site.rollout()
    assert run.rc != 0
    assert run.decided() == "join"
    assert "node2" in run.message("node2")
    assert "No device of mine is here" in run.message("node2")
    assert bed.starts(others) == starts
    assert sick.nodes() == [node.address for node in bed.nodes]
    sick.fault()
    again = site.rollout()
    assert again.rc == 0
    assert bed.starts(others) == starts
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)


CONTROL_FAULTS = {
    "hangs": ({"ctl_hang": True}, "killed"),
    "answers rubbish": ({"ctl_rubbish": True}, "garbage"),
    "answers half": ({"ctl_truncated": True}, '"nodes"'),
    "exits 255": (
        {"ctl_exit": {"code": 255, "text": "Failed to read node configuration file\n"}},
        "Failed to read node",
    ),
}


@pytest.mark.parametrize("what", CONTROL_FAULTS)
def test_control_tool_that_is_of_no_use_refuses_a_restart(site, what):
    faults, word = CONTROL_FAULTS[what]
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node3"].fault(**faults)
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_control_timeout=5)
    refused(site, None, "node3", word)


def test_control_tool_missing_refuses_a_restart(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node3"].run("rm", "/usr/bin/nvidia-imex-ctl")
    site.inventory({"rack1": bed.nodes}, imex_config=PORT)
    refused(site, None, "node3", "nvidia-imex-ctl", "not found")


def test_control_tool_that_hangs_does_not_disturb_a_domain_that_is_as_planned(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    assert site.rollout().rc == 0
    bed["node3"].fault(ctl_hang=True)
    starts = bed.starts()
    # One of four is not proved: enough for a majority, and not for all.
    site.inventory({"rack1": bed.nodes}, imex_quorum="majority", imex_control_timeout=3)
    run = site.rollout()
    assert run.rc == 0
    assert run.changed == {}
    assert run.decided() == "untouched"
    assert "nvidia-imex-ctl" in run.report["table"]
    site.inventory({"rack1": bed.nodes}, imex_control_timeout=3)
    strict = site.rollout()
    assert strict.rc != 0
    assert strict.changed == {}
    assert "node3" in strict.message("node1")
    assert "nvidia-imex-ctl" in strict.message("node1")
    assert bed.starts() == starts


def full(node):
    """A file system of the node's own for the files, without a byte left."""
    node.shell(
        "cp -a /etc/nvidia-imex /run/kept; mount -t tmpfs -o size=64k,mode=755 tmpfs /etc/nvidia-imex;"
        " cp -a /run/kept/. /etc/nvidia-imex/; rm -r /run/kept;"
        " dd if=/dev/zero of=/etc/nvidia-imex/ballast bs=4k 2>/dev/null || :"
    )
    return "No space left on device"


def read_only(node):
    node.shell("mount --bind /etc/nvidia-imex /etc/nvidia-imex; mount -o remount,bind,ro /etc/nvidia-imex")
    return "Read-only file system"


@pytest.mark.parametrize("disk", [full, read_only])
def test_file_system_that_takes_nothing_puts_the_domain_back(site, disk):
    bed = site.bed
    bed.by_hand(bed.nodes)
    files = {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes}
    words = disk(bed["node3"])
    site.inventory({"rack1": bed.nodes}, imex_config=PORT, imex_wait_timeout=8)
    run = site.rollout()
    assert run.rc != 0
    assert run.failed == {node.name for node in bed.nodes}
    assert "node3" in run.message("node1")
    assert words in run.message("node3")
    assert {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes} == files
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    left = bed["node3"].run("ls", "-A", "/etc/nvidia-imex").split()
    assert sorted(set(left) - {"ballast"}) == ["config.cfg", "nodes_config.cfg"]


@pytest.mark.parametrize("disk", [full, read_only])
def test_file_system_that_takes_nothing_on_a_first_deployment(site, disk):
    bed = site.bed
    words = disk(bed["node3"])
    site.inventory({"rack1": bed.nodes}, imex_wait_timeout=8)
    run = site.rollout()
    assert run.rc != 0
    assert words in run.message("node3")
    for node in bed.nodes:
        assert not node.exists(beds.NODES)
        assert not node.exists(beds.DROPIN)
        assert node.clock().unit_file_state == "disabled"
        assert node.clock().active_state in ("inactive", "failed")


def test_half_written_config_is_refused_by_its_line(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    odd = bed["node2"]
    odd.write(beds.CONFIG, odd.read(beds.CONFIG) + "LOG_LEVEL=2\n")
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "LOG_LEVEL": 3})
    run = refused(site, "facts_unknown", "node2", "LOG_LEVEL", beds.CONFIG)
    assert run.failed == {node.name for node in bed.nodes}


def test_config_missing(site):
    bed = site.bed
    bed["node2"].run("rm", beds.CONFIG)
    site.inventory({"rack1": bed.nodes})
    refused(site, "facts_unknown", "node2", beds.CONFIG, "create_config")


def test_two_domains_that_share_an_address(site):
    bed = site.bed
    one, two, three, four = bed.nodes
    site.inventory({"rack1": [one, two], "rack2": [three, four]}, {"node3": {"imex_address": two.address}})
    before = bed.snapshots()
    run = site.rollout()
    assert run.rc != 0
    assert run.decided("rack1") == run.decided("rack2") == "refused"
    assert "overlap" in run.codes("rack1") & run.codes("rack2")
    for word in (two.address, "node2", "node3", "rack1", "rack2"):
        assert word in run.message("node1")
    assert bed.snapshots() == before


ADDRESSES = {
    "loopback": ("127.0.0.1", "bad_address"),
    "link-local": ("fe80::1", "bad_address"),
    "unspecified": ("0.0.0.0", "bad_address"),
    "placeholder": ("192.0.2.7", "bad_address"),
    "multicast": ("224.0.0.1", "bad_address"),
    "prefix": ("10.77.0.11/24", "bad_address"),
    "name": ("gpu-r1-n02", "bad_address"),
    "nothing": ("", "no_address"),
}


def test_every_bad_address_refuses_its_own_domain_and_is_named(site):
    """Eight domains of one host each, on the same four hosts: nothing is asked of a host whose address is no good."""
    bed = site.bed
    hosts = {}
    for number, (what, (address, _code)) in enumerate(ADDRESSES.items()):
        hosts[f"alias-{what}"] = {
            "ansible_host": bed.nodes[number % 4].address,
            "imex_domain": f"rack-{what}",
            "imex_address": address,
        }
    site.inventory({}, raw=hosts)
    before = bed.snapshots()
    run = site.rollout()
    assert run.rc != 0
    for what, (address, code) in ADDRESSES.items():
        assert run.codes(f"rack-{what}") == {code}
        message = run.message(f"alias-{what}")
        assert f"alias-{what}" in message
        assert address in message
        assert "imex_address" in message or code == "bad_address"
    assert bed.snapshots() == before


def test_mixed_families_and_twice_the_same_address(site):
    bed = site.bed
    one, two, three, four = bed.nodes
    site.inventory(
        {"rack1": [one, two], "rack2": [three, four]},
        {"node2": {"imex_address": "fd00::12"}, "node4": {"imex_address": three.address}},
    )
    run = site.rollout()
    assert run.rc != 0
    assert run.codes("rack1") == {"mixed_families"}
    assert run.codes("rack2") == {"duplicate_address"}
    assert "fd00::12" in run.message("node1") or "node2" in run.message("node1")
    assert three.address in run.message("node3")


def test_address_that_is_not_the_hosts_own(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, {"node2": {"imex_address": "10.77.0.99"}})
    refused(site, "facts_unknown", "node2", "10.77.0.99")


def test_domain_given_for_the_whole_play_is_refused(site):
    site.inventory({"rack1": site.bed.nodes})
    before = site.bed.snapshots()
    run = site.rollout("-e", json.dumps({"imex_domain": "everything"}))
    assert run.rc != 0
    assert "imex_domain" in run.output
    assert "inventory" in run.output
    assert site.bed.snapshots() == before


def test_another_strategy_than_linear_is_refused(site, tmp_path):
    site.inventory({"rack1": site.bed.nodes})
    playbook = tmp_path / "free.yml"
    play = {"hosts": "all", "strategy": "free", "gather_facts": False, "roles": ["hpc.fabric.imex"]}
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    before = site.bed.snapshots()
    run = site.ansible.playbook(site.path, str(playbook))
    assert run.rc != 0
    assert "linear" in run.output
    assert site.bed.snapshots() == before


def test_ports_that_collide_are_refused_before_anything_stops(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, "SERVER_PORT": 50005})
    refused(site, "facts_unknown", "SERVER_PORT", "IMEX_CMD_PORT", "50005")
