# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs playbooks and ad hoc commands with this tree as the collection; what controller plugins do shows only there."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

RUNNER = "from ansible.cli.{module} import main; main()"


class Ended(t.NamedTuple):
    """How an Ansible command ended."""

    rc: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr


class RunAnsible(t.Protocol):
    """The type of the fixture run_ansible."""

    def __call__(self, module: str, *args: str, inventory: dict[str, t.Any], **env: str) -> Ended:
        """Run ansible.cli.MODULE (adhoc, playbook) with arguments and an inventory given as data."""


@pytest.fixture
def run_ansible(import_root: pathlib.Path, tmp_path: pathlib.Path) -> RunAnsible:
    """Run Ansible of this interpreter in a process of its own, away from the checkout's ansible.cfg."""

    def run(module: str, *args: str, inventory: dict[str, t.Any], **env: str) -> Ended:
        (tmp_path / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")
        path = tmp_path / "inventory.json"
        path.write_text(json.dumps(inventory), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment.update(
            {
                "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(import_root),
                "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
                "ANSIBLE_HOME": str(tmp_path / "home"),
                "ANSIBLE_INVENTORY_ENABLED": "yaml",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_FORKS": "5",
                **env,
            }
        )
        command = [sys.executable, "-c", RUNNER.format(module=module), "-i", str(path), *args]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run
