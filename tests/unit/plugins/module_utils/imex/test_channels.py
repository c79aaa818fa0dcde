# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import stat
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import channels

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "devices"
CASES = json.loads((FIXTURES / "channels.json").read_text(encoding="utf-8"))


def text_of(text: str) -> str:
    return (FIXTURES / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def make_channel(path: pathlib.Path, number: t.Sequence[int] | None) -> None:
    """A device with this major and minor, a plain file for None."""
    if number is None:
        path.write_text("")
        path.chmod(0o644)
        return
    try:
        os.mknod(path, stat.S_IFCHR, os.makedev(*number))
    except PermissionError:
        pytest.skip("making devices needs root")
    path.chmod(0o666)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_read(case: dict[str, t.Any], tmp_path: pathlib.Path) -> None:
    """A host in a folder: proc, dev and slurm.conf, each with what the case names (null: not there)."""
    proc, dev, slurm = (tmp_path / name for name in ("proc", "dev", "slurm.conf"))
    (proc / "driver" / "nvidia").mkdir(parents=True)
    for path, text in (
        (proc / "devices", case["devices"]),
        (proc / "driver" / "nvidia" / "params", case["params"]),
        (slurm, case["slurm"]),
    ):
        if text is not None:
            path.write_text(text_of(text))
    folder = dev / "nvidia-caps-imex-channels"
    if case["folder"] is not None:
        folder.mkdir(parents=True)
        for name, number in case["folder"].items():
            make_channel(folder / name, number)
    before = sorted(tmp_path.rglob("*"))
    found = channels.read(str(proc), str(dev), [str(slurm)])
    assert {
        **found._asdict(),
        "devices": [[device.channel, device.mode, device.usable] for device in found.devices],
    } == case["expect"]
    assert [device.path for device in found.devices] == [
        str(folder / f"channel{number}") for number, _mode, _usable in case["expect"]["devices"]
    ]
    assert sorted(tmp_path.rglob("*")) == before
