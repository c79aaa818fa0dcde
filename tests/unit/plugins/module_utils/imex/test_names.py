# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import names


def test_resolve_asks_for_each_name_once() -> None:
    found = dict(names.resolve(["localhost", "no-such-host.invalid", "localhost"]))
    assert list(found) == ["localhost", "no-such-host.invalid"]
    assert set(found["localhost"]) <= {"127.0.0.1", "::1"}
    assert found["localhost"]
    assert found["no-such-host.invalid"] == ()


def test_resolve_takes_words_that_no_resolver_knows() -> None:
    assert names.resolve(["a" * 70, "\udcff"]) == (("a" * 70, ()), ("\udcff", ()))


@pytest.mark.parametrize(
    "path, text, version",
    [
        ("sys/module/nvidia/version", "570.158.01\n", "570.158.01"),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build\nGCC version: gcc version 11.4.0\n",
            "580.65.06",
        ),
        ("sys/module/nvidia/version", "unknown\n", None),
    ],
)
def test_driver_version(path: str, text: str, version: str | None, tmp_path: pathlib.Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    assert names.driver_version(str(tmp_path / "proc"), str(tmp_path / "sys")) == version


def test_no_driver(tmp_path: pathlib.Path) -> None:
    assert names.driver_version(str(tmp_path), str(tmp_path)) is None
