# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils import process
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import package


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    """Let there be only these programs, each a shell script."""
    real = process.find
    monkeypatch.setattr(process, "find", lambda name: real(str(tmp_path / name)))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    return make


def test_dpkg(programs: t.Callable[..., None]) -> None:
    programs(dpkg_query='test "$4" = nvidia-imex-570 && echo "installed 570.172.08-1"')
    assert package.installed_version("nvidia-imex-570") == "570.172.08-1"


@pytest.mark.parametrize("answer", ["echo 'config-files 570.86.15-1'", "echo 'no packages found' >&2; exit 1"])
def test_dpkg_without_the_package(answer: str, programs: t.Callable[..., None]) -> None:
    programs(dpkg_query=answer)
    assert package.installed_version("nvidia-imex") is None


def test_rpm(programs: t.Callable[..., None]) -> None:
    programs(rpm='test "$4" = nvidia-imex && echo "installed 580.65.06-1"')
    assert package.installed_version("nvidia-imex") == "580.65.06-1"


def test_rpm_without_the_package(programs: t.Callable[..., None]) -> None:
    programs(rpm="echo 'package nvidia-imex is not installed'; exit 1")
    assert package.installed_version("nvidia-imex") is None


def test_a_host_with_neither(programs: t.Callable[..., None]) -> None:
    programs()
    with pytest.raises(FabricError, match="neither dpkg-query nor rpm"):
        package.installed_version("nvidia-imex")


def test_a_database_that_is_locked(programs: t.Callable[..., None]) -> None:
    programs(rpm="exec sleep 600")
    with pytest.raises(FabricError, match=r"within 0.3 s whether nvidia-imex is installed"):
        package.installed_version("nvidia-imex", 0.3)


def test_the_dpkg_of_this_host() -> None:
    if process.find("dpkg-query") is None:
        pytest.skip("this host has no dpkg")
    assert package.installed_version("dpkg")
    assert package.installed_version("no-such-package-at-all") is None


@pytest.mark.parametrize(
    "installed, wanted, answer",
    [
        ("570.172.08", "570.172.08", True),
        ("570.172.08-1", "570.172.08", True),
        ("570.172.08-1", "570.172.08-1", True),
        ("1:570.172.08-1", "570.172.08", True),
        ("595.71.05-0ubuntu0.22.04.1", "595.71.05", True),
        ("570.172.081-1", "570.172.08", False),
        ("570.172.08-1", "570.172.08-2", False),
        ("570.172.08-1", "570.172", False),
        (None, "570.172.08", False),
    ],
)
def test_fits(installed: str | None, wanted: str, answer: bool) -> None:
    assert package.fits(installed, wanted) is answer
