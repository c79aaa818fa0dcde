# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people look at: the status playbook, and one line a host ad hoc."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def ad_hoc(site):
    """Run imex_status ad hoc with the collection's callback; lines by host, and the exit status."""

    def run(*words):
        command = ("ansible", "-i", str(site.path), "all", "-m", "hpc.fabric.imex_status", *words)
        environment = {"ANSIBLE_STDOUT_CALLBACK": "hpc.fabric.one_line", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"}
        ended = site.ansible.run(*command, **environment)
        print(ended.stdout)
        lines = [line for line in ended.stdout.splitlines() if line.strip()]
        return {line.split()[0].rstrip(":"): line for line in lines}, ended.returncode, lines

    return run


def test_one_line_a_host(site, ad_hoc):
    bed = site.bed
    bed.by_hand(bed.nodes[:3])
    bed["node3"].fault(cmd_port_closed=True)
    site.inventory({"rack1": bed.nodes})
    by_host, rc, lines = ad_hoc()
    assert rc == 0
    assert len(lines) == 4
    assert set(by_host) == {"node1", "node2", "node3", "node4"}
    assert "degraded" in by_host["node1"]
    assert "not_queryable" in by_host["node3"]
    assert "idle" in by_host["node4"]


def test_host_that_is_off_has_its_line_too(site, ad_hoc):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node4"].power_off()
    site.inventory({"rack1": bed.nodes})
    by_host, rc, lines = ad_hoc()
    assert rc != 0
    assert len(lines) == 4
    assert "unreachable" in by_host["node4"].lower()
    assert "degraded" in by_host["node1"]


def test_required_state_that_is_not_reached_fails_with_its_reason(site, ad_hoc):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].stop()
    site.inventory({"rack1": bed.nodes})
    by_host, rc, lines = ad_hoc("-a", "require=ready")
    assert rc != 0
    assert len(lines) == 4
    assert "down" in by_host["node2"]


def test_status_playbook_shows_every_host_and_writes_json(site, tmp_path):
    bed = site.bed
    bed.by_hand(bed.nodes)
    bed["node2"].stop()
    site.inventory({"rack1": bed.nodes})
    before = bed.snapshots(), bed.starts()
    out = tmp_path / "status.json"
    run = site.playbook("status", "-e", f"imex_status_json={out}")
    assert run.rc == 0
    assert all(node.name in run.output for node in bed.nodes)
    domains = json.loads(out.read_text(encoding="utf-8"))
    assert "rack1" in json.dumps(domains)
    assert (bed.snapshots(), bed.starts()) == before
