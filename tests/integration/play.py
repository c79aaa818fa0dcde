# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs Ansible as a user would, and hands its results back as data."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = pathlib.Path(sys.executable).parent


class TaskResult(t.NamedTuple):
    """What one task said on one host. status: ok, failed, skipped or unreachable."""

    host: str
    task: str
    action: str
    status: str
    ignored: bool
    data: dict[str, t.Any]

    @property
    def changed(self) -> bool:
        return bool(self.data.get("changed"))


class Run(t.NamedTuple):
    """One run of ansible-playbook. stats: Ansible's recap, by host."""

    rc: int
    output: str
    results: tuple[TaskResult, ...]
    stats: dict[str, dict[str, int]]

    def __repr__(self) -> str:
        """Short: the output is printed already."""
        return f"<Run rc={self.rc} {self.stats}>"

    def last(self, key: str) -> dict[str, t.Any]:
        """The last result that has this key."""
        for result in reversed(self.results):
            if key in result.data:
                return result.data
        raise AssertionError(f"no task returned {key}:\n{self.output}")

    @property
    def plan(self) -> dict[str, t.Any]:
        return next(r.data for r in self.results if r.task.startswith(("Plan every", "Find out which")))

    @property
    def decision(self) -> dict[str, t.Any]:
        """The last decision of the run."""
        return next(r.data for r in reversed(self.results) if r.task.startswith("Decide") and "domains" in r.data)

    @property
    def report(self) -> dict[str, t.Any]:
        return self.last("table")

    def domain(self, name: str = "rack1") -> dict[str, t.Any]:
        """What the report says of a domain."""
        return self.report["domains"][name]

    def decided(self, name: str = "rack1") -> str:
        return str(self.decision["domains"][name]["decision"])

    def codes(self, name: str = "rack1") -> set[str]:
        """The codes of all reasons that the decision gives for a domain."""
        return {reason["code"] for reason in self.decision["domains"][name]["reasons"]}

    @property
    def changed(self) -> dict[str, int]:
        """Tasks that changed something, by host; hosts without any are left out."""
        return {host: counts["changed"] for host, counts in self.stats.items() if counts["changed"]}

    @property
    def changes(self) -> list[tuple[str, str]]:
        """(host, task) of everything that says "changed"."""
        return [(result.host, result.task) for result in self.results if result.changed]

    @property
    def failed(self) -> set[str]:
        """Hosts for which the play failed."""
        return {host for host, counts in self.stats.items() if counts["failures"]}

    @property
    def unreachable(self) -> set[str]:
        """Hosts that Ansible gave up because it could not reach them."""
        return {host for host, counts in self.stats.items() if counts["unreachable"]}

    def message(self, host: str) -> str:
        """Why the play failed for a host."""
        for result in reversed(self.results):
            if result.host == host and result.status == "failed" and not result.ignored:
                return str(result.data.get("msg", ""))
        raise AssertionError(f"{host} did not fail:\n{self.output}")

    def of(self, host: str, task: str) -> TaskResult | None:
        """The last result of a task (its name begins with ``task``) on a host; None when it did not run there."""
        for result in reversed(self.results):
            if result.host == host and result.task.startswith(task) and result.status != "skipped":
                return result
        return None


class Ansible(t.NamedTuple):
    """Where runs keep what they need. work: a folder of the test; collections: the path in which hpc.fabric is found."""

    work: pathlib.Path
    collections: str
    control_path_dir: pathlib.Path

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of the user's own configuration, so that a test is the same everywhere."""
        (self.work / "ansible.cfg").touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return {
            **kept,
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "ANSIBLE_CONFIG": str(self.work / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.work / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.work / "ansible" / "tmp"),
            "ANSIBLE_COLLECTIONS_PATH": self.collections,
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_HOST_KEY_CHECKING": "false",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.control_path_dir),
            "ANSIBLE_TIMEOUT": "10",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
            "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false",
            **more,
        }

    def run(self, *words: str, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        """Any of Ansible's programs, both streams together."""
        return subprocess.run(
            [str(PROGRAMS / words[0]), *words[1:]],
            env=self.environment(**environment),
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout,
        )

    def playbook(
        self, inventory: pathlib.Path, playbook: str, *words: str, timeout: float = 300, **environment: str
    ) -> Run:
        """ansible-playbook; its output is printed too, so that pytest shows it where a test fails."""
        results = self.work / "results.jsonl"
        results.unlink(missing_ok=True)
        environment["ANSIBLE_CALLBACK_PLUGINS"] = str(HERE / "callback_plugins")
        environment["ANSIBLE_CALLBACKS_ENABLED"] = "results_json"
        environment["FABRIC_TEST_RESULTS"] = str(results)
        command = ("ansible-playbook", "-i", str(inventory), playbook, *words)
        ended = self.run(*command, timeout=timeout, **environment)
        print("$", *command)
        print(ended.stdout)
        found: list[TaskResult] = []
        stats: dict[str, dict[str, int]] = {}
        for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
            record = json.loads(line)
            if "stats" in record:
                stats = record["stats"]
            else:
                found.append(TaskResult(**record))
        return Run(ended.returncode, ended.stdout, tuple(found), stats)
