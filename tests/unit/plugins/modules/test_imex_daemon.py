# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as Ansible runs it, with the simulator's daemons and its stand-in for systemctl, which keeps real processes."""

import json
import os
import pathlib
import subprocess
import time
import typing as t

import pytest
from ansible.module_utils.common import warnings as shown

from ansible_collections.hpc.fabric.plugins.module_utils.imex import daemon, dropin
from ansible_collections.hpc.fabric.plugins.modules import imex_daemon, imex_status

BIN = pathlib.Path(__file__).resolve().parents[3] / "simulator" / "bin"
UNIT = "nvidia-imex.service"


class Host:
    """One simulated host: a folder, an address of its own, a unit."""

    def __init__(self, root: pathlib.Path, addresses: t.Sequence[str], number: int, run_module: t.Any) -> None:
        self.root = root
        self.address = addresses[number]
        self.run_module = run_module
        self.config = root / "etc" / "config.cfg"
        self.nodes = root / "etc" / "nodes_config.cfg"
        self.units = root / "systemd"
        for name in ("etc", "dev", "run", f"systemd/{UNIT}"):
            (root / name).mkdir(parents=True)
        (root / "dev" / "nvidiactl").write_text("")
        # The stand-in finds drop-ins in its own tree.
        (self.units / UNIT / "dropins").symlink_to(root / "units" / f"{UNIT}.d")
        self.nodes.write_text("".join(f"{address}\n" for address in addresses))
        keys = {
            "LOG_FILE_NAME": root / "imex.log",
            "STATS_FILE_NAME": root / "stats.log",
            "IMEX_NODE_CONFIG_FILE": self.nodes,
            "BIND_INTERFACE_IP": self.address,
            "IMEX_CMD_BIND_INTERFACE_IP": self.address,
            "SERVER_PORT": 31000,
            "IMEX_CMD_PORT": 31005,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        self.simulate()
        self.unit(f"{BIN / 'nvidia-imex'} -c {self.config}")
        self.enablement("enabled")

    def unit(self, command: str, **keys: str) -> None:
        values = dict({"Type": "forking", "TimeoutStartSec": "infinity", "ExecStart": command}, **keys)
        text = "[Service]\n" + "".join(f"{key}={value}\n" for key, value in values.items())
        (self.units / UNIT / "unit").write_text(text)

    def enablement(self, word: str) -> None:
        (self.units / UNIT / "enablement").write_text(word + "\n")

    def enabled(self) -> str:
        return (self.units / UNIT / "enablement").read_text().strip()

    def simulate(self, **faults: t.Any) -> None:
        """Settings of the simulator; times run twenty times as fast."""
        settings = {"run_dir": str(self.root / "run"), "time_scale": 0.05, "faults": faults}
        (self.root / "etc" / "imex-simulator.json").write_text(json.dumps(settings))

    @property
    def options(self) -> dict[str, t.Any]:
        return {
            "config_path": str(self.config),
            "control_command": str(BIN / "nvidia-imex-ctl"),
            "systemctl_command": str(BIN / "systemctl"),
            "state_dir": str(self.root / "state"),
            "run_dir": str(self.root / "ours"),
            "unit_dir": str(self.root / "units"),
        }

    def run(self, main: t.Callable[[], None], check: bool, diff: bool, params: dict[str, t.Any]) -> t.Any:
        # They add up over all modules that run in one process.
        shown._global_warnings.clear()
        os.environ["SYSTEMCTL_ROOT"] = str(self.units)
        return self.run_module(main, check, diff, **dict(self.options, **params))

    def call(self, check: bool = False, diff: bool = False, **params: t.Any) -> t.Any:
        params.setdefault("driver_path", str(self.root / "dev" / "nvidiactl"))
        return self.run(imex_daemon.main, check, diff, params)

    def status(self, **params: t.Any) -> t.Any:
        return self.run(imex_status.main, False, False, params)

    def start(self) -> t.Any:
        """Start the daemon and wait until it is ready."""
        result = self.call(state="started")
        assert self.status(gather=["daemon"], require="ready", wait_timeout=30, wait_interval=0.05).rc == 0
        return result

    def record(self) -> daemon.StartRecord | None:
        return daemon.read_record(str(self.root / "ours"), "nvidia-imex")

    def state(self) -> str:
        command = [str(BIN / "systemctl"), "show", "--value", "-p", "ActiveState", UNIT]
        return subprocess.run(
            command, env=dict(os.environ, SYSTEMCTL_ROOT=str(self.units)), capture_output=True, text=True, check=True
        ).stdout.strip()

    def end(self) -> None:
        """Leave no daemon behind, nor a start that would bring one yet."""
        environment = dict(os.environ, SYSTEMCTL_ROOT=str(self.units))
        for verb in (["kill", "--signal=SIGKILL"], ["stop"]):
            subprocess.run(
                [str(BIN / "systemctl"), *verb, UNIT], env=environment, capture_output=True, check=False, timeout=60
            )


Domain = t.Callable[[int], "list[Host]"]


@pytest.fixture
def domain(tmp_path: pathlib.Path, run_module: t.Any, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Domain]:
    """Make a domain of n hosts, each with an address in 127.0.0.0/8 that no other test has."""
    hosts: list[Host] = []
    monkeypatch.setenv("SYSTEMCTL_ROOT", str(tmp_path))
    net = f"127.{os.getpid() % 200 + 20}.{int(time.time() * 10) % 250}"

    def make(count: int) -> list[Host]:
        addresses = [f"{net}.{number}" for number in range(1, count + 1)]
        for number in range(count):
            hosts.append(Host(tmp_path / f"host{number}", addresses, number, run_module))
        return hosts

    yield make
    for host in hosts:
        host.end()


@pytest.fixture
def host(domain: Domain) -> Host:
    return domain(1)[0]


def texts(result: t.Any) -> str:
    return json.dumps(result.data.get("warnings", []))


def files_of(root: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_start_notes_what_was_loaded(host: Host) -> None:
    result = host.call(state="started", run_id="run-1")
    assert (result.rc, result.changed, result.data["actions"]) == (0, True, ["start"])
    assert result.data["unit"]["before"]["active_state"] == "inactive"
    assert result.data["unit"]["after"]["active_state"] in ("activating", "active")
    record = host.record()
    assert record is not None
    assert (record.nodes, record.origin, record.writer_run) == ((host.address,), "started", "run-1")
    assert dict(record.config)["SERVER_PORT"] == "31000"
    assert record.invocation_id == result.data["invocation_id"] == result.data["record"]["invocation_id"]
    status = host.status(require="quorum", wait_timeout=30, wait_interval=0.05)
    assert (status.rc, status.data["verdict"], status.data["node_map"]["source"]) == (0, "healthy", "record")


def test_start_again_changes_nothing(host: Host) -> None:
    host.start()
    result = host.call(state="started")
    assert (result.changed, result.data["actions"]) == (False, [])
    assert result.data["record"]["nodes"] == [host.address]


def test_stop_is_graceful(host: Host) -> None:
    host.start()
    result = host.call(state="stopped")
    assert (result.changed, result.data["actions"], result.data["killed"]) == (True, ["stop"], False)
    assert (result.data["unit"]["after"]["active_state"], host.state()) == ("inactive", "inactive")
    assert result.data["record"] is None or result.data["unit"]["after"]["invocation_id"]
    again = host.call(state="stopped")
    assert (again.changed, again.data["actions"]) == (False, [])


def test_restart_takes_the_new_files(host: Host) -> None:
    first = host.start().data["invocation_id"]
    host.config.write_text(host.config.read_text() + "LOG_LEVEL=3\n")
    assert host.status().data["verdict"] == "healthy"
    result = host.call(state="restarted")
    assert (result.changed, result.data["actions"]) == (True, ["stop", "start"])
    assert result.data["invocation_id"] != first
    record = host.record()
    assert record is not None
    assert dict(record.config)["LOG_LEVEL"] == "3"


def test_check_mode_says_it_and_does_nothing(host: Host) -> None:
    host.enablement("disabled")
    before = files_of(host.root)
    result = host.call(check=True, state="started", enabled=True, dropin=True, masked=True)
    assert (result.rc, result.changed) == (0, True)
    assert result.data["actions"] == ["dropin", "daemon-reload", "enable", "start", "mask"]
    assert files_of(host.root) == before
    host.start()
    assert host.call(check=True, state="stopped").data["actions"] == ["stop"]
    assert host.call(check=True, state="restarted").data["actions"] == ["stop", "start"]
    assert host.call(check=True, note=True).data["actions"] == ["note"]
    assert host.state() == "active"


def test_check_mode_without_unit_or_systemctl(host: Host) -> None:
    (host.units / UNIT / "unit").unlink()
    (host.units / UNIT / "enablement").unlink()
    result = host.call(check=True, state="started", enabled=True)
    assert (result.rc, result.data["actions"]) == (0, ["enable", "start"])
    assert "There is no unit nvidia-imex.service" in texts(result)
    result = host.call(check=True, state="started", systemctl_command="no-such-systemctl")
    assert (result.rc, result.data["actions"]) == (0, ["start"])
    assert "no-such-systemctl was not found" in texts(result)


def test_a_unit_that_is_not_there(host: Host) -> None:
    (host.units / UNIT / "unit").unlink()
    (host.units / UNIT / "enablement").unlink()
    for params in ({"state": "started"}, {"enabled": True}):
        result = host.call(**params)
        assert result.rc == 1
        assert "There is no unit nvidia-imex.service" in result.msg
    result = host.call(state="stopped", enabled=False)
    assert (result.rc, result.changed) == (0, False)


def test_no_systemctl(host: Host) -> None:
    result = host.call(state="started", systemctl_command="no-such-systemctl")
    assert result.rc == 1
    assert "no-such-systemctl was not found" in result.msg


def test_a_start_that_hangs_does_not_hang_us_and_a_stop_ends_it(host: Host) -> None:
    host.simulate(hang_start=True)
    result = host.call(state="started")
    assert result.data["unit"]["after"]["active_state"] == "activating"
    assert host.record() is not None
    assert host.status().data["verdict"] == "starting"
    assert host.call(state="started").changed is False
    result = host.call(state="stopped")
    assert (result.rc, result.changed) == (0, True)
    assert host.state() in ("inactive", "failed")


def test_a_daemon_that_does_not_stop_is_killed_and_that_is_said(host: Host) -> None:
    host.simulate(ignore_sigterm=True)
    host.start()
    result = host.call(state="stopped", stop_timeout=0.5)
    assert (result.rc, result.data["killed"]) == (0, True)
    assert result.data["actions"] == ["stop", "kill"]
    assert "did not stop within 0.5 s and was killed" in texts(result)
    assert host.state() in ("inactive", "failed")


def test_a_daemon_that_fails_is_reported_and_not_raised(host: Host) -> None:
    host.unit("/bin/false")
    result = host.call(state="started")
    assert result.rc == 0
    wait_for(lambda: host.state() == "failed")
    result = host.call(state="started")
    assert (result.rc, result.data["actions"]) == (0, ["reset-failed", "start"])


def test_a_restart_loop_is_reported(host: Host) -> None:
    host.unit("/bin/false", Restart="on-failure", RestartSec="4")
    host.call(state="started")
    wait_for(lambda: host.status().data["daemon"]["sub_state"] == "auto-restart")
    result = host.call()
    assert (result.rc, result.changed) == (0, False)
    assert "fails and is started again and again" in texts(result)
    status = host.status()
    assert (status.data["verdict"], status.data["reasons"][0]["code"]) == ("down", "restart_loop")
    result = host.call(state="stopped")
    assert (result.data["actions"], host.state()) == (["stop"], "inactive")


def test_a_condition_that_does_not_hold_is_said(host: Host) -> None:
    (host.root / "dev" / "nvidiactl").unlink()
    result = host.call(state="started", dropin=True)
    assert result.rc == 0
    assert result.data["unit"]["after"]["active_state"] == "inactive"
    assert "a condition of it does not hold" in texts(result)
    assert result.data["record"] is None


def test_dropin(host: Host) -> None:
    path = pathlib.Path(dropin.path(str(host.root / "units"), "nvidia-imex"))
    result = host.call(diff=True, dropin=True, start_timeout=30)
    assert (result.changed, result.data["actions"]) == (True, ["dropin", "daemon-reload"])
    text = dropin.text(30, str(host.root / "dev" / "nvidiactl"), str(host.nodes))
    assert path.read_text() == text
    assert (result.data["diff"]["before"], result.data["diff"]["after"]) == ("", text)
    assert result.data["unit"]["after"]["start_timeout"] == 30
    again = host.call(diff=True, dropin=True, start_timeout=30)
    assert (again.changed, again.data["actions"], "diff" in again.data) == (False, [], False)
    assert host.call().changed is False
    removed = host.call(dropin=False)
    assert (removed.changed, removed.data["actions"]) == (True, ["remove-dropin", "daemon-reload"])
    assert not path.exists()
    assert host.call(dropin=False).changed is False


@pytest.mark.parametrize(
    "before, wanted, after, actions",
    [
        ("disabled", True, "enabled", ["enable"]),
        ("enabled", True, "enabled", []),
        ("enabled", False, "disabled", ["disable"]),
        ("disabled", False, "disabled", []),
        ("enabled-runtime", True, "enabled", ["enable"]),
        ("enabled-runtime", False, "disabled", ["disable"]),
        ("static", False, "static", []),
    ],
)
def test_enabled(before: str, wanted: bool, after: str, actions: list[str], host: Host) -> None:
    host.enablement(before)
    result = host.call(enabled=wanted)
    assert (result.changed, result.data["actions"], host.enabled()) == (bool(actions), actions, after)


def test_mask_can_be_undone(host: Host) -> None:
    host.enablement("enabled")
    host.start()
    result = host.call(state="stopped", masked=True, run_id="run-1")
    assert (result.changed, result.data["actions"], host.enabled()) == (True, ["stop", "mask"], "masked")
    status = host.status()
    assert (status.data["verdict"], status.data["daemon"]["masked_by_us"]) == ("idle", True)
    assert host.call(masked=True).changed is False
    refused = host.call(state="started")
    assert refused.rc == 1
    assert "set masked=false too" in refused.msg
    result = host.call(state="started", masked=False)
    assert (result.rc, result.data["actions"], host.enabled()) == (0, ["unmask", "start"], "enabled")
    assert host.call(masked=False).changed is False


def test_what_others_masked_is_left_alone(host: Host) -> None:
    host.enablement("masked")
    for params in ({"state": "started"}, {"masked": False}):
        result = host.call(**params)
        assert result.rc == 1
        assert "masked, and not by this collection" in result.msg
    assert host.call(state="stopped").rc == 0
    assert host.call(masked=True).changed is False
    assert "masked, and not by" in host.call(masked=False).msg
    result = host.call(masked=False, force_unmask=True)
    assert (result.rc, result.data["actions"]) == (0, ["unmask"])


def test_note_adopts_a_running_daemon(host: Host) -> None:
    host.start()
    (host.root / "ours" / "imex-start-nvidia-imex.json").unlink()
    assert host.status().data["node_map"]["source"] == "own_row"
    result = host.call(note=True, run_id="run-2")
    assert (result.changed, result.data["actions"]) == (False, ["note"])
    record = host.record()
    assert record is not None
    assert (record.origin, record.writer_run, record.nodes) == ("adopted", "run-2", (host.address,))
    assert host.status().data["node_map"]["source"] == "record"
    assert host.call(note=True).data["actions"] == []
    host.config.write_text(host.config.read_text() + "LOG_LEVEL=2\n")
    assert host.call(note=True).data["actions"] == ["note"]


def test_note_of_a_stopped_daemon_is_nothing(host: Host) -> None:
    result = host.call(note=True)
    assert (result.rc, result.changed, result.data["record"]) == (0, False, None)
    assert "not running, so there is nothing to note" in texts(result)


def test_a_domain_of_four(domain: Domain) -> None:
    hosts = domain(4)
    for host in hosts:
        host.call(state="started")
    for host in hosts:
        result = host.status(require="quorum", wait_timeout=60, wait_interval=0.05)
        assert result.rc == 0, result.msg
    wait_for(lambda: all(host.status().data["verdict"] == "healthy" for host in hosts))
    first, last = hosts[0], hosts[-1]

    last.call(state="stopped")
    wait_for(lambda: first.status().data["quorum"]["connected"] == 3)
    data = first.status().data
    assert data["verdict"] == "degraded"
    assert {reason["code"] for reason in data["reasons"]} == {"node_not_ready", "node_not_connected"}
    assert all(reason["nodes"] == [last.address] for reason in data["reasons"])
    assert first.status(require="quorum", quorum="75%").rc == 0
    assert last.status().data["verdict"] == "down"

    # It comes back with another list: the pairs are blocked, and that is no network fault.
    last.nodes.write_text(f"{first.address}\n{last.address}\n")
    last.start()
    wait_for(lambda: "node_map_mismatch" in codes(first))
    assert "node_map_mismatch" in codes(last)
    last.nodes.write_text("".join(f"{host.address}\n" for host in hosts))
    assert "loaded_differs" in codes(last)


def codes(host: Host) -> set[str]:
    return {reason["code"] for reason in host.status().data["reasons"]}


def wait_for(holds: t.Callable[[], bool]) -> None:
    """Until it holds; a minute is far more than it takes."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
