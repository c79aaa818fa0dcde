# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many nodes in one process."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest


@pytest.fixture
def cluster(tmp_path, helpers):
    """cluster(**spec): a running cluster, ended after the test."""
    running = []

    class Running:
        def __init__(self, spec):
            self.root = tmp_path / "cluster"
            (tmp_path / "spec.json").write_text(json.dumps({"root": str(self.root), **spec}))
            self.process = subprocess.Popen(
                helpers.command("imex-simulator", "cluster", "--spec", tmp_path / "spec.json"),
                stdout=subprocess.PIPE,
                text=True,
            )
            running.append(self)
            self.line = self.process.stdout.readline()

        def domain(self, name):
            done = helpers.run("nvidia-imex-ctl", "-c", self.root / name / "config.cfg", "-N", "-j")
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        def systemctl(self, name, *arguments):
            environment = {"SYSTEMCTL_ROOT": str(self.root / name / "units")}
            return helpers.run("systemctl", *arguments, "nvidia-imex", env=environment)

        def show(self, name):
            text = self.systemctl(name, "show").stdout
            return dict(line.split("=", 1) for line in text.splitlines())

        def end(self):
            self.process.terminate()
            status = self.process.wait(timeout=20)
            self.process.stdout.close()
            return status

    network = f"127.{210 + os.getpid() % 40}"
    yield lambda **spec: Running({"server_port": 31000, "cmd_port": 31005, "network": network, **spec})
    for one in running:
        if one.process.poll() is None:
            one.end()


def test_seventy_two_nodes(cluster):
    made = cluster(domains=4)
    assert re.match(r"READY nodes=72 active=72 domains=4 links=1296 ", made.line)
    answer = made.domain("d03n17")
    assert answer["status"] == "UP"
    assert len(answer["nodes"]) == 18
    shown = made.show("d02n05")
    assert shown["ActiveState"] == "active"
    assert int(shown["MainPID"]) == made.process.pid
    assert made.end() == 0
    assert made.show("d02n05")["ActiveState"] == "inactive"


def test_units_of_the_cluster_can_be_driven(cluster, helpers):
    made = cluster(nodes_per_domain=3)
    before = made.show("d00n01")["InvocationID"]
    assert made.systemctl("d00n01", "stop").returncode == 0
    assert made.domain("d00n00")["nodes"]["1"]["status"] == "UNAVAILABLE"
    assert made.systemctl("d00n01", "start").returncode == 0
    assert made.show("d00n01")["InvocationID"] not in ("", before)
    helpers.wait_for(lambda: made.domain("d00n00")["status"] == "UP", "UP")
    made.systemctl("d00n01", "kill", "--signal=KILL")
    assert made.show("d00n01")["Result"] == "signal"
    # a map that is only on one node: refused by the others, like any daemon
    nodes = made.root / "d00n01" / "nodes_config.cfg"
    nodes.write_text("".join(f"{line}\n" for line in nodes.read_text().split()[::-1]))
    assert made.systemctl("d00n01", "start").returncode == 0
    helpers.wait_for(
        lambda: made.domain("d00n00")["nodes"]["0"]["connections"]["1"]["status"] == "NODE_MAP_MISMATCH", "mismatch"
    )


def test_a_start_counts_before_it_is_done(cluster):
    made = cluster(nodes_per_domain=2, start=False)
    assert made.show("d00n00")["ConditionResult"] == "no"
    assert made.systemctl("d00n00", "start", "--no-block").returncode == 0
    shown = made.show("d00n00")
    assert shown["ActiveState"] in ("activating", "active")
    assert shown["ConditionResult"] == "yes"
    assert shown["InvocationID"] != ""


def test_a_node_that_cannot_start_is_a_failed_unit(cluster, helpers):
    made = cluster(nodes_per_domain=2, start=False)
    (made.root / "d00n01" / "nodes_config.cfg").write_text("127.9.9.9\n")
    assert made.systemctl("d00n01", "start").returncode == 1
    assert made.show("d00n01")["ExecMainStatus"] == "1"
    assert made.systemctl("d00n00", "start").returncode == 0


def test_faults_of_one_node(cluster, helpers):
    made = cluster(nodes_per_domain=2)
    helpers.run("imex-simulator", "fault", "--settings", made.root / "d00n01" / "imex-simulator.json", "crash_after=0")
    helpers.wait_for(lambda: made.show("d00n01")["ActiveState"] == "failed", "crash")
    assert made.show("d00n00")["ActiveState"] == "active"
    connections = made.domain("d00n00")["nodes"]["0"]["connections"]
    assert connections["1"]["status"] == "RECOVERING"


def test_a_wrong_spec_is_said(tmp_path, helpers):
    (tmp_path / "spec.json").write_text('{"root": "/nonexistent", "racks": 3}')
    done = helpers.run("imex-simulator", "cluster", "--spec", tmp_path / "spec.json")
    assert done.returncode == 1
    assert "unknown key racks" in done.stderr
