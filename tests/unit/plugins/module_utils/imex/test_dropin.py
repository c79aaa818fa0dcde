# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpc.fabric.plugins.module_utils.imex import dropin


def test_path() -> None:
    wanted = "/etc/systemd/system/nvidia-imex.service.d/50-hpc-fabric.conf"
    assert dropin.path("/etc/systemd/system", "nvidia-imex") == wanted
    assert dropin.path("/etc/systemd/system", "nvidia-imex.service") == wanted


def test_text() -> None:
    lines = dropin.text(90, "/dev/nvidiactl", "/etc/nvidia-imex/nodes_config.cfg").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "[Unit]",
        "ConditionPathExists=/dev/nvidiactl",
        "ConditionFileNotEmpty=/etc/nvidia-imex/nodes_config.cfg",
        "[Service]",
        "TimeoutStartSec=90",
    ]
    assert lines[0].startswith("# Written by")


def test_text_without_a_driver() -> None:
    text = dropin.text(1.5, "", "/n")
    assert "ConditionPathExists" not in text
    assert text.endswith("\nTimeoutStartSec=1.5\n")
