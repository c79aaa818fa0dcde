# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hosts for the tests: real processes on loopback, each with its own address and directory."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

SIMULATOR = pathlib.Path(__file__).resolve().parent.parent
BIN = SIMULATOR / "bin"
sys.path.insert(0, str(SIMULATOR))

# Another Python for the programs, for example that of an old distribution.
PYTHON = os.environ.get("IMEX_SIMULATOR_PYTHON")
PORT, CMD_PORT = 31000, 31005  # outside the ephemeral range


def command(program, *arguments):
    prefix = [PYTHON, "-I", "-S"] if PYTHON and program != "systemctl" else []
    return [*prefix, str(BIN / program), *[str(a) for a in arguments]]


def run(program, *arguments, timeout=20, env=None):
    environment = {key: value for key, value in os.environ.items() if key != "IMEX_SIMULATOR_CONFIG"}
    environment.update(env or {})
    return subprocess.run(
        command(program, *arguments), capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


def wait_for(condition, what="condition", timeout=10.0):
    """Poll until ``condition()`` is true and return what it gave."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not reached in {timeout} s: {what}"
        time.sleep(0.02)


class Host:
    """One simulated host. ``start`` is nvidia-imex with DAEMONIZE=1 unless the config says otherwise."""

    def __init__(self, directory, address):
        self.dir, self.address = directory, address
        directory.mkdir()
        self.config_path = directory / "config.cfg"
        self.nodes_path = directory / "nodes_config.cfg"
        self.settings_path = directory / "imex-simulator.json"
        self.log_path = directory / "nvidia-imex.log"
        self.stats_path = directory / "nvidia-imex-stats.log"
        self.pid_path = directory / "mainpid"
        self.persist_path = directory / "run" / "persist.dat"
        self.config = {
            "LOG_FILE_NAME": self.log_path,
            "STATS_FILE_NAME": self.stats_path,
            "IMEX_NODE_CONFIG_FILE": self.nodes_path,
            "BIND_INTERFACE_IP": address,
            "IMEX_CMD_BIND_INTERFACE_IP": address,
            "SERVER_PORT": PORT,
            "IMEX_CMD_PORT": CMD_PORT,
        }
        self.settings = {"run_dir": str(directory / "run"), "time_scale": 0.02, "settings_poll": 0.05}
        self.foreground = []
        self.write_config()
        self.set()

    def write_config(self, **values):
        self.config.update(values)
        self.config_path.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))

    def write_nodes(self, addresses):
        self.nodes_path.write_text("".join(f"{a}\n" for a in addresses))

    def set(self, **values):
        """Change settings; None removes one."""
        self.settings.update(values)
        self.settings = {key: value for key, value in self.settings.items() if value is not None}
        temporary = self.settings_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.settings))
        temporary.replace(self.settings_path)

    def fault(self, **faults):
        self.set(faults=faults)

    @property
    def environment(self):
        return {"SYSTEMCTL_MAINPID_FILE": str(self.pid_path)}

    def start(self, *arguments, timeout=10):
        """Run the daemon's parent to its end; the completed process. Output goes to files, as the child may keep it."""
        with (self.dir / "stderr").open("w+") as err:
            return subprocess.run(
                command("nvidia-imex", "-c", self.config_path, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                timeout=timeout,
                env={**os.environ, **self.environment},
                check=False,
            )

    def start_in_background(self, *arguments):
        with (self.dir / "stderr").open("w") as err:
            process = subprocess.Popen(
                command("nvidia-imex", "-c", self.config_path, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                env={**os.environ, **self.environment},
            )
        self.foreground.append(process)
        return process

    @property
    def stderr(self):
        return (self.dir / "stderr").read_text()

    @property
    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    @property
    def pid(self):
        try:
            return int(self.pid_path.read_text())
        except (OSError, ValueError):
            return 0

    def alive(self):
        try:
            stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(") ")[2][0] not in "ZX"

    def send_signal(self, number):
        os.kill(self.pid, number)

    def stop(self, number=signal.SIGTERM, timeout=5):
        if self.pid and self.alive():
            self.send_signal(number)
            wait_for(lambda: not self.alive(), f"{self.address} ended", timeout)

    def ctl(self, *arguments, **options):
        return run("nvidia-imex-ctl", "-c", self.config_path, *arguments, **options)

    def state(self):
        return self.ctl("-q").stdout.strip()

    def domain(self, *arguments):
        done = self.ctl("-N", "-j", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def row(self):
        """This host's own row as words in id order, as its daemon reports it."""
        nodes = self.domain()["nodes"]
        mine = next(node for node in nodes.values() if node["host"] == self.address)
        return [mine["connections"][str(i)]["status"] for i in range(len(mine["connections"]))]

    def clean_up(self):
        for process in self.foreground:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.pid and self.alive():
            os.kill(self.pid, signal.SIGKILL)


_subnet = [0]


@pytest.fixture
def make_hosts(tmp_path):
    """make_hosts(n): n hosts that share one node map; nothing is started."""
    hosts = []

    def make(count, nodes=None):
        _subnet[0] += 1
        subnet = f"127.{100 + os.getpid() % 100}.{_subnet[0] % 250}"
        new = [Host(tmp_path / f"h{len(hosts) + i}", f"{subnet}.{len(hosts) + i + 1}") for i in range(count)]
        hosts.extend(new)
        for host in new:
            host.write_nodes(nodes or [h.address for h in new])
        return new

    yield make
    for host in hosts:
        host.clean_up()


@pytest.fixture
def make_up(make_hosts):
    """make_up(n): a domain of n hosts that says UP."""

    def make(count, **settings):
        hosts = make_hosts(count)
        for host in hosts:
            host.set(**settings)
            done = host.start()
            assert done.returncode == 0, host.stderr + host.log
        wait_for(lambda: hosts[0].domain()["status"] == "UP", "domain UP")
        return hosts

    return make


@pytest.fixture
def fixture_text():
    return lambda name: (pathlib.Path(__file__).parent / "fixtures" / name).read_text()


@pytest.fixture
def helpers():
    """The functions of this file, since test files cannot import it."""

    class Helpers:
        run = staticmethod(run)
        command = staticmethod(command)
        wait_for = staticmethod(wait_for)
        bin = BIN
        python = PYTHON

    return Helpers
