# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated daemon under a real systemd, on four hosts that see each other. Run once for each host."""

from __future__ import annotations

import json
import os
import time

HOSTS = 18 if os.environ.get("TESTBED_INVENTORY") == "inventory-rack" else 4
ADDRESSES = {f"node{number}": f"10.77.0.{10 + number}" for number in range(1, HOSTS + 1)}


def domain(host):
    """The answer of the host's own control tool, asked again until the daemons have met (at most a minute)."""
    deadline = time.monotonic() + 60
    while True:
        done = host.run("nvidia-imex-ctl -N -j")
        if done.rc == 0 and (json.loads(done.stdout)["status"] == "UP" or time.monotonic() > deadline):
            return json.loads(done.stdout)
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.5)


def test_host_runs_its_own_systemd(host):
    assert host.run("systemctl is-system-running").stdout.strip() == "running"
    assert host.file("/proc/1/comm").content_string.strip() == "systemd"


def test_unit_runs_and_is_enabled(host):
    assert host.service("nvidia-imex").is_running
    assert host.service("nvidia-imex").is_enabled


def test_daemon_listens_on_its_own_address(host):
    own = ADDRESSES[host.check_output("hostname")]
    assert host.socket(f"tcp://{own}:50000").is_listening


def test_every_host_has_the_same_node_list(host):
    assert host.file("/etc/nvidia-imex/nodes_config.cfg").content_string.split() == list(ADDRESSES.values())


def test_domain_is_up(host):
    answer = domain(host)
    assert answer["status"] == "UP"
    assert len(answer["nodes"]) == len(ADDRESSES)


def test_every_host_reaches_every_other(host):
    for address in ADDRESSES.values():
        assert host.run("nc -z -w 2 %s 50000", address).rc == 0, address
