# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode tells what would be done, on whatever it meets, and does nothing."""

from __future__ import annotations

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds


def test_on_clean_hosts_what_is_predicted_is_what_is_done(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    before = bed.snapshots(), bed.starts()
    predicted = site.check()
    assert predicted.rc == 0
    assert (bed.snapshots(), bed.starts()) == before
    assert predicted.domain()["outcome"] == "would_change"
    assert set(predicted.changed) == {node.name for node in bed.nodes}
    for node in bed.nodes:  # the diff shows the list that will be written
        assert f"+{node.address}" in predicted.output
    done = site.rollout("--diff")
    assert done.rc == 0
    assert sorted(predicted.changes) == sorted(done.changes)
    again = site.check()
    assert again.rc == 0
    assert again.changed == {}


@pytest.mark.parametrize("change", ["SERVER_PORT", "LOG_LEVEL"])
def test_on_a_running_domain_what_is_predicted_is_what_is_done(site, change):
    bed = site.bed
    bed.by_hand(bed.nodes)
    value = {"SERVER_PORT": 31000, "LOG_LEVEL": 3}[change]
    site.inventory({"rack1": bed.nodes}, imex_config={"IMEX_CMD_ENABLED": 1, change: value})
    before = bed.snapshots(), bed.starts()
    predicted = site.check()
    assert predicted.rc == 0
    assert (bed.snapshots(), bed.starts()) == before
    assert f"+{change}={value}" in predicted.output
    done = site.rollout()
    assert done.rc == 0
    assert predicted.decided() == done.decided()
    assert sorted(predicted.changes) == sorted(done.changes)


def test_host_without_the_package_is_no_error(site):
    bed = site.bed
    bare = bed["node3"]
    bare.shell(
        "rm -r /etc/nvidia-imex /usr/bin/nvidia-imex /usr/bin/nvidia-imex-ctl;"
        " rm /usr/lib/systemd/system/nvidia-imex.service; systemctl daemon-reload"
    )
    site.inventory({"rack1": bed.nodes})
    before = bed.snapshots()
    run = site.check()
    assert run.rc == 0
    assert run.failed == set()
    assert "node3" in run.changed
    assert bed.snapshots() == before


def test_host_with_another_domains_file_is_predicted_and_done(site):
    bed = site.bed
    moved = bed["node4"]
    moved.write(beds.NODES, f"10.77.0.99\n{moved.address}\n")
    site.inventory({"rack1": bed.nodes})
    before = bed.snapshots()
    predicted = site.check()
    assert predicted.rc == 0
    assert "-10.77.0.99" in predicted.output
    assert bed.snapshots() == before
    assert site.rollout().rc == 0
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    # Its order is kept as far as it goes: no daemon ran that had another one.
    assert moved.nodes() == [moved.address, *(node.address for node in bed.nodes[:3])]
    assert {node.read(beds.NODES) for node in bed.nodes} == {moved.read(beds.NODES)}


def test_refusal_is_predicted_too(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].stop()
    bed["node2"].systemctl("-q", "mask", beds.UNIT)
    site.inventory({"rack1": bed.nodes})
    run = site.check()
    assert run.rc != 0
    assert run.codes() == {"unit_masked"}
