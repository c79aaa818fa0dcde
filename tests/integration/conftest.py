# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The test bed of the integration tests: booted once, clean hosts for every test.

These tests need root on a Debian machine, as tests/testbed does. Those marked ``full`` run with ``-m full``.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import typing as t

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds, play

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: takes long, runs only with -m full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "full" in config.getoption("markexpr", ""):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def need_testbed() -> None:
    """Skip where hosts cannot be made; with CI=true that is a failure, since nothing may be left out silently."""
    why = ""
    if os.geteuid() != 0:
        why = "only root can make hosts with their own systemd"
    elif not shutil.which("mmdebstrap") and not shutil.which("apt-get"):
        why = "the test bed's hosts are Debian and this machine has no apt-get"
    if why and os.environ.get("CI") == "true":
        pytest.fail(why)
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path in which this tree is ansible_collections/hpc/fabric, whatever its folder is called."""
    root = tmp_path_factory.mktemp("collections")
    namespace = root / "ansible_collections" / "hpc"
    namespace.mkdir(parents=True)
    (namespace / "fabric").symlink_to(ROOT, target_is_directory=True)
    return str(root)


def make_bed(count: int, share: pathlib.Path, name: str) -> t.Iterator[beds.Bed]:
    need_testbed()
    # Other checkouts and Molecule have beds of their own.
    bed = beds.Bed(pathlib.Path("/run") / f"imex-it-{name}-{os.getpid()}", count, share)
    bed.up()
    try:
        yield bed
    finally:
        bed.down()


@pytest.fixture(scope="session")
def four_hosts(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[beds.Bed]:
    yield from make_bed(4, tmp_path_factory.mktemp("share"), "four")


@pytest.fixture
def bed(four_hosts: beds.Bed) -> beds.Bed:
    """Four clean hosts: the simulator installed, no node list, the unit stopped and disabled."""
    four_hosts.reset()
    return four_hosts


class Site:
    """A bed with an inventory, and the playbooks run on it."""

    def __init__(self, bed: beds.Bed, work: pathlib.Path, collections: str) -> None:
        self.bed = bed
        self.ansible = play.Ansible(work, collections, bed.control_path_dir)
        self.path = work / "inventory.json"

    def inventory(
        self,
        domains: t.Mapping[str, t.Sequence[beds.Node]],
        hosts: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
        raw: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
        **variables: t.Any,
    ) -> None:
        """Members of each domain; ``hosts`` adds variables to hosts, also to ones without a domain, ``variables`` to all.

        ``raw`` are inventory hosts of any name, with all their variables.
        """
        common = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_common_args": f"-F {self.bed.state}/ssh_config",
            # Root already; one test does without this.
            "imex_become": False,
            "imex_wait_timeout": 15,
            "imex_start_timeout": 10,
            "imex_stop_timeout": 5,
            "imex_probe_timeout": 1,
            "imex_control_timeout": 5,
            # The shipped one is in the ephemeral range, which is a warning in every run.
            "imex_config": {"IMEX_CMD_ENABLED": 1},
        }
        groups: dict[str, t.Any] = {}
        extra = {name: dict(values) for name, values in (hosts or {}).items()}
        for name, members in domains.items():
            entries = {node.name: {**self._reach(node), **extra.pop(node.name, {})} for node in members}
            groups[f"domain_{name}"] = {"vars": {"imex_domain": name}, "hosts": entries}
        if extra:
            entries = {name: {**self._reach(self.bed[name]), **values} for name, values in extra.items()}
            groups["others"] = {"hosts": entries}
        data = {"all": {"vars": {**common, **variables}, "children": groups, "hosts": dict(raw or {})}}
        self.path.write_text(json.dumps(data, indent=1), encoding="utf-8")

    def _reach(self, node: beds.Node) -> dict[str, t.Any]:
        return {"ansible_host": node.address, "imex_address": node.address}

    def rollout(self, *words: str, **environment: str) -> play.Run:
        return self.ansible.playbook(self.path, "hpc.fabric.rollout", *words, **environment)

    def check(self, *words: str, **environment: str) -> play.Run:
        return self.rollout("--check", "--diff", *words, **environment)

    def playbook(self, name: str, *words: str, **environment: str) -> play.Run:
        return self.ansible.playbook(self.path, f"hpc.fabric.{name}", *words, **environment)


@pytest.fixture
def site(bed: beds.Bed, tmp_path: pathlib.Path, collections: str) -> Site:
    """Clean hosts and an empty inventory for them."""
    return Site(bed, tmp_path, collections)
