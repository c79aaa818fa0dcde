# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The IMEX channel devices of a host, which jobs need and the daemon does not (reference 1.11; cases P1 to P4)."""

from __future__ import annotations

import os
import re
import stat
import typing as t

from ..errors import FileError
from ..files import read_text

DRIVER = "nvidia-caps-imex-channels"
SLURM_CONF = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
SWITCH = re.compile(r"^\s*SwitchType\s*=\s*switch/nvidia_imex\s*(?:#.*)?$", re.IGNORECASE | re.MULTILINE)
CHANNEL = re.compile(r"^channel(\d+)$")


class Device(t.NamedTuple):
    """One file of the channel folder; usable: a character device of the driver whose minor is its number."""

    channel: int
    path: str
    mode: str
    usable: bool


class Channels(t.NamedTuple):
    """driver_major: None where the driver has no channels. count_limit: None where it does not say.

    manager: who makes the devices: switch_plugin (Slurm's switch/nvidia_imex), driver (NVreg_CreateImexChannel0),
    manual, or none (there are none).
    """

    driver_major: int | None
    count_limit: int | None
    devices: tuple[Device, ...]
    manager: str


def read(proc_root: str = "/proc", device_root: str = "/dev", slurm_conf: t.Sequence[str] = SLURM_CONF) -> Channels:
    """Look at the driver's registration, its parameters, the device folder and slurm.conf; starts no program."""
    major = parse_major(_text(os.path.join(proc_root, "devices")))
    parameters = parse_parameters(_text(os.path.join(proc_root, "driver/nvidia/params")))
    devices = tuple(_devices(os.path.join(device_root, DRIVER), major))
    manager = "manual" if devices else "none"
    if parameters.get("CreateImexChannel0") == "1":
        manager = "driver"
    if any(SWITCH.search(_text(path)) for path in slurm_conf):
        manager = "switch_plugin"
    limit = parameters.get("ImexChannelCount", "")
    return Channels(major, int(limit) if limit.isdigit() else None, devices, manager)


def parse_major(text: str) -> int | None:
    """The major number of the channels in /proc/devices."""
    words = next((line.split() for line in text.splitlines() if line.split()[1:] == [DRIVER]), [])
    return int(words[0]) if words and words[0].isdigit() else None


def parse_parameters(text: str) -> dict[str, str]:
    """Key and value of /proc/driver/nvidia/params ("ImexChannelCount: 2048")."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _devices(folder: str, major: int | None) -> t.Iterator[Device]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    numbers = sorted(int(match[1]) for match in map(CHANNEL.match, names) if match)
    for number in numbers:
        path = os.path.join(folder, f"channel{number}")
        try:
            found = os.stat(path)
        except OSError:
            continue
        usable = stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) == major and os.minor(found.st_rdev) == number
        yield Device(number, path, f"{stat.S_IMODE(found.st_mode):04o}", usable)


def _text(path: str) -> str:
    try:
        return read_text(path) or ""
    except FileError:
        return ""
