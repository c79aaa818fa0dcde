# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for systemctl."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import time

import pytest

UNIT = "nvidia-imex.service"


class Unit:
    def __init__(self, host, helpers):
        self.host, self.helpers = host, helpers
        self.root = host.dir / "units"
        self.dir = self.root / UNIT
        self.dir.mkdir(parents=True)
        host.pid_path = self.dir / "mainpid"
        command = " ".join(helpers.command("nvidia-imex", "-c", host.config_path))
        self.define("Type=forking", "TimeoutStartSec=infinity", "TimeoutStopSec=1", f"ExecStart={command}")

    def define(self, *lines):
        (self.dir / "unit").write_text("".join(f"{line}\n" for line in lines))

    def add(self, *lines):
        with (self.dir / "unit").open("a") as f:
            f.write("".join(f"{line}\n" for line in lines))

    def call(self, *arguments, timeout=20):
        environment = {"SYSTEMCTL_ROOT": str(self.root)}
        return self.helpers.run("systemctl", *arguments, env=environment, timeout=timeout)

    def show(self, *names, options=()):
        done = self.call("show", "nvidia-imex", "--property=" + ",".join(names), *options)
        assert done.returncode == 0
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def active(self):
        return self.call("is-active", "nvidia-imex").stdout.strip()


@pytest.fixture
def unit(make_hosts, helpers):
    made = Unit(make_hosts(1)[0], helpers)
    yield made
    made.call("kill", "--signal=KILL", "nvidia-imex")
    (made.dir / "stopping").touch()  # so that no supervisor starts it again


def test_a_life(unit):
    before = unit.show("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "InvocationID")
    assert before == {
        "Id": UNIT,
        "LoadState": "loaded",
        "ActiveState": "inactive",
        "SubState": "dead",
        "UnitFileState": "disabled",
        "MainPID": "0",
        "InvocationID": "",
    }
    assert unit.call("start", "nvidia-imex").returncode == 0
    running = unit.show("ActiveState", "SubState", "MainPID", "ExecMainPID", "InvocationID", "Result", "NRestarts")
    assert (running["ActiveState"], running["SubState"]) == ("active", "running")
    assert int(running["MainPID"]) == unit.host.pid
    assert re.fullmatch("[0-9a-f]{32}", running["InvocationID"])
    assert unit.host.state() == "READY"
    assert unit.call("start", "nvidia-imex").returncode == 0
    assert unit.show("InvocationID")["InvocationID"] == running["InvocationID"]
    assert unit.call("restart", "nvidia-imex").returncode == 0
    again = unit.show("InvocationID", "MainPID")
    assert again["InvocationID"] != running["InvocationID"]
    assert again["MainPID"] != running["MainPID"]
    assert unit.call("stop", "nvidia-imex").returncode == 0
    after = unit.show("ActiveState", "SubState", "Result", "MainPID")
    assert after == {"ActiveState": "inactive", "SubState": "dead", "Result": "success", "MainPID": "0"}
    assert not unit.host.alive()


def test_show_without_properties_and_in_systemds_order(unit):
    names = [line.split("=")[0] for line in unit.call("show", "nvidia-imex").stdout.splitlines()]
    for name in ("Type", "TimeoutStartUSec", "NRestarts", "ExecMainStatus", "Id", "FragmentPath"):
        assert name in names
    assert names.index("Type") < names.index("MainPID") < names.index("Id") < names.index("ConditionResult")
    assert "DropInPaths" not in names  # empty
    assert unit.call("show", "-p", "LoadState,Type", "--value", "nvidia-imex").stdout == "forking\nloaded\n"


def test_not_found(unit):
    assert (
        unit.call("show", "nothing", "-p", "LoadState,UnitFileState").stdout == "LoadState=not-found\nUnitFileState=\n"
    )
    assert unit.call("start", "nothing").returncode == 5
    assert unit.call("is-active", "nothing").stdout == "inactive\n"


def test_a_daemon_that_died_is_noticed(unit, helpers):
    unit.call("start", "nvidia-imex")
    os.kill(unit.host.pid, signal.SIGKILL)
    helpers.wait_for(lambda: unit.active() == "failed", "failed")
    assert unit.show("Result", "ExecMainStatus") == {"Result": "signal", "ExecMainStatus": "9"}
    assert unit.call("reset-failed", "nvidia-imex").returncode == 0
    assert unit.active() == "inactive"


def test_a_daemon_that_ended_by_itself_is_no_failure(unit, helpers):
    unit.call("start", "nvidia-imex")
    unit.call("kill", "-s", "TERM", "nvidia-imex")
    helpers.wait_for(lambda: unit.active() == "inactive", "inactive")
    assert unit.show("Result")["Result"] == "success"


def test_a_start_that_fails(unit):
    unit.host.write_nodes(["127.9.9.9"])
    done = unit.call("start", "nvidia-imex")
    assert done.returncode == 1
    assert unit.show("ActiveState", "SubState", "Result", "ExecMainStatus") == {
        "ActiveState": "failed",
        "SubState": "failed",
        "Result": "exit-code",
        "ExecMainStatus": "1",
    }


def test_restart_on_failure_until_the_start_limit(unit, helpers):
    unit.host.write_nodes(["127.9.9.9"])
    unit.add("Restart=on-failure", "RestartSec=0.1s")
    assert unit.call("start", "nvidia-imex").returncode == 1
    assert unit.show("ActiveState")["ActiveState"] == "activating"
    helpers.wait_for(lambda: unit.active() == "failed", "given up")
    assert unit.show("NRestarts")["NRestarts"] == "4"


def test_a_start_that_hangs_can_be_left_and_stopped(unit, helpers):
    unit.host.fault(never_ready=True)
    began = time.monotonic()
    assert unit.call("start", "--no-block", "nvidia-imex", timeout=2).returncode == 0
    assert time.monotonic() - began < 2
    helpers.wait_for(lambda: unit.host.state() == "INIT_GPU", "INIT_GPU")
    assert unit.show("ActiveState", "SubState") == {"ActiveState": "activating", "SubState": "start"}
    assert unit.call("is-active", "nvidia-imex").returncode == 3
    assert unit.call("stop", "nvidia-imex").returncode == 0
    assert not unit.host.alive()


def test_start_timeout(unit):
    unit.host.fault(never_ready=True)
    unit.add("TimeoutStartSec=1")
    assert unit.call("start", "nvidia-imex").returncode == 1
    assert unit.show("ActiveState", "Result") == {"ActiveState": "failed", "Result": "timeout"}


def test_stop_timeout_kills(unit):
    unit.host.fault(ignore_sigterm=True)
    unit.call("start", "nvidia-imex")
    unit.call("stop", "nvidia-imex")
    assert unit.show("ActiveState", "Result") == {"ActiveState": "failed", "Result": "timeout"}
    assert not unit.host.alive()


def test_enablement(unit):
    assert (unit.call("is-enabled", "nvidia-imex").stdout, unit.call("enable", "nvidia-imex").returncode) == (
        "disabled\n",
        0,
    )
    assert unit.show("UnitFileState")["UnitFileState"] == "enabled"
    unit.call("mask", "nvidia-imex")
    assert unit.show("LoadState", "UnitFileState", "FragmentPath") == {
        "LoadState": "masked",
        "UnitFileState": "masked",
        "FragmentPath": f"/etc/systemd/system/{UNIT}",
    }
    done = unit.call("start", "nvidia-imex")
    assert done.returncode == 1
    assert "is masked" in done.stderr
    unit.call("unmask", "nvidia-imex")
    assert unit.call("is-enabled", "nvidia-imex").stdout == "enabled\n"
    unit.call("disable", "nvidia-imex")
    assert unit.call("is-enabled", "nvidia-imex").returncode == 1


def test_drop_ins_conditions_and_reload(unit, tmp_path):
    (unit.dir / "dropins").mkdir()
    path = unit.dir / "dropins" / "50-driver.conf"
    path.write_text(f"[Unit]\nConditionPathExists={tmp_path}/nvidiactl\n[Service]\nTimeoutStartSec=2min\n")
    shown = unit.show("DropInPaths", "TimeoutStartUSec")
    assert shown == {"DropInPaths": str(path), "TimeoutStartUSec": "2min"}
    assert unit.call("start", "nvidia-imex").returncode == 0
    assert unit.show("ActiveState", "ConditionResult") == {"ActiveState": "inactive", "ConditionResult": "no"}
    (tmp_path / "nvidiactl").touch()
    unit.call("start", "nvidia-imex")
    assert unit.show("ActiveState", "ConditionResult") == {"ActiveState": "active", "ConditionResult": "yes"}
    later = time.time() + 5
    os.utime(path, (later, later))
    assert unit.show("NeedDaemonReload")["NeedDaemonReload"] == "yes"
    now = time.time() - 5
    os.utime(path, (now, now))
    unit.call("daemon-reload")
    assert unit.show("NeedDaemonReload")["NeedDaemonReload"] == "no"


def test_timestamps(unit):
    began = int(time.time())
    unit.call("start", "nvidia-imex")
    names = ("ActiveEnterTimestamp", "ExecMainStartTimestamp")
    pretty = unit.show(*names)["ActiveEnterTimestamp"]
    assert re.fullmatch(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", pretty)
    unix = unit.show(*names, options=("--timestamp=unix",))
    for name in names:
        assert began <= int(unix[name].lstrip("@")) <= time.time()
    micros = unit.show(*names, options=("--timestamp=us",))["ActiveEnterTimestamp"]
    assert re.fullmatch(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S+", micros)


def test_type_simple(unit, helpers):
    unit.host.write_config(DAEMONIZE=0)
    command = " ".join(helpers.command("nvidia-imex", "-c", unit.host.config_path))
    unit.define("Type=simple", "TimeoutStopSec=2", f"ExecStart={command}", "Environment=A=1 B=2")
    assert unit.call("start", "nvidia-imex").returncode == 0
    helpers.wait_for(lambda: unit.host.state() == "READY", "READY")
    environment = pathlib.Path(f"/proc/{unit.show('MainPID')['MainPID']}/environ").read_text()
    assert "A=1\0" in environment
    assert "B=2\0" in environment
    unit.call("stop", "nvidia-imex")
    assert unit.active() == "inactive"


def test_a_look_starts_no_process(unit, helpers):
    """Roles call it hundreds of times, so only the shell itself may be started."""
    unit.call("start", "nvidia-imex")
    empty = unit.host.dir / "empty"
    empty.mkdir()
    done = helpers.run(
        "systemctl", "show", "nvidia-imex", env={"SYSTEMCTL_ROOT": str(unit.root), "PATH": str(empty)}, timeout=5
    )
    assert "ActiveState=active\n" in done.stdout
    assert done.stderr == ""
