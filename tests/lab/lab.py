#!/usr/bin/env python3
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A laboratory of simulated IMEX hosts on loopback, without root: what the demo, the quick tests and the benches roll out to.

Each host is a directory with its own configuration, state and `systemctl` (the simulator's stand-in), and an address of its
own in 127.0.0.0/8. Ansible reaches it by the local connection; its Python interpreter is a wrapper that puts the host's own
programs on PATH, so that the modules find them the way they do on a real host.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import typing as t

SIMULATOR = pathlib.Path(__file__).resolve().parent.parent / "simulator"
UNIT = "nvidia-imex"
# Outside the ephemeral range, so that no other program's connection can take it and no warning is printed.
SERVER_PORT = 31000
COMMAND_PORT = 31005


class Host(t.NamedTuple):
    """One simulated host."""

    name: str
    domain: str
    address: str
    root: pathlib.Path

    @property
    def config(self) -> pathlib.Path:
        return self.root / "etc" / "nvidia-imex" / "config.cfg"

    @property
    def nodes(self) -> pathlib.Path:
        return self.root / "etc" / "nvidia-imex" / "nodes_config.cfg"

    @property
    def settings(self) -> pathlib.Path:
        return self.config.with_name("imex-simulator.json")

    @property
    def systemctl(self) -> pathlib.Path:
        return self.root / "bin" / "systemctl"

    @property
    def python(self) -> pathlib.Path:
        return self.root / "bin" / "python3"

    def variables(self) -> dict[str, t.Any]:
        """What the inventory says of the host beyond its domain."""
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.python),
            "imex_address": self.address,
            "imex_local_addresses": [self.address],
            "imex_config_path": str(self.config),
            "imex_state_dir": str(self.root / "var" / "lib" / "hpc-fabric"),
            "imex_run_dir": str(self.root / "run" / "hpc-fabric"),
            "imex_unit_dir": str(self.root / "etc" / "systemd"),
            "imex_driver_path": str(self.root / "dev" / "nvidiactl"),
        }

    def simulate(self, **settings: t.Any) -> None:
        """Change the simulator's settings of this host; None takes one back."""
        values = json.loads(self.settings.read_text(encoding="utf-8"))
        values.update(settings)
        values = {name: value for name, value in values.items() if value is not None}
        temporary = self.settings.with_suffix(".tmp")
        temporary.write_text(json.dumps(values, indent=1), encoding="utf-8")
        temporary.replace(self.settings)

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the host, for example ``ctl("systemctl", "stop", "nvidia-imex")``."""
        program = self.root / "bin" / arguments[0]
        return subprocess.run([str(program), *arguments[1:]], capture_output=True, text=True, check=False, timeout=60)


class Lab(t.NamedTuple):
    """All hosts of a laboratory below one directory."""

    root: pathlib.Path
    hosts: tuple[Host, ...]

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    @property
    def inventory(self) -> pathlib.Path:
        return self.root / "inventory.yml"


def layout(root: pathlib.Path, domains: int, size: int, network: int = 64) -> Lab:
    """Names and addresses: domain `a` has hosts a1, a2 … at 127.NETWORK.1.1, 127.NETWORK.1.2 …"""
    hosts = []
    for number in range(domains):
        domain = chr(ord("a") + number) if domains <= 26 else f"d{number + 1:02}-"
        for position in range(1, size + 1):
            name = f"{domain}{position}"
            hosts.append(
                Host(name, domain.rstrip("-"), f"127.{network}.{number + 1}.{position}", root / "hosts" / name)
            )
    return Lab(root, tuple(hosts))


def create(lab: Lab, version: str = "570.172.08", time_scale: float = 0.05, installed: bool = True) -> None:
    """Make every host's files; no daemon is started. ``installed=False``: hosts without the package and its directory."""
    for host in lab.hosts:
        for directory in ("bin", "run", "var/log", "var/lib", "dev", "etc/systemd"):
            (host.root / directory).mkdir(parents=True, exist_ok=True)
        (host.root / "dev" / "nvidiactl").touch()
        _programs(host, installed)
        if installed:
            host.config.parent.mkdir(parents=True)
            host.config.write_text(stock_config(host), encoding="utf-8")
            values = {
                "version": version,
                "local_addresses": [host.address],
                "run_dir": str(host.root / "run" / "nvidia-imex"),
                "hostname": host.name,
                "time_scale": time_scale,
            }
            host.settings.write_text(json.dumps(values, indent=1), encoding="utf-8")


def stock_config(host: Host) -> str:
    """The package's config.cfg with this host's paths and its own addresses: several hosts share one machine here."""
    own = {
        "LOG_FILE_NAME": str(host.root / "var" / "log" / "nvidia-imex.log"),
        "STATS_FILE_NAME": str(host.root / "var" / "log" / "nvidia-imex-stats.log"),
        "IMEX_NODE_CONFIG_FILE": str(host.nodes),
        "BIND_INTERFACE_IP": host.address,
        "IMEX_CMD_BIND_INTERFACE_IP": host.address,
        "SERVER_PORT": str(SERVER_PORT),
        "IMEX_CMD_PORT": str(COMMAND_PORT),
    }
    lines = []
    for line in _package_config().splitlines():
        key = line.split("=", 1)[0]
        lines.append(f"{key}={own[key]}" if key in own and "=" in line else line)
    return "\n".join(lines) + "\n"


@functools.cache
def _package_config() -> str:
    command = [sys.executable, str(SIMULATOR / "bin" / "imex-simulator"), "stock-config"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _programs(host: Host, installed: bool) -> None:
    """The host's own PATH: wrappers that know where the host lives."""
    tools = SIMULATOR / "bin"
    python = shlex.quote(sys.executable)
    path = f"PATH={shlex.quote(str(host.root / 'bin'))}:$PATH"
    units = host.root / "run" / "systemd"
    wrappers = {
        "python3": f'{path} exec {python} "$@"',
        "systemctl": f'SYSTEMCTL_ROOT={shlex.quote(str(units))} exec {shlex.quote(str(tools / "systemctl"))} "$@"',
    }
    if installed:
        config = shlex.quote(str(host.config))
        wrappers["nvidia-imex"] = f'exec {python} -I -S {shlex.quote(str(tools / "nvidia-imex"))} "$@"'
        wrappers["nvidia-imex-ctl"] = f'exec {python} -I -S {shlex.quote(str(tools / "nvidia-imex-ctl"))} "$@"'
        wrappers["nvidia-smi"] = (
            f"IMEX_SIMULATOR_CONFIG={shlex.quote(str(host.settings))} exec {python} -I -S"
            f' {shlex.quote(str(tools / "nvidia-smi"))} "$@"'
        )
        unit = units / f"{UNIT}.service" / "unit"
        unit.parent.mkdir(parents=True, exist_ok=True)
        # The settings of NVIDIA's own unit.
        settings = ("Type=forking", "TimeoutStartSec=infinity", "Restart=on-failure", "RestartSec=1s")
        command = f"ExecStart={host.root / 'bin' / 'nvidia-imex'} -c {config}"
        unit.write_text("\n".join((command, *settings)) + "\n", encoding="utf-8")
        unit.with_name("dropins").symlink_to(host.root / "etc" / "systemd" / f"{UNIT}.service.d")
    for name, body in wrappers.items():
        program = host.root / "bin" / name
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)


def join_cluster(lab: Lab) -> None:
    """Make the hosts nodes of one cluster process, since a process each is too much for hundreds. After create.

    A host's daemon still is started and stopped by the host's own systemctl, once start_cluster has run.
    """
    directory = lab.root / "cluster"
    directory.mkdir()
    for host in lab.hosts:
        # What the cluster takes for a node's directory holds the host's configuration, and leads to its units.
        (directory / host.name).symlink_to(host.config.parent)
        host.config.with_name("units").symlink_to(host.root / "run" / "systemd")
        unit = host.root / "run" / "systemd" / f"{UNIT}.service" / "unit"
        control = f"Control={directory / 'control'}\nControlName={host.name}\n"
        unit.write_text(f"Type=forking\nTimeoutStartSec=infinity\n{control}", encoding="utf-8")
        # Timers of hundreds of nodes would keep an idle machine busy.
        host.simulate(heartbeat_interval=0, stats_interval=0, settings_poll=0)


def start_cluster(lab: Lab) -> subprocess.Popen[str]:
    """Start the process of join_cluster and wait until it takes orders; no daemon is started. End it with SIGTERM."""
    nodes = [{"name": host.name, "address": host.address, "domain": host.domain} for host in lab.hosts]
    spec = lab.root / "cluster.json"
    values = {"root": str(lab.root / "cluster"), "nodes": nodes, "start": False, "write_nodes_config": False}
    spec.write_text(json.dumps(values), encoding="utf-8")
    command = [sys.executable, str(SIMULATOR / "bin" / "imex-simulator"), "cluster", "--spec", str(spec)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if not process.stdout.readline().startswith("READY"):
        raise RuntimeError(f"the cluster ended with status {process.wait()} before it was ready; it says why above")
    return process


def write_inventory(lab: Lab, extra: dict[str, dict[str, t.Any]] | None = None, **variables: t.Any) -> None:
    """A YAML inventory (JSON is YAML), one group a domain; ``extra`` adds variables to hosts, ``variables`` to all."""
    common: dict[str, t.Any] = {
        "imex_become": False,
        "imex_allow_loopback_addresses": True,
        "imex_wait_timeout": 30,
        "imex_stop_timeout": 10,
        "imex_start_timeout": 20,
        "imex_probe_timeout": 1,
    }
    common.update(variables)
    groups: dict[str, t.Any] = {}
    for host in lab.hosts:
        values = {**host.variables(), **(extra or {}).get(host.name, {})}
        group = groups.setdefault(f"domain_{host.domain}", {"vars": {"imex_domain": host.domain}, "hosts": {}})
        group["hosts"][host.name] = {name: value for name, value in values.items() if value is not None}
    text = json.dumps({"all": {"vars": common, "children": groups}}, indent=1)
    lab.inventory.write_text(text + "\n", encoding="utf-8")


def destroy(lab: Lab) -> None:
    """Stop every daemon that a host's systemctl started, then remove the directory."""
    for host in lab.hosts:
        if host.systemctl.exists():
            host.ctl("systemctl", "kill", "--signal=KILL", UNIT)
            host.ctl("systemctl", "stop", UNIT)
    shutil.rmtree(lab.root, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated IMEX hosts on loopback")
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--domains", type=int, default=2)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--network", type=int, default=64, help="second octet of the hosts' addresses")
    arguments = parser.parse_args()
    lab = layout(arguments.root.resolve(), arguments.domains, arguments.size, arguments.network)
    if arguments.action == "down":
        destroy(lab)
        return 0
    os.makedirs(lab.root)
    create(lab)
    write_inventory(lab)
    print(lab.inventory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
