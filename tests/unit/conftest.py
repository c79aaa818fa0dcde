# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the checkout is, for every unit test."""

from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def collection_root() -> pathlib.Path:
    """The folder that holds galaxy.yml."""
    return ROOT


@pytest.fixture(scope="session")
def import_root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder to put on sys.path of a process in which this tree is ansible_collections.hpc.fabric.

    A checkout may have any name and place, so the name is given to it by a link.
    """
    root = tmp_path_factory.mktemp("import_root")
    namespace = root / "ansible_collections" / "hpc"
    namespace.mkdir(parents=True)
    (namespace / "fabric").symlink_to(ROOT, target_is_directory=True)
    return root
