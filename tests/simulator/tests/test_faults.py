# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault switch does what the README says."""

from __future__ import annotations

import json
import subprocess

import pytest

C, N, R = "CONNECTED", "NEVER_CONNECTED", "RECOVERING"


def reported(helpers, host, condition, what):
    helpers.wait_for(lambda: condition(host), what)


def test_exit_at_start(make_hosts):
    host = make_hosts(1)[0]
    host.fault(exit_at_start={"code": 7, "text": "no memory"})
    assert host.start().returncode == 7
    assert "[ERROR]" in host.log
    assert "no memory" in host.log


def test_hang_start_opens_nothing(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.fault(hang_start=True)
    starting = host.start_in_background()
    helpers.wait_for(lambda: "matched with GPU Driver version" in host.log, "half of the start")
    assert host.ctl("-q").returncode == 1
    assert starting.poll() is None
    host.stop()
    assert starting.wait(timeout=5) == 0


def test_never_ready_answers_but_does_not_return(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.fault(never_ready=True)
    starting = host.start_in_background()
    helpers.wait_for(lambda: host.state() == "INIT_GPU", "INIT_GPU")
    assert starting.poll() is None


def test_never_return_is_ready_all_the_same(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.fault(never_return=True)
    starting = host.start_in_background()
    helpers.wait_for(lambda: host.state() == "READY", "READY")
    assert starting.poll() is None


def test_init_seconds(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.fault(init_seconds=0.5)
    starting = host.start_in_background()
    helpers.wait_for(lambda: host.state() == "INIT_GPU", "INIT_GPU")
    assert starting.wait(timeout=10) == 0
    assert host.state() == "READY"


def test_crash_after(make_up, helpers):
    host = make_up(1, importers=[0])[0]
    host.fault(crash_after=0)
    helpers.wait_for(lambda: not host.alive(), "crash")
    assert not (host.dir / "mainpid.exit").exists()
    assert host.persist_path.read_text().count("\n") == 2


def test_wrong_version(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].fault(wrong_version="570.133.20")
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: hosts[0].row() == [C, "VERSION_MISMATCH"], "mismatch")
    assert hosts[0].domain()["nodes"]["1"]["version"] == "570.133.20"


def test_node_map_mismatch(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].fault(node_map_mismatch=True)
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: [h.row() for h in hosts] == [[C, "NODE_MAP_MISMATCH"], ["NODE_MAP_MISMATCH", C]], "!M!")


def test_cmd_port_closed_and_opened_again(make_up, helpers):
    hosts = make_up(2)
    hosts[1].fault(cmd_port_closed=True)
    helpers.wait_for(lambda: hosts[0].domain()["nodes"]["1"]["status"] == "UNAVAILABLE", "closed")
    assert hosts[0].domain()["status"] == "DEGRADED"
    assert hosts[0].row() == [C, C]
    hosts[1].fault()
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "open")


def test_peer_port_closed(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].fault(peer_port_closed=True)
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: hosts[1].row() == [C, N], "one direction")
    assert hosts[0].row() == [C, N]
    hosts[1].fault()
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "both directions")


def test_isolate_cuts_and_heals(make_up, helpers):
    hosts = make_up(3)
    hosts[0].fault(isolate=[hosts[2].address])
    helpers.wait_for(lambda: hosts[0].row() == [C, C, R] and hosts[2].row() == [R, C, C], "cut")
    assert hosts[1].row() == [C, C, C]
    hosts[0].fault()
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "healed")
    assert "is a new instance" not in hosts[0].log


def test_ignore_sigterm(make_up):
    # From its start: a daemon sees a change of its settings a moment later only.
    host = make_up(1, faults={"ignore_sigterm": True})[0]
    host.stop_timeout = 1
    with pytest.raises(AssertionError, match="not reached"):
        host.stop(timeout=0.5)
    assert host.alive()


def test_slow_stop_is_seen_as_shutting_down(make_up, helpers):
    host = make_up(1, faults={"slow_stop": 0.5})[0]
    host.send_signal(15)
    helpers.wait_for(lambda: host.state() == "SHUTTING_DOWN", "SHUTTING_DOWN")
    helpers.wait_for(lambda: not host.alive(), "end")


def test_report_state_and_connections(make_up, helpers):
    host = make_up(2)[0]
    host.fault(report_state="SOMETHING_NEW", report_connections={"1": "HALF_OPEN"})
    helpers.wait_for(lambda: host.state() == "SOMETHING_NEW", "state")
    assert host.row() == [C, "HALF_OPEN"]
    assert "HALF_OPEN" in host.ctl("-N").stdout


def test_torn_record(make_up, helpers):
    host = make_up(1, stats_interval=0.1, faults={"torn_record": True})[0]
    helpers.wait_for(lambda: "Performance" in host.stats_path.read_text(), "a record")
    assert "\n}\n" not in host.stats_path.read_text()
    host.fault()
    helpers.wait_for(lambda: "\n}\n" in host.stats_path.read_text(), "whole records again")
    last = host.stats_path.read_text().split("\nPerformance statistics for last 1 seconds  : ")[-1]
    assert "QueueStats" in json.loads(last.split("\n}\n")[0] + "\n}")


def test_ctl_hang(make_up, helpers):
    host = make_up(1)[0]
    host.fault(ctl_hang=True)
    with pytest.raises(subprocess.TimeoutExpired):
        host.ctl("-N", timeout=0.5)


def test_ctl_delay(make_up):
    host = make_up(1)[0]
    host.fault(ctl_delay=0.3)
    with pytest.raises(subprocess.TimeoutExpired):
        host.ctl("-q", timeout=0.2)
    assert host.state() == "READY"


def test_ctl_rubbish(make_up):
    host = make_up(1)[0]
    host.fault(ctl_rubbish=True)
    done = host.ctl("-N", "-j")
    assert done.returncode == 0
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(done.stdout)


def test_ctl_truncated(make_up):
    host = make_up(1)[0]
    host.fault(ctl_truncated=40)
    assert len(host.ctl("-N", "-j").stdout) == 40


def test_ctl_leading_log_lines(make_up):
    host = make_up(1)[0]
    host.fault(ctl_leading_log_lines=2)
    lines = host.ctl("-N", "-j").stdout.splitlines()
    assert lines[0].startswith("[")
    assert json.loads("\n".join(lines[2:]))["status"] == "UP"


def test_ctl_exit(make_up):
    host = make_up(1)[0]
    host.fault(ctl_exit={"code": 9, "text": "Segmentation fault\n"})
    done = host.ctl("-N")
    assert (done.returncode, done.stdout, done.stderr) == (9, "", "Segmentation fault\n")


@pytest.mark.parametrize("text", ['{"faults": {"no_such_fault": true}}', '{"colour": "red"}', "{", "[]"])
def test_a_mistake_in_the_settings_is_said(make_hosts, text):
    host = make_hosts(1)[0]
    host.settings_path.write_text(text)
    assert host.start().returncode == 1
    assert str(host.settings_path) in host.stderr
    assert host.ctl("-q").returncode == 2


def test_every_fault_has_a_test_and_a_line_in_the_readme():
    import pathlib

    from imex_simulator import settings

    here = pathlib.Path(__file__).parent
    tests = "".join(path.read_text() for path in here.glob("test_*.py"))
    readme = (here.parent / "README.md").read_text()
    for name in settings.FAULTS:
        assert f"{name}=" in tests or f'"{name}"' in tests, name
        assert f"`{name}`" in readme, name
    for name in settings.DEFAULTS:
        assert f"`{name}`" in readme, name
