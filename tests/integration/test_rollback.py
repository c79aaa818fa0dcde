# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Going back: to what a run replaced, or to any of the states that a host has kept."""

from __future__ import annotations

import json

from ansible_collections.hpc.fabric.tests.integration import bed as beds


def config(**keys):
    return {"IMEX_CMD_ENABLED": 1, **keys}


def kept(site, node):
    """What imex_generation lists on a host, the newest first."""
    module = ("ansible", "-i", str(site.path), node.name, "-m", "hpc.fabric.imex_generation", "-o")
    said = site.ansible.run(*module).stdout
    return json.loads(said[said.index("{") :])["generations"]


def test_back_to_previous_and_to_any_generation(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    by_hand = bed["node1"].read(beds.CONFIG)
    site.inventory({"rack1": bed.nodes}, imex_config=config(SERVER_PORT=31000))
    assert site.rollout().rc == 0
    first = bed["node1"].read(beds.CONFIG)
    site.inventory({"rack1": bed.nodes}, imex_config=config(SERVER_PORT=31002))
    assert site.rollout().rc == 0

    back = site.playbook("rollback")
    assert back.rc == 0
    assert {node.read(beds.CONFIG) for node in bed.nodes} == {first}
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)

    oldest = kept(site, bed["node1"])[-1]["label"]
    again = site.playbook("rollback", "-e", f"imex_generation={oldest}")
    assert again.rc == 0
    assert {node.read(beds.CONFIG) for node in bed.nodes} == {by_hand}
    # By hand there was no drop-in.
    assert not any(node.exists(beds.DROPIN) for node in bed.nodes)
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert {node.clock().unit_file_state for node in bed.nodes} == {"enabled"}


def test_an_unknown_generation_is_refused_and_nothing_is_written(site):
    bed = site.bed
    site.inventory({"rack1": bed.nodes})
    assert site.rollout().rc == 0
    before = bed.snapshots(), bed.starts()
    run = site.playbook("rollback", "-e", "imex_generation=no-such-run")
    assert run.rc != 0
    assert "no-such-run" in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before


def test_in_check_mode_nothing_happens(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_config=config(SERVER_PORT=31000))
    assert site.rollout().rc == 0
    before = bed.snapshots(), bed.starts()
    run = site.playbook("rollback", "--check", "--diff")
    assert run.rc == 0
    assert "+SERVER_PORT=50000" in run.output
    assert (bed.snapshots(), bed.starts()) == before


def test_five_generations_are_kept_and_the_newest_five(site):
    bed = site.bed
    one = [bed["node1"]]
    for number in range(7):
        site.inventory({"rack1": one}, imex_config=config(SERVER_PORT=31000 + number))
        assert site.rollout("--limit", "node1").rc == 0
    generations = kept(site, bed["node1"])
    assert len(generations) == 5
    assert len({generation["label"] for generation in generations}) == 5
    run = site.playbook("rollback", "--limit", "node1", "-e", f"imex_generation={generations[-1]['label']}")
    assert run.rc == 0
    # The run that wrote 31002 replaced 31001: five states before 31006 lie 31001 to 31005.
    assert bed["node1"].config()["SERVER_PORT"] == "31001"
    assert bed.is_up(bed["node1"], one)


def test_rollback_that_cannot_be_proved_puts_the_present_state_back(site):
    bed = site.bed
    bed.by_hand(bed.nodes)
    site.inventory({"rack1": bed.nodes}, imex_config=config(SERVER_PORT=31000), imex_wait_timeout=8)
    assert site.rollout().rc == 0
    bed["node2"].fail_when("^SERVER_PORT=50000", exit_at_start={"code": 1, "text": "Not on this port"})
    present = bed["node1"].read(beds.CONFIG)
    run = site.playbook("rollback")
    assert run.rc != 0
    assert "node2" in run.message("node1")
    assert "Not on this port" in run.message("node2")
    assert {node.read(beds.CONFIG) for node in bed.nodes} == {present}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
