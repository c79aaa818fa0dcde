# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import channels

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "devices"
DEVICES = (FIXTURES / "proc_devices_595_excerpt.txt").read_text(encoding="utf-8")


class Host:
    """A tree with a proc, a dev and a slurm.conf."""

    def __init__(self, root: pathlib.Path) -> None:
        self.proc = root / "proc"
        self.dev = root / "dev"
        self.slurm = root / "slurm.conf"
        (self.proc / "driver" / "nvidia").mkdir(parents=True)
        self.dev.mkdir()

    def write(self, devices: str = DEVICES, params: str = "ImexChannelCount: 2048\nCreateImexChannel0: 0\n") -> None:
        (self.proc / "devices").write_text(devices)
        (self.proc / "driver" / "nvidia" / "params").write_text(params)

    def folder(self) -> pathlib.Path:
        folder = self.dev / "nvidia-caps-imex-channels"
        folder.mkdir(exist_ok=True)
        return folder

    def read(self) -> channels.Channels:
        return channels.read(str(self.proc), str(self.dev), [str(self.slurm)])


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    return Host(tmp_path)


def test_p1_a_driver_with_channels(host: Host) -> None:
    host.write()
    assert host.read() == channels.Channels(236, 2048, (), "none")


def test_p1_a_driver_without_channels(host: Host) -> None:
    host.write("Character devices:\n195 nvidia\n235 nvidia-caps\n", "ImexChannelCount: 0\n")
    assert host.read() == channels.Channels(None, 0, (), "none")


def test_p1_no_driver(tmp_path: pathlib.Path) -> None:
    assert channels.read(str(tmp_path), str(tmp_path), []) == channels.Channels(None, None, (), "none")


def test_p2_an_empty_folder(host: Host) -> None:
    host.write()
    host.folder()
    assert host.read().devices == ()


def test_p2_files_that_are_no_devices(host: Host) -> None:
    host.write()
    for name in ("channel10", "channel2", "channel", "channelx", "other"):
        (host.folder() / name).write_text("")
    found = host.read()
    assert [(device.channel, device.usable) for device in found.devices] == [(2, False), (10, False)]
    assert found.manager == "manual"


def test_p2_channel0(host: Host) -> None:
    host.write()
    try:
        for name, minor in (("channel0", 0), ("channel1", 7)):
            os.mknod(host.folder() / name, stat.S_IFCHR | 0o666, os.makedev(236, minor))
        os.chmod(host.folder() / "channel0", 0o666)
    except PermissionError:
        pytest.skip("making devices needs root")
    first, second = host.read().devices
    assert (first.channel, first.mode, first.usable) == (0, "0666", True)
    assert first.path == str(host.folder() / "channel0")
    assert not second.usable


def test_the_driver_makes_channel0(host: Host) -> None:
    host.write(params="ImexChannelCount: 2048\nCreateImexChannel0: 1\n")
    assert host.read().manager == "driver"


@pytest.mark.parametrize(
    "line, manager",
    [
        ("SwitchType=switch/nvidia_imex", "switch_plugin"),
        ("  switchtype = switch/nvidia_imex  # channels", "switch_plugin"),
        ("#SwitchType=switch/nvidia_imex", "none"),
        ("SwitchType=switch/none", "none"),
        ("SwitchType=switch/nvidia_imexx", "none"),
    ],
)
def test_p4_slurms_switch_plugin(line: str, manager: str, host: Host) -> None:
    host.write()
    host.slurm.write_text(f"ClusterName=x\n{line}\nSwitchParameters=imex_channel_count=2047\n")
    assert host.read().manager == manager
