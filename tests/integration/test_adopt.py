# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters that were set up by hand are taken over without a restart."""

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds

EXTRA = """
# --- site, do not touch ---
MY_SITE_KEY=yes
IMEX_CONN_WAIT_TIMEOUT=5
#SERVER_PORT=1
"""


@pytest.fixture
def by_hand(site):
    """Four members: a commented list in an order of its own, and a config.cfg with more than the shipped keys."""
    bed = site.bed
    one, two, three, four = bed.nodes
    lines = [
        f"# rack 1, by hand\n\n{three.address}  \n{one.address}\n",
        f"# the two of the upper half\n{four.address}\n",
    ]
    text = "".join(lines) + two.address  # no final newline
    bed.each(lambda node: node.write(beds.CONFIG, node.read(beds.CONFIG).replace("LOG_LEVEL=4", "LOG_LEVEL=3") + EXTRA))
    bed.by_hand(bed.nodes, text)
    return text


def test_nothing_at_all_changes_where_unit_and_keys_are_as_planned(site, by_hand):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert run.changed == {}
    assert run.decided() == "untouched"
    assert (bed.snapshots(), bed.starts()) == before


def test_the_drop_in_is_added_without_a_restart(site, by_hand):
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    starts = bed.starts()
    files = {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes}
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "adopt"
    assert bed.starts() == starts
    assert all(node.exists(beds.DROPIN) for node in bed.nodes)
    assert {node.name: (node.read(beds.NODES), node.read(beds.CONFIG)) for node in bed.nodes} == files
    second = site.rollout()
    assert second.changed == {}
    assert second.decided() == "untouched"
    assert bed.starts() == starts


def test_owner_and_mode_are_set_without_a_restart(site, by_hand):
    bed = site.bed
    odd = bed["node2"]
    odd.run("chmod", "0600", beds.NODES)
    odd.run("chown", "daemon:daemon", beds.CONFIG)
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    starts = bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "adopt"
    assert set(run.changed) == {"node2"}
    assert odd.run("stat", "-c", "%a %U:%G", beds.NODES, beds.CONFIG).split("\n")[:2] == ["644 root:root"] * 2
    assert bed.starts() == starts
    assert site.rollout().changed == {}


@pytest.mark.parametrize("started_by", ["rollout", "hand"])
def test_half_written_files_beside_right_daemons_are_mended_without_a_restart(site, started_by):
    """What a full disk or a killed editor leaves: the daemons hold the plan, the files of one host are torn.

    Without a record of the start, what its peers show is the evidence: the torn list lacks the host's own address.
    """
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    if started_by == "hand":
        bed.by_hand(bed.nodes)
    else:
        assert site.rollout().rc == 0
    torn = bed["node3"]
    right = torn.read(beds.NODES)
    torn.write(beds.NODES, right[: len(right) // 2 - 3])
    torn.write("/etc/nvidia-imex/.nodes_config.cfg.abc", "10.77")
    starts = bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "adopt"
    assert torn.read(beds.NODES) == right
    assert bed.starts() == starts
    assert site.rollout().changed == {}


def test_a_member_that_was_never_enabled_is_enabled_without_a_restart(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes}, imex_unit_dropin=False)
    bed.by_hand(bed.nodes)
    bed["node1"].systemctl("-q", "disable", beds.UNIT)
    starts = bed.starts()
    run = site.rollout()
    assert run.rc == 0
    assert set(run.changed) == {"node1"}
    assert bed["node1"].clock().unit_file_state == "enabled"
    assert bed.starts() == starts


def test_command_service_that_is_off_is_switched_on(site):
    """Nobody can be asked before, and that is what the plan changes: the change itself is the remedy."""
    bed = site.bed
    right = "".join(f"{node.address}\n" for node in bed.nodes)

    def silent(node):
        node.write(beds.NODES, right)
        node.run("sed", "-i", "s/^IMEX_CMD_ENABLED=.*/IMEX_CMD_ENABLED=0/", beds.CONFIG)
        node.run("systemctl", "enable", "--now", beds.UNIT)

    bed.each(silent)
    site.inventory({"rack1": bed.nodes})
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == "coordinated"
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert site.rollout().changed == {}
