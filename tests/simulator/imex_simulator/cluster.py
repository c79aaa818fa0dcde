# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hundreds of daemons in one process, each with its own files and its own address on loopback.

Every node is the Daemon of nvidia-imex with real sockets. The process writes the state files that the systemctl stand-in
reads, and takes ``start|stop|kill NAME`` from a FIFO, so that a role can restart a simulated node as any unit.
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import os
import resource
import signal
import sys
import time
import uuid

from imex_simulator import daemon, rules, settings

UNIT = "nvidia-imex.service"
# A node that has no settings of its own: no heartbeats (18 x 18 x 16 pairs would be all the work there is), and the
# process looks at all settings files together, since hundreds of timers keep an idle machine busy.
NODE_SETTINGS = {"heartbeat_interval": 0, "settings_poll": 0, "time_scale": 0.05}
SETTINGS_POLL = 1.0

SPEC_DEFAULTS = {
    "root": None,
    "domains": 1,
    "nodes_per_domain": 18,
    "network": "127.20",
    "name": "d{domain:02d}n{node:02d}",
    "nodes": None,
    "server_port": 50000,
    "cmd_port": 50005,
    "config": {},
    "settings": {},
    "write_nodes_config": True,
    "start": True,
    "ready_timeout": 60,
}


class SpecError(Exception):
    """The cluster's description cannot be used."""


class Node:
    def __init__(self, cluster, name, address, domain):
        self.cluster, self.name, self.address, self.domain = cluster, name, address, domain
        self.dir = os.path.join(cluster.root, name)
        self.config_path = os.path.join(self.dir, "config.cfg")
        self.unit_dir = os.path.join(self.dir, "units", UNIT)
        self.daemon = None
        self.starting = None
        self.state = {}

    def write_files(self, peers, spec):
        """Files of the node; what exists stays as it is, since a role may have written it."""
        for directory in (self.unit_dir, os.path.join(self.dir, "run"), os.path.join(self.dir, "log")):
            os.makedirs(directory, exist_ok=True)
        config = dict(rules.CONFIG_DEFAULTS)
        config.update(
            LOG_FILE_NAME=os.path.join(self.dir, "log", "nvidia-imex.log"),
            STATS_FILE_NAME=os.path.join(self.dir, "log", "nvidia-imex-stats.log"),
            IMEX_NODE_CONFIG_FILE=os.path.join(self.dir, "nodes_config.cfg"),
            BIND_INTERFACE_IP=self.address,
            IMEX_CMD_BIND_INTERFACE_IP=self.address,
            SERVER_PORT=str(spec["server_port"]),
            IMEX_CMD_PORT=str(spec["cmd_port"]),
        )
        config.update({key: str(value) for key, value in spec["config"].items()})
        _write_new(self.config_path, "".join(f"{key}={value}\n" for key, value in config.items()))
        if spec["write_nodes_config"]:
            _write_new(config["IMEX_NODE_CONFIG_FILE"], "".join(f"{peer.address}\n" for peer in peers))
        path = os.path.join(self.dir, settings.FILE_NAME)
        if not os.path.exists(path):
            own = {"run_dir": os.path.join(self.dir, "run"), "local_addresses": [self.address], "hostname": self.name}
            settings.save(path, {**NODE_SETTINGS, **own, **spec["settings"]})
        _write_new(
            os.path.join(self.unit_dir, "unit"),
            f"Type=forking\nTimeoutStartSec=infinity\nControl={self.cluster.fifo}\nControlName={self.name}\n",
        )

    async def start(self, prepared=None):
        """Bring the node up as far as it goes; a failure is the unit's state. ``prepared`` is waited for before connecting."""
        self.write_state(
            ActiveState="activating",
            SubState="start",
            Result="success",
            InvocationID=uuid.uuid4().hex,
            ExecMainStarted=True,
            MainPID=0,
            ExecMainStatus=0,
        )
        self.daemon = None
        try:
            self.daemon = daemon.Daemon(self.config_path)
            self.daemon.crash = lambda: self.cluster.spawn(self.kill())
            await self.daemon.prepare()
            if prepared is not None:
                await prepared()
            await self.daemon.run()
        except (daemon.StartError, settings.SettingsError, OSError, ValueError) as e:
            if prepared is not None:
                self.cluster.count_prepared()
            if self.daemon is not None:
                await self.daemon.kill()
                self.daemon = None
            status = e.status if isinstance(e, daemon.StartError) else rules.START_FAILED
            self.write_state(
                ActiveState="failed", SubState="failed", Result="exit-code", ExecMainStatus=status, MainPID=0
            )
            return
        if self.daemon.settings.fault("never_return"):
            return
        self.write_state(ActiveState="active", SubState="running", MainPID=os.getpid(), ActiveEnter=True)

    async def stop(self):
        if self.starting is not None:
            self.starting.cancel()
        ending, self.daemon = self.daemon, None
        if ending is not None:
            await ending.stop()
        self.write_state(ActiveState="inactive", SubState="dead", Result="success", MainPID=0, ExecMainStatus=0)

    async def kill(self):
        if self.starting is not None:
            self.starting.cancel()
        ending, self.daemon = self.daemon, None
        if ending is not None:
            await ending.kill()
        self.write_state(ActiveState="failed", SubState="failed", Result="signal", MainPID=0, ExecMainStatus=9)

    def write_state(self, **changes):
        """The state file of bin/systemctl, replaced whole."""
        for key in ("ActiveEnter", "ExecMainStarted"):
            if changes.get(key):
                now = datetime.datetime.now().astimezone()
                changes[key] = now.strftime("%a %Y-%m-%d %H:%M:%S %Z")
                changes[key + "Micros"] = str(int(now.timestamp() * 1e6))
        self.state.update(changes)
        if self.state.get("MainPID"):
            self.state["ExecMainPID"] = self.state["MainPID"]
        self.state["MainStart"] = self.cluster.start_ticks if self.state.get("MainPID") else 0
        path = os.path.join(self.unit_dir, "state")
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write("".join(f"{key}='{value}'\n" for key, value in self.state.items()))
        os.replace(path + ".new", path)


class Cluster:
    def __init__(self, spec):
        unknown = set(spec) - set(SPEC_DEFAULTS)
        if unknown:
            raise SpecError(f"unknown key {', '.join(sorted(unknown))}; known: {', '.join(SPEC_DEFAULTS)}")
        self.spec = {**SPEC_DEFAULTS, **spec}
        if not self.spec["root"]:
            raise SpecError("root is missing: the directory for the files of all nodes")
        self.root = os.path.abspath(self.spec["root"])
        self.fifo = os.path.join(self.root, "control")
        with open("/proc/self/stat", encoding="ascii") as f:
            self.start_ticks = f.read().rpartition(") ")[2].split()[19]
        self.nodes = self._nodes()
        self.tasks = set()
        self.unprepared = 0
        self.all_prepared = None

    def _nodes(self):
        given = self.spec["nodes"]
        if given is None:
            given = [
                {
                    "name": self.spec["name"].format(domain=d, node=n),
                    "address": f"{self.spec['network']}.{d}.{n + 1}",
                    "domain": d,
                }
                for d in range(self.spec["domains"])
                for n in range(self.spec["nodes_per_domain"])
            ]
        nodes = {}
        for entry in given:
            if entry["name"] in nodes:
                raise SpecError(f"node {entry['name']} is given twice")
            nodes[entry["name"]] = Node(self, entry["name"], entry["address"], entry.get("domain", 0))
        return nodes

    def spawn(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def count_prepared(self):
        self.unprepared -= 1
        if self.unprepared == 0:
            self.all_prepared.set()

    async def prepared(self):
        """All listen before anybody connects, so that nobody has to wait for a retry."""
        self.count_prepared()
        await self.all_prepared.wait()

    def links(self):
        return sum(
            peer.status == rules.CONNECTED
            for node in self.nodes.values()
            if node.daemon is not None and node.daemon.model is not None
            for peer in node.daemon.model.peers
        )

    def command(self, line):
        verb, _blank, name = line.strip().partition(" ")
        node = self.nodes.get(name)
        if node is None or verb not in ("start", "stop", "kill"):
            print(f"imex-simulator cluster: not understood: {line.strip()}", file=sys.stderr, flush=True)
        elif verb == "start":
            if node.daemon is None:
                node.starting = self.spawn(node.start())
        elif verb == "stop":
            self.spawn(node.stop())
        else:
            self.spawn(node.kill())

    def read_fifo(self, descriptor, rest):
        rest += os.read(descriptor, 65536)
        *lines, tail = rest.split(b"\n")
        rest[:] = tail
        for line in lines:
            self.command(line.decode("utf-8", "replace"))

    def watch_settings(self):
        asyncio.get_running_loop().call_later(SETTINGS_POLL, self.watch_settings)
        for node in self.nodes.values():
            if node.daemon is not None and node.daemon.model is not None:
                node.daemon.watch_settings()

    async def run(self):
        began = time.monotonic()
        os.environ.pop(settings.ENVIRONMENT, None)  # each node has its own settings file
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        os.makedirs(self.root, exist_ok=True)
        domains = {}
        for node in self.nodes.values():
            domains.setdefault(node.domain, []).append(node)
        needed = sum(2 * len(peers) ** 2 + 4 * len(peers) for peers in domains.values()) + 64
        if hard != resource.RLIM_INFINITY and needed > hard:
            raise SpecError(f"this cluster needs {needed} open files, the limit of this process is {hard} (ulimit -Hn)")
        if not os.path.exists(self.fifo):
            os.mkfifo(self.fifo, 0o600)
        for node in self.nodes.values():
            node.write_files(domains[node.domain], self.spec)
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, end.set)
        descriptor = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)
        loop.add_reader(descriptor, self.read_fifo, descriptor, bytearray())
        self.watch_settings()
        if self.spec["start"]:
            self.unprepared = len(self.nodes)
            self.all_prepared = asyncio.Event()
            for node in self.nodes.values():
                node.starting = self.spawn(node.start(self.prepared))
            await self.wait_connected(sum(len(peers) ** 2 for peers in domains.values()), end)
        gc.collect()
        gc.freeze()
        active = sum(node.state.get("ActiveState") == "active" for node in self.nodes.values())
        print(
            f"READY nodes={len(self.nodes)} active={active} domains={len(domains)} links={self.links()} "
            f"seconds={time.monotonic() - began:.2f}",
            flush=True,
        )
        await end.wait()
        loop.remove_reader(descriptor)
        os.close(descriptor)
        await asyncio.gather(*(node.stop() for node in self.nodes.values()), return_exceptions=True)
        os.unlink(self.fifo)

    async def wait_connected(self, links, end):
        """Until the mesh stands, or for ready_timeout seconds: faults may keep it from ever standing."""
        deadline = time.monotonic() + float(self.spec["ready_timeout"])
        while self.links() < links and time.monotonic() < deadline and not end.is_set():
            if all(n.starting.done() and n.daemon is None for n in self.nodes.values()):
                return
            await asyncio.sleep(0.02)
        # the mesh stands a moment before the last node says READY
        while time.monotonic() < deadline and not end.is_set():
            if all(n.starting.done() for n in self.nodes.values()):
                return
            await asyncio.sleep(0.02)


def _write_new(path, text):
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def run(spec):
    """Run a cluster until SIGTERM. Raises SpecError."""
    asyncio.run(Cluster(spec).run())
