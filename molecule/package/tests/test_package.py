# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After the package was raised. Run once for each host."""

from __future__ import annotations

import json


def test_package_is_the_new_one_and_held(host):
    assert host.package("nvidia-imex-570").version == "570.172.08-1"
    assert host.check_output("apt-mark showhold") == "nvidia-imex-570"


def test_all_daemons_run_the_new_version(host):
    answer = json.loads(host.check_output("nvidia-imex-ctl -N -j"))
    assert answer["status"] == "UP"
    assert {node["version"] for node in answer["nodes"].values()} == {"570.172.08"}
    assert len(answer["nodes"]) == 2


def test_nothing_but_the_rollout_started_the_daemon(host):
    # The package's own script starts the unit wherever it may; then there would be two more starts.
    log = host.check_output("journalctl --no-pager -o cat -u nvidia-imex.service")
    assert log.count("Started nvidia-imex.service") == 2
