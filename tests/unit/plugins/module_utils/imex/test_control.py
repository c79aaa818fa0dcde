# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import signal
import time
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import ControlError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import control
from ansible_collections.hpc.fabric.plugins.module_utils.process import Ended

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "ctl"
FAILURES = json.loads((FIXTURES / "failures.json").read_text(encoding="utf-8"))
STATES = (
    "INITIALIZING",
    "STARTING_AUTH_SERVER",
    "WAITING_FOR_PEERS",
    "WAITING_FOR_RECOVERY",
    "INIT_GPU",
    "READY",
    "SHUTTING_DOWN",
    "UNAVAILABLE",
    "REBALANCING",
)


@pytest.fixture
def tool(tmp_path: pathlib.Path) -> t.Callable[[str], str]:
    """Make a control tool of a shell script; it notes its arguments in the file calls."""

    def make(script: str) -> str:
        path = tmp_path / "nvidia-imex-ctl"
        path.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        return str(path)

    return make


def calls(tmp_path: pathlib.Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def answer(name: str, rc: int = 0) -> str:
    return f"cat {FIXTURES / name}; exit {rc}"


def test_query_domain_asks_once_for_json(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    command = tool(answer("ctl_Nj_570.172.08_up.json"))
    found = control.query_domain(command, "/etc/c.cfg", 10, ["192.168.107.187"])
    assert found.state == "UP"
    assert found.local is not None
    assert found.local.id == 1
    assert calls(tmp_path) == ["-c /etc/c.cfg -N -j"]


def test_query_domain_asks_for_host_names(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    command = tool(answer("ctl_NjH_580.95.05_down_payload.json"))
    found = control.query_domain(command, "/etc/c.cfg", 10, [], hostnames=True)
    assert found.nodes[0].hostname == "gpu-node-a"
    assert calls(tmp_path) == ["-c /etc/c.cfg -N -j -H"]


def test_query_domain_falls_back_to_the_table(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    script = f'case "$*" in *-j*) {answer("ctl_help_595_firstline.txt", 1)} ;; esac\n{answer("ctl_N_570.86_2node.txt")}'
    found = control.query_domain(tool(script), "/etc/c.cfg", 10, [])
    assert (found.state, found.form) == ("UP", "table")
    assert calls(tmp_path) == ["-c /etc/c.cfg -N -j", "-c /etc/c.cfg -N"]


def test_query_domain_takes_a_table_where_it_asked_for_json(
    tool: t.Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    found = control.query_domain(tool(answer("ctl_N_570.172_18node.txt")), "/etc/c.cfg", 10, [])
    assert (len(found.nodes), found.form) == (18, "table")
    assert len(calls(tmp_path)) == 1


def test_query_domain_takes_an_answer_in_spite_of_the_exit_status(tool: t.Callable[[str], str]) -> None:
    found = control.query_domain(tool(answer("ctl_Nj_570.172.08_down_unconfigured.json", 1)), "/c", 10, [])
    assert found.state == "DOWN"


def test_query_domain_runs_no_shell(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    command = tool(answer("ctl_Nj_570.172.08_up.json"))
    control.query_domain(command, f"/c; touch {tmp_path}/gone $(id)", 10, [])
    assert not (tmp_path / "gone").exists()
    assert calls(tmp_path) == [f"-c /c; touch {tmp_path}/gone $(id) -N -j"]


def test_the_tool_has_the_c_locale(tool: t.Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert control.query_daemon(tool('echo "$LC_ALL"'), "/c", 10) == "C"


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case["name"])
def test_failures(case: dict[str, t.Any], tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").write_text(case["stdout"])
    (tmp_path / "err").write_text(case["stderr"])
    leave = f"kill -{-case['rc']} $$" if case["rc"] < 0 else f"exit {case['rc']}"
    command = tool(f"cat {tmp_path}/out; cat {tmp_path}/err >&2; {leave}")
    for ask in (
        lambda: control.query_domain(command, "/c.cfg", 10, []),
        lambda: control.query_daemon(command, "/c.cfg", 10),
    ):
        with pytest.raises(ControlError) as raised:
            ask()
        assert raised.value.kind == case["kind"]
        assert case["contains"] in str(raised.value)


@pytest.mark.parametrize("word", STATES)
def test_query_daemon_carries_every_word_through(word: str, tool: t.Callable[[str], str]) -> None:
    assert control.query_daemon(tool(f"echo {word}"), "/c", 10) == word


def test_query_daemon_reads_the_last_word_of_old_versions(tool: t.Callable[[str], str]) -> None:
    assert control.query_daemon(tool('echo "stopAtReady: 0"; echo READY'), "/c", 10) == "READY"


def test_a_tool_that_is_not_there() -> None:
    with pytest.raises(ControlError) as raised:
        control.query_domain("no-such-imex-ctl", "/c", 10, [])
    assert raised.value.kind == "missing"
    assert "/opt/nvidia/imex/bin" in str(raised.value)
    assert "control_command" in str(raised.value)


def test_a_tool_that_cannot_be_run(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ctl"
    path.write_bytes(b"\x7fELF no program")
    path.chmod(0o755)
    with pytest.raises(ControlError) as raised:
        control.query_domain(str(path), "/c", 10, [])
    assert raised.value.kind == "failed"


def test_a_hanging_tool_is_killed_with_all_it_started(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    command = tool(f"echo partly; sleep 600 & echo $! >{tmp_path}/child; echo $$ >{tmp_path}/self; sleep 600")
    with pytest.raises(ControlError) as raised:
        control.query_domain(command, "/c", 0.5, [])
    assert raised.value.kind == "timeout"
    assert "within 0.5 s and was killed" in str(raised.value)
    assert raised.value.output == "partly"
    for name in ("self", "child"):
        assert gone(int((tmp_path / name).read_text()))


def test_the_time_limit_holds_for_both_calls(tool: t.Callable[[str], str], tmp_path: pathlib.Path) -> None:
    command = tool(f'case "$*" in *-j*) sleep 0.3; {answer("ctl_help_595_firstline.txt", 1)} ;; esac; exec sleep 600')
    with pytest.raises(ControlError) as raised:
        control.query_domain(command, "/c", 1, [])
    assert raised.value.kind == "timeout"
    assert len(calls(tmp_path)) == 2


def gone(pid: int) -> bool:
    """True when a process has ended; it was killed, so this is a matter of the kernel getting round to it."""
    for _attempt in range(100):
        try:
            os.kill(pid, 0)
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


def test_daemon_version(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nvidia-imex"
    path.write_text(f"#!/bin/sh\ncat {FIXTURES / 'daemon_version_570.148.08.txt'}\n")
    path.chmod(0o755)
    assert control.daemon_version(str(path)) == "570.148.08"
    path.write_text("#!/bin/sh\nexit 1\n")
    assert control.daemon_version(str(path)) is None
    assert control.daemon_version("no-such-imex") is None


def test_the_text_of_a_run_is_short_and_has_the_errors_first() -> None:
    assert Ended(1, "out\n", "err\n").text == "err\nout"
    assert len(Ended(1, "x" * 9000, "").text) == 2000
