# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated hosts of the benches, and the commands that are measured on them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import measure

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE / "tests" / "lab"))

import lab as labs

DOMAIN_SIZE = 18
FORKS = 10
# Six keys, as in a site's configuration. Both sides of a comparison get them from this variable.
CONFIG = {
    "IMEX_CMD_ENABLED": 1,
    "SERVER_PORT": labs.SERVER_PORT,
    "IMEX_CMD_PORT": labs.COMMAND_PORT,
    "IMEX_WAIT_FOR_QUORUM": "RECOVERY",
    "LOG_LEVEL": 3,
    "LOG_MAX_ROTATE_COUNT": 5,
}


class Rack:
    """Domains of simulated hosts, all daemons in one process that is not measured."""

    def __init__(self, root: pathlib.Path, domains: int, size: int = DOMAIN_SIZE) -> None:
        self.root = root
        self.size = size
        # Another one beside it shall not meet this one's daemons.
        network = 70 + os.getpid() % 25
        self.lab = labs.layout(root / "lab", domains, size, network)
        self.cluster: subprocess.Popen[str] | None = None
        # The settings of the caller's own Ansible must not change the figures.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment |= {
            "ANSIBLE_CONFIG": str(TREE / "ansible.cfg"),
            # ansible ignores an ansible.cfg in a directory that others may write, so its two settings are repeated here.
            "ANSIBLE_COLLECTIONS_PATH": str(TREE / ".collections"),
            "ANSIBLE_LIBRARY": str(TREE / "plugins" / "modules"),
            "ANSIBLE_HOME": str(root / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(root / "ansible" / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(root / "ansible" / "remote"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_FORKS": str(FORKS),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }

    def up(self) -> None:
        """Make the hosts and bring them to the planned state with the rollout itself."""
        self.lab.root.mkdir(parents=True)
        labs.create(self.lab)
        labs.join_cluster(self.lab)
        self.cluster = labs.start_cluster(self.lab)
        measure.say(f"first rollout of {len(self.lab.hosts)} hosts")
        self._rollout(len(self.lab.hosts))

    def down(self) -> None:
        """End the daemons and remove every file."""
        if self.cluster is not None:
            self.cluster.send_signal(signal.SIGTERM)
            self.cluster.wait(60)
        shutil.rmtree(self.root, ignore_errors=True)

    def inventory(self, count: int) -> pathlib.Path:
        """An inventory of the first hosts: whole domains, each group with its node list for the baseline."""
        part = labs.Lab(self.root / f"inventory-{count}", self.lab.hosts[:count])
        if part.inventory.exists():
            return part.inventory
        part.root.mkdir()
        extra = {host.name: {"bench_nodes_path": str(host.nodes)} for host in part.hosts}
        labs.write_inventory(part, extra, imex_config=CONFIG)
        content = json.loads(part.inventory.read_text(encoding="utf-8"))
        for group in content["all"]["children"].values():
            group["vars"]["bench_nodes"] = [self.lab.host(name).address for name in group["hosts"]]
        part.inventory.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return part.inventory

    # --- what is measured --------------------------------------------------------------------------------------------

    def rollout(self, count: int) -> measure.Cost:
        """A rollout where nothing is to be done."""
        cost, text = self._rollout(count)
        _expect_unchanged(text, count)
        # So does the report say that a domain's decision is "untouched".
        untouched = len(re.findall(rf"^domain \S+: unchanged, UP {self.size}/{self.size},", text, re.MULTILINE))
        if untouched != count // self.size:
            raise measure.BenchError(f"{untouched} of {count // self.size} domains were untouched:\n{text[-3000:]}")
        return cost

    def _rollout(self, count: int) -> tuple[measure.Cost, str]:
        return self._play("hpc.fabric.rollout", count)

    def baseline(self, count: int) -> measure.Cost:
        """The same with builtin modules."""
        cost, text = self._play(str(HERE / "baseline.yml"), count)
        _expect_unchanged(text, count)
        return cost

    def status(self, count: int) -> measure.Cost:
        """Ask every host ad hoc."""
        arguments = (
            "gather=daemon,domain config_path={{ imex_config_path }} run_dir={{ imex_run_dir }} "
            "local_addresses={{ imex_address }}"
        )
        cost, text = self._ad_hoc("imex_status", arguments, count)
        healthy = len(re.findall(r'^    "verdict": "healthy"', text, re.MULTILINE))
        if healthy != count:
            raise measure.BenchError(f"{healthy} of {count} hosts are healthy:\n{text[-3000:]}")
        return cost

    def command(self, count: int) -> measure.Cost:
        """Only run the control tool on every host ad hoc."""
        arguments = "nvidia-imex-ctl -N -j -c {{ imex_config_path }}"
        cost, text = self._ad_hoc("ansible.builtin.command", arguments, count)
        up = len(re.findall(r'"status": ?"UP"', text))
        if up != count:
            raise measure.BenchError(f"{up} of {count} hosts say UP:\n{text[-3000:]}")
        return cost

    def _play(self, playbook: str, count: int) -> tuple[measure.Cost, str]:
        return self._run("ansible-playbook", "-i", str(self.inventory(count)), playbook)

    def _ad_hoc(self, module: str, arguments: str, count: int) -> tuple[measure.Cost, str]:
        return self._run("ansible", "-i", str(self.inventory(count)), "all", "-m", module, "-a", arguments)

    def _run(self, *command: str) -> tuple[measure.Cost, str]:
        output = self.root / "output"
        cost = measure.run(command, self.environment, output)
        return cost, output.read_text(encoding="utf-8", errors="replace")


def _expect_unchanged(text: str, count: int) -> None:
    """Every host is in the recap, with changed=0."""
    rows = re.findall(r"^\S+ +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0 ", text, re.MULTILINE)
    if len(rows) != count or set(rows) != {"0"}:
        raise measure.BenchError(f"{rows.count('0')} of {count} hosts are unchanged, all must be:\n{text[-3000:]}")
