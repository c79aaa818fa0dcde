# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After the domain was broken and rolled out again. Run once for each host."""

from __future__ import annotations

import json

ADDRESSES = [f"10.77.0.1{number}" for number in (1, 2, 3, 4)]


def test_unit_runs_and_is_enabled(host):
    assert host.service("nvidia-imex").is_running
    assert host.service("nvidia-imex").is_enabled


def test_every_host_has_the_same_list(host):
    nodes = host.file("/etc/nvidia-imex/nodes_config.cfg")
    assert nodes.content_string.split() == ADDRESSES
    assert (nodes.user, nodes.group, nodes.mode) == ("root", "root", 0o644)


def test_every_host_sees_the_whole_domain(host):
    answer = json.loads(host.check_output("nvidia-imex-ctl -N -j"))
    assert answer["status"] == "UP"
    assert sorted(node["host"] for node in answer["nodes"].values()) == ADDRESSES
    words = {peer["status"] for node in answer["nodes"].values() for peer in node["connections"].values()}
    assert words == {"CONNECTED"}


def test_start_of_the_unit_is_bounded_and_needs_driver_and_list(host):
    shown = host.check_output("systemctl show nvidia-imex -p TimeoutStartUSec -p DropInPaths")
    assert "TimeoutStartUSec=infinity" not in shown
    dropin = host.file("/etc/systemd/system/nvidia-imex.service.d/50-hpc-fabric.conf").content_string
    assert "ConditionPathExists=/dev/nvidiactl" in dropin
    assert "ConditionFileNotEmpty=/etc/nvidia-imex/nodes_config.cfg" in dropin


def test_previous_states_are_kept(host):
    kept = host.run("ls /var/lib/hpc-fabric/imex/generations").stdout.split()
    assert 1 <= len(kept) <= 5


def test_daemon_is_ready(host):
    assert host.run("nvidia-imex-ctl -q").stdout.strip() == "READY"
