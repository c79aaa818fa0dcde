# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test bed of hosts with the simulator on them: broken, mended, looked at and made clean again."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import time
import typing as t

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TESTBED = ROOT / "tests" / "testbed" / "testbed"
UNIT = "nvidia-imex.service"
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
DROPIN = f"/etc/systemd/system/{UNIT}.d/50-hpc-fabric.conf"
STATE = "/var/lib/hpc-fabric"
LOG = "/var/log/nvidia-imex.log"
SETTINGS = "/etc/imex-simulator.json"
VERSION = "580.95.05"
# Retries of the daemon after 0.3, 0.6, 1.2 and 2.5 s instead of 15 to 125.
BASE_SETTINGS: dict[str, t.Any] = {"time_scale": 0.02}
LIMIT = 60.0


class Clock(t.NamedTuple):
    """What systemd notes of the unit's last cycle, in microseconds of the clock that all nodes share (0: never)."""

    invocation_id: str
    active_state: str
    unit_file_state: str
    stopping_at: int
    stopped_at: int
    starting_at: int
    started_at: int


class Node:
    """One host."""

    def __init__(self, bed: Bed, number: int) -> None:
        self.bed = bed
        self.name = f"node{number}"
        self.address = f"{bed.net}.{10 + number}"

    def __repr__(self) -> str:
        return self.name

    # --- anything ---------------------------------------------------------------------------------------------------

    def run(self, *command: str, check: bool = True, stdin: str | None = None) -> str:
        """Run a command on the host, not through ssh; its output."""
        ended = self.try_run(*command, stdin=stdin)
        assert not check or ended.returncode == 0, f"{self}: {' '.join(command)}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def try_run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """As run, with exit status and both streams."""
        return self.bed.testbed("exec", self.name, *command, stdin=stdin)

    def shell(self, script: str) -> str:
        """Run a shell script on the host."""
        return self.run("sh", "-euc", script)

    def read(self, path: str) -> str:
        return self.run("cat", path)

    def read_off(self, path: str) -> str:
        """A file of a host whose power is off, from its disk."""
        return self.bed.testbed("net", "cat", f"{self.disk}{path}", check=True).stdout

    def write(self, path: str, text: str) -> None:
        """Replace a file; a reader sees the old one or the new one."""
        self.run("sh", "-euc", 'cat >"$1.test-tmp"; mv "$1.test-tmp" "$1"', "sh", path, stdin=text)

    def exists(self, path: str) -> bool:
        return self.try_run("test", "-e", path).returncode == 0

    @property
    def disk(self) -> pathlib.Path:
        return self.bed.state / "nodes" / self.name / "root"

    # --- what is on it ----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, list[t.Any]]:
        """Every file that a rollout may write, with owner, mode, time and content; also of a host whose power is off."""
        if self.name in self.bed.off:
            done = self.bed.testbed("net", "python3", str(HERE / "node" / "snapshot.py"), str(self.disk), check=True)
            return t.cast("dict[str, list[t.Any]]", json.loads(done.stdout))
        return t.cast("dict[str, list[t.Any]]", json.loads(self.run("/srv/share/node/snapshot.py")))

    def nodes(self) -> list[str]:
        """The lines of the node list."""
        return self.read(NODES).split()

    def config(self) -> dict[str, str]:
        """config.cfg as the daemon reads it."""
        lines = [line for line in self.read(CONFIG).splitlines() if "=" in line and not line.startswith("#")]
        return {key: value for key, _sign, value in (line.partition("=") for line in lines)}

    def clock(self) -> Clock:
        """The unit's state and the times of its last cycle."""
        names = {
            "InvocationID": str,
            "ActiveState": str,
            "UnitFileState": str,
            "ActiveExitTimestampMonotonic": int,
            "InactiveEnterTimestampMonotonic": int,
            "InactiveExitTimestampMonotonic": int,
            "ActiveEnterTimestampMonotonic": int,
        }
        shown = self.run("systemctl", "show", "-p", ",".join(names), UNIT)
        values = dict(line.split("=", 1) for line in shown.splitlines())
        return Clock(*(kind(values.get(name) or 0) if kind is int else values[name] for name, kind in names.items()))

    @property
    def running(self) -> bool:
        return self.clock().active_state == "active"

    def listing(self) -> dict[str, t.Any]:
        """What the host's own control tool says of the domain."""
        done = self.try_run("timeout", "20", "nvidia-imex-ctl", "-N", "-j")
        assert done.returncode == 0, f"{self}: {done.stdout}{done.stderr}"
        return t.cast("dict[str, t.Any]", json.loads(done.stdout))

    def row(self) -> dict[str, str]:
        """The host's own connections: address -> state."""
        own = next(node for node in self.listing()["nodes"].values() if node["host"] == self.address)
        return {peer["host"]: peer["status"] for peer in own["connections"].values()}

    # --- breaking it ------------------------------------------------------------------------------------------------

    def simulate(self, **settings: t.Any) -> None:
        """Change the simulator's settings; None takes one back."""
        values = json.loads(self.read(SETTINGS))
        values.update(settings)
        self.write(SETTINGS, json.dumps({name: value for name, value in values.items() if value is not None}))

    def fault(self, **faults: t.Any) -> None:
        """Switch on these faults of the simulator, and all others off."""
        self.simulate(faults=faults or None)

    def fail_when(self, pattern: str, path: str = CONFIG, **faults: t.Any) -> None:
        """From now on a start meets these faults when the file matches pattern (grep), and none when it does not."""
        clean = json.loads(self.read(SETTINGS))
        clean.pop("faults", None)
        self.write("/run/settings-clean.json", json.dumps(clean))
        self.write("/run/settings-fault.json", json.dumps({**clean, "faults": faults}))
        choose = f'if grep -q "{pattern}" {path}; then w=fault; else w=clean; fi; cp /run/settings-$w.json {SETTINGS}'
        self.write("/run/choose-settings", f"#!/bin/sh\n{choose}\n")
        self.unit_override("[Service]\nExecStartPre=/bin/sh /run/choose-settings\n")

    def unit_override(self, text: str) -> None:
        """A drop-in of the test, gone with the next reset."""
        self.run("mkdir", "-p", f"/run/systemd/system/{UNIT}.d")
        self.write(f"/run/systemd/system/{UNIT}.d/10-test.conf", text)
        self.systemctl("daemon-reload")

    def wait_row(self, holds: t.Callable[[dict[str, str]], bool], seconds: float = LIMIT) -> None:
        """Until the host's own connections are so."""
        deadline = time.monotonic() + seconds
        while True:
            row: dict[str, str] = {}
            try:
                row = self.row()
                if holds(row):
                    return
            except (AssertionError, StopIteration):
                pass
            assert time.monotonic() < deadline, f"{self}: {row}"
            time.sleep(0.1)

    def systemctl(self, *words: str) -> str:
        return self.run("systemctl", *words)

    def stop(self) -> None:
        """Stop the daemon as an administrator would, and wait for its end."""
        self.systemctl("stop", UNIT)

    def start(self) -> None:
        self.systemctl("start", "--no-block", UNIT)

    def power_off(self) -> None:
        """Cut the power. Peers see closed sockets."""
        self.bed.testbed("kill", self.name, check=True)
        self.bed.off.add(self.name)
        deadline = time.monotonic() + LIMIT
        while self.try_run("true").returncode == 0:
            assert time.monotonic() < deadline, f"{self} does not end"
            time.sleep(0.05)

    def power_on(self) -> None:
        """Boot it and wait until it is up and answers on ssh."""
        self.bed.testbed("boot", self.name, check=True)
        self.bed.off.discard(self.name)
        deadline = time.monotonic() + LIMIT
        while self.try_run("systemctl", "is-system-running").stdout.strip() not in ("running", "degraded"):
            assert time.monotonic() < deadline, f"{self} does not boot"
            time.sleep(0.1)
        while self.bed.testbed("net", "nc.openbsd", "-z", "-w", "1", self.address, "22").returncode != 0:
            assert time.monotonic() < deadline, f"{self} does not answer on ssh"
            time.sleep(0.1)

    def freeze_ssh(self) -> None:
        """Unreachable for Ansible, while its daemon answers the others."""
        self.bed.close_connections()
        self.bed.testbed("freeze-ssh", self.name, check=True)
        self.bed.frozen.add(self.name)

    def thaw_ssh(self) -> None:
        self.bed.testbed("thaw-ssh", self.name, check=True)
        self.bed.frozen.discard(self.name)


class Bed:
    """All hosts. One object for one TESTBED_STATE; what was broken is remembered, so that reset is quick."""

    def __init__(self, state: pathlib.Path, count: int, share: pathlib.Path, net: str = "10.77.0") -> None:
        self.state = state
        self.share = share
        self.net = net
        self.off: set[str] = set()
        self.frozen: set[str] = set()
        self.control_path_dir = state / "cp"
        self.nodes = tuple(Node(self, number) for number in range(1, count + 1))
        self.watcher: subprocess.Popen[bytes] | None = None
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    def __getitem__(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def testbed(
        self, *words: str, check: bool = False, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the test bed's own command."""
        done = subprocess.run(
            [str(TESTBED), *words],
            env={**os.environ, "TESTBED_STATE": str(self.state), **environment},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert not check or done.returncode == 0, f"testbed {' '.join(words)}: {done.stdout}{done.stderr}"
        return done

    def up(self) -> None:
        """Boot the hosts and install the simulator on them."""
        self.down()
        (self.share / "node").mkdir(parents=True, exist_ok=True)
        for program in ("reset.sh", "snapshot.py"):
            shutil.copy2(HERE / "node" / program, self.share / "node" / program)
        ignore = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / "tests" / "simulator", self.share / "simulator", ignore=ignore, dirs_exist_ok=True)
        (self.share / "version").write_text(VERSION + "\n", encoding="ascii")
        (self.share / "settings.json").write_text(json.dumps(BASE_SETTINGS), encoding="ascii")
        for path in (self.share, *self.share.parents):
            if path.stat().st_uid == os.getuid() and path.is_relative_to("/tmp"):
                path.chmod(path.stat().st_mode | 0o055)
        self.testbed("--net", self.net, "up", str(len(self.nodes)), check=True, TESTBED_SHARE=str(self.share))
        self.control_path_dir.mkdir(mode=0o700, exist_ok=True)
        # Its input ends with this process, however that ends: no bed outlives a test run that was killed.
        self.watcher = subprocess.Popen(
            ["sh", "-c", 'read -r _; exec "$0" down', str(TESTBED)],
            env={**os.environ, "TESTBED_STATE": str(self.state)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def down(self) -> None:
        """Stop every host; nothing is left behind."""
        if self.watcher is not None and self.watcher.stdin is not None:
            self.watcher.stdin.close()
            assert self.watcher.wait(timeout=LIMIT) == 0, f"the test bed in {self.state} does not end"
            self.watcher = None
        else:
            self.testbed("down", check=True)

    def each(self, function: t.Callable[[Node], t.Any], nodes: t.Iterable[Node] | None = None) -> dict[str, t.Any]:
        """The result of a function for each node, all at once."""
        chosen = list(self.nodes if nodes is None else nodes)
        return dict(zip((node.name for node in chosen), self.pool.map(function, chosen)))

    def close_connections(self) -> None:
        """End the connections that ssh keeps open, so that the next one has to be made."""
        for path in self.control_path_dir.iterdir():
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "none"], capture_output=True, check=False)

    def reset(self) -> None:
        """Clean hosts again, whatever was done to them."""
        for name in sorted(self.off):
            self[name].power_on()
        for name in sorted(self.frozen):
            self[name].thaw_ssh()
        self.each(lambda node: node.run("/srv/share/node/reset.sh", "/srv/share/settings.json"))

    # --- the domain --------------------------------------------------------------------------------------------------

    def by_hand(
        self, nodes: t.Sequence[Node], text: str | None = None, config: t.Mapping[str, str] | None = None
    ) -> None:
        """Set a domain up without the collection: node list, changed keys of config.cfg, unit enabled and started."""
        body = text if text is not None else "".join(node.address + "\n" for node in nodes)
        edits = "".join(f"s|^{key}=.*|{key}={value}|;" for key, value in (config or {}).items())

        def deploy(node: Node) -> None:
            node.write(NODES, body)
            if edits:
                node.run("sed", "-i", edits, CONFIG)
            node.shell(f"systemctl -q enable {UNIT}; systemctl start --no-block {UNIT}")

        self.each(deploy, nodes)
        self.wait_up(nodes)

    def wait_up(self, nodes: t.Sequence[Node], seconds: float = LIMIT) -> None:
        """Until every one of these sees all of them READY and connected; fails after so many seconds."""
        deadline = time.monotonic() + seconds
        for node in nodes:
            while not self.is_up(node, nodes):
                assert time.monotonic() < deadline, (
                    f"{node} does not see {nodes}: {node.try_run('nvidia-imex-ctl', '-N').stdout}"
                    f"{node.run('tail', '-n', '5', LOG, check=False)}"
                )
                time.sleep(0.1)

    def is_up(self, node: Node, nodes: t.Sequence[Node]) -> bool:
        """The node's own control tool says UP, and the domain is exactly these."""
        done = node.try_run("timeout", "20", "nvidia-imex-ctl", "-N", "-j")
        if done.returncode != 0:
            return False
        answer = json.loads(done.stdout)
        hosts = sorted(entry["host"] for entry in answer["nodes"].values())
        return answer["status"] == "UP" and hosts == sorted(other.address for other in nodes)

    def clocks(self, nodes: t.Iterable[Node] | None = None) -> dict[str, Clock]:
        return t.cast("dict[str, Clock]", self.each(Node.clock, nodes))

    def starts(self, nodes: t.Iterable[Node] | None = None) -> dict[str, str]:
        """systemd's id of each daemon's present run: another one means that it was restarted."""
        return {name: clock.invocation_id for name, clock in self.clocks(nodes).items()}

    def snapshots(self, nodes: t.Iterable[Node] | None = None) -> dict[str, t.Any]:
        return self.each(Node.snapshot, nodes)


def all_together(clocks: t.Iterable[Clock]) -> bool:
    """Every daemon had stopped before the first one started again."""
    known = list(clocks)
    return max(clock.stopped_at for clock in known) < min(clock.starting_at for clock in known)


def one_at_a_time(clocks: t.Iterable[Clock]) -> bool:
    """No two daemons were down at the same moment."""
    spans = sorted((clock.stopping_at, clock.started_at) for clock in clocks)
    return all(0 < began < ended for began, ended in spans) and all(
        ended < began for (_began, ended), (began, _ended) in zip(spans, spans[1:])
    )
