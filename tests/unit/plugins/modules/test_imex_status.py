# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as Ansible runs it, against a control tool and a systemctl that answer from files and count their calls."""

import json
import os
import pathlib
import shutil
import socket
import stat
import typing as t

import pytest
import yaml
from ansible.module_utils.common import warnings as shown

from ansible_collections.hpc.fabric.plugins.module_utils.imex import daemon
from ansible_collections.hpc.fabric.plugins.modules import imex_nodes_config, imex_status

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "fixtures"
SHOW = {case["name"]: case["show"] for case in json.loads((FIXTURES / "unit" / "show.json").read_text())["cases"]}


def load(name: str) -> t.Any:
    return json.loads((FIXTURES / "status" / f"{name}.json").read_text(encoding="utf-8"))


RUNNING = SHOW["S1 running and enabled"]
STOPPED = SHOW["S2 inactive and disabled"]
A, B, C, D = NODES = ["10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]
NOTES = '#!/bin/sh\necho "$*" >>"${0%/*}/${0##*/}.calls"\n'


def answer(rows: dict[str, str], state: str = "UP", hosts: t.Sequence[str] = tuple(NODES)) -> str:
    """An answer of the control tool; rows: cells by address, C for CONNECTED, N for NEVER_CONNECTED, "" for no answer."""
    words = {"C": "CONNECTED", "N": "NEVER_CONNECTED"}
    nodes = {
        str(number): {
            "status": "READY" if rows[host] else "UNAVAILABLE",
            "host": host,
            "connections": {
                str(peer): {"host": hosts[peer], "status": words[cell]} for peer, cell in enumerate(rows[host])
            },
            "version": "570.172.08" if rows[host] else "",
        }
        for number, host in enumerate(hosts)
    }
    return json.dumps({"nodes": nodes, "timestamp": "8/8/2025 17:38:02.641", "status": state})


WELL = answer(dict.fromkeys(NODES, "CCCC"))
ONE_DOWN = answer({A: "CCCN", B: "CCCN", C: "CCCN", D: ""}, "DEGRADED")


class Host:
    """One host in a folder."""

    def __init__(self, root: pathlib.Path, run_module: t.Any) -> None:
        self.root = root
        self.run_module = run_module
        self.config = root / "etc" / "config.cfg"
        self.nodes = root / "etc" / "nodes_config.cfg"
        self.log = root / "imex.log"
        (root / "etc").mkdir()
        (root / "sys" / "module" / "nvidia").mkdir(parents=True)
        (root / "sys" / "module" / "nvidia" / "version").write_text("570.172.08\n")
        self.program("nvidia-imex-ctl", 'cat "${0%/*}/answer"')
        self.program("systemctl", 'cat "${0%/*}/show"')
        self.program("nvidia-smi", "echo '4711, python3'")
        self.install()
        self.answer(WELL)
        self.show(RUNNING)

    def program(self, name: str, script: str) -> None:
        path = self.root / name
        path.write_text(NOTES + script + "\n")
        path.chmod(0o755)

    def install(self, nodes: t.Sequence[str] = tuple(NODES), **keys: t.Any) -> None:
        values = {
            "LOG_FILE_NAME": self.log,
            "IMEX_NODE_CONFIG_FILE": self.nodes,
            "SERVER_PORT": 31000,
            "IMEX_CMD_PORT": 31005,
        }
        values.update(keys)
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self.nodes.write_text("".join(f"{node}\n" for node in nodes))
        for path in (self.config, self.nodes):
            # Long before the start of the daemon.
            os.utime(path, (1000000000, 1000000000))

    def answer(self, text: str) -> None:
        (self.root / "answer").write_text(text)

    def show(self, text: str) -> None:
        (self.root / "show").write_text(text)

    def calls(self, name: str) -> list[str]:
        path = self.root / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def options(self) -> dict[str, t.Any]:
        return {
            "config_path": str(self.config),
            "control_command": str(self.root / "nvidia-imex-ctl"),
            "systemctl_command": str(self.root / "systemctl"),
            "smi_command": str(self.root / "nvidia-smi"),
            "local_addresses": [A],
            "state_dir": str(self.root / "state"),
            "run_dir": str(self.root / "run"),
            "unit_dir": str(self.root / "units"),
            "proc_root": str(self.root / "proc"),
            "sysfs_root": str(self.root / "sys"),
            "device_root": str(self.root / "dev"),
            "persist_path": str(self.root / "persist.dat"),
            "job_records_dir": str(self.root / "jobs"),
        }

    def call(self, check: bool = False, **params: t.Any) -> t.Any:
        # They add up over all modules that run in one process.
        shown._global_warnings.clear()
        options = dict(self.options, **params)
        return self.run_module(
            imex_status.main, check, **{key: value for key, value in options.items() if value is not None}
        )

    def codes(self, **params: t.Any) -> tuple[str, list[str]]:
        result = self.call(**params)
        assert result.rc == 0, result.msg
        return result.data["verdict"], [reason["code"] for reason in result.data["reasons"]]


@pytest.fixture
def host(tmp_path: pathlib.Path, run_module: t.Any) -> Host:
    return Host(tmp_path, run_module)


def texts(result: t.Any) -> str:
    return json.dumps(result.data.get("warnings", []))


def files_of(root: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith(".calls")
    }


def test_a_healthy_host_costs_one_process_each(host: Host) -> None:
    before = files_of(host.root)
    result = host.call()
    assert (result.rc, result.changed) == (0, False)
    assert result.data["summary"].startswith("healthy: 4 of 4 nodes ready and connected (UP, map loaded ")
    assert result.data["reasons"] == []
    assert host.calls("nvidia-imex-ctl") == [f"-c {host.config} -N -j"]
    assert len(host.calls("systemctl")) == 1
    assert files_of(host.root) == before


def test_what_a_healthy_host_returns(host: Host) -> None:
    data = host.call().data
    assert data["evidence"] == ["unit", "own_row", "member_rows", "loaded_by_own_row"]
    assert data["daemon"]["unit"] == "nvidia-imex.service"
    assert data["daemon"]["state"] == "READY"
    assert (data["daemon"]["version"], data["daemon"]["driver_version"]) == ("570.172.08", "570.172.08")
    assert data["daemon"]["managed_by"] == "host"
    assert data["versions"] == {"daemon": "570.172.08", "driver": "570.172.08"}
    assert data["ports"] == {"server": 31000, "command": 31005}
    assert data["local_addresses"] == [A]
    assert data["node_map"]["configured"] == data["node_map"]["loaded"] == NODES
    assert (data["node_map"]["source"], data["node_map"]["in_sync"]) == ("own_row", True)
    assert data["quorum"] == {
        "scope": "local",
        "spec": "all",
        "required": 4,
        "expected": 4,
        "connected": 4,
        "met": True,
        "missing": [],
        "one_sided": [],
        "not_mutual": [],
    }
    assert data["domain"]["state"] == "UP"
    assert [node["id"] for node in data["domain"]["nodes"]] == [0, 1, 2, 3]
    assert [node["is_local"] for node in data["domain"]["nodes"]] == [True, False, False, False]


def test_check_mode_answers_the_same(host: Host) -> None:
    answers = [host.call(check=check).data for check in (True, False)]
    for data in answers:
        # Moments are reckoned from two clocks.
        assert data["daemon"].pop("started_at") - data["daemon"].pop("activating_at") == pytest.approx(5, abs=0.01)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("detail, counts", [("summary", [1, 1, 1, 0]), ("own", [4, 1, 1, 0]), ("full", [4, 4, 4, 0])])
def test_detail(detail: str, counts: list[int], host: Host) -> None:
    host.answer(ONE_DOWN)
    nodes = host.call(detail=detail).data["domain"]["nodes"]
    assert [len(node["connections"]) for node in nodes] == counts
    assert nodes[0]["connections"][-1] == {
        "id": 3,
        "host": D,
        "status": "NEVER_CONNECTED",
        "status_raw": "NEVER_CONNECTED",
    }


def test_full_detail_asks_for_host_names(host: Host) -> None:
    host.call(detail="full")
    assert host.calls("nvidia-imex-ctl") == [f"-c {host.config} -N -j -H"]


def test_domain_alone_asks_no_systemd(host: Host) -> None:
    result = host.call(gather=["domain"])
    assert result.data["verdict"] == "healthy"
    assert "daemon" not in result.data
    assert result.data["node_map"]["source"] == "own_row"
    assert host.calls("systemctl") == []


def test_daemon_alone_asks_for_its_word(host: Host) -> None:
    host.answer("READY\n")
    result = host.call(gather=["daemon"])
    assert result.data["summary"] == "healthy: the local daemon says READY (the domain was not asked)"
    assert not {"domain", "quorum"} & set(result.data)
    assert host.calls("nvidia-imex-ctl") == [f"-c {host.config} -q"]


def test_a_host_without_imex(host: Host) -> None:
    host.show(SHOW["S6 not found"])
    (host.root / "sys" / "module" / "nvidia" / "version").unlink()
    (host.root / "sys" / "module" / "nvidia").rmdir()
    host.config.unlink()
    host.nodes.unlink()
    (host.root / "nvidia-imex-ctl").unlink()
    for gather in (["daemon", "domain"], ["daemon"], ["domain"], ["channels"]):
        assert host.codes(gather=gather) == ("not_applicable", ["not_applicable"])
    assert host.codes(systemctl_command="/no/such/systemctl")[0] == "not_applicable"


def test_an_idle_host_starts_no_control_tool(host: Host) -> None:
    host.show(STOPPED)
    host.install(nodes=[])
    assert host.codes() == ("idle", ["nothing_expected"])
    assert host.codes(quorum="16")[0] == "idle"
    assert host.calls("nvidia-imex-ctl") == []


@pytest.mark.parametrize(
    "show, codes",
    [
        ("S2 inactive and disabled", ["daemon_not_running", "unit_disabled"]),
        ("S3 masked", ["unit_masked"]),
        ("S5 a condition that failed", ["unit_condition_failed"]),
        ("S6 not found", ["unit_not_found"]),
        ("S7 restarted again and again", ["restart_loop"]),
    ],
)
def test_a_host_that_is_expected_and_down(show: str, codes: list[str], host: Host) -> None:
    host.show(SHOW[show])
    host.answer(answer({A: "", B: "NCCC", C: "NCCC", D: "NCCC"}, "DEGRADED"))
    assert host.codes() == ("down", codes)


def test_a_failed_daemon_is_explained_by_its_log(host: Host) -> None:
    host.show(SHOW["S7 given up"])
    host.answer(answer({A: "", B: "NCCC", C: "NCCC", D: "NCCC"}, "DEGRADED"))
    host.log.write_text(
        "IMEX Log initializing at: 3/21/2025 20:45:37.001\n"
        "[Mar 21 2025 20:45:38] [ERROR] [tid 39] No matching network interface found for any IP addresses\n"
    )
    result = host.call()
    assert [reason["code"] for reason in result.data["reasons"]] == ["restart_loop", "own_address_missing"]
    assert "2025-03-21T20:45:38" in result.data["reasons"][1]["message"]
    host.log.write_text("IMEX Log initializing at: x\n[ERROR] cannot open the keytab\n")
    assert host.codes() == ("down", ["restart_loop", "log_error"])


def test_the_list_was_emptied_under_a_running_daemon(host: Host) -> None:
    host.install(nodes=[])
    host.program(
        "nvidia-imex-ctl",
        'case "$*" in *-q) echo READY ;; *) echo "Failed to read node configuration file" >&2; exit 255 ;; esac',
    )
    result = host.call()
    assert (result.data["verdict"], result.data["daemon"]["state"]) == ("degraded", "READY")
    assert [reason["code"] for reason in result.data["reasons"]] == ["loaded_differs"]


@pytest.mark.parametrize(
    "script, verdict, code",
    [
        ("exec sleep 600", "unknown", "time_limit"),
        ("echo '{\"nodes\": '", "unknown", "unreadable_answer"),
        ("exit 3", "unknown", "control_tool_failed"),
        ("echo 'Unable to open configuration file at /x' >&2; exit 1", "unknown", "not_configured"),
        (
            "echo 'Query Status returned error code: 14 - failed to connect' >&2; exit 1",
            "not_queryable",
            "command_service_closed",
        ),
    ],
)
def test_a_control_tool_without_an_answer(script: str, verdict: str, code: str, host: Host) -> None:
    host.program("nvidia-imex-ctl", script)
    result = host.call(control_timeout=0.5)
    assert (result.rc, result.data["verdict"]) == (0, verdict)
    assert result.data["reasons"][0]["code"] == code
    assert result.data["domain"] is None
    assert result.data["quorum"]["met"] is False


@pytest.mark.parametrize("case", load("payloads"), ids=lambda case: case["name"])
def test_what_the_control_tool_prints_is_judged(case: dict[str, t.Any], host: Host) -> None:
    host.install(nodes=case.get("nodes", [A, B]))
    host.show(SHOW[case.get("show", "S1 running and enabled")])
    text = case["answer"]
    host.answer((FIXTURES / "ctl" / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    host.program("nvidia-imex-ctl", 'case "$*" in *-q) exit 3 ;; *) cat "${0%/*}/answer" ;; esac')
    result = host.call()
    assert result.rc == 0
    assert result.data["verdict"] == case["verdict"]
    assert [reason["code"] for reason in result.data["reasons"]] == case["codes"]
    quorum = result.data["quorum"]
    assert (quorum["met"], quorum["connected"]) == (case["met"], case["connected"])
    assert quorum["one_sided"] == case.get("one_sided", [])
    assert result.data["node_map"]["unexpected"] == case.get("unexpected", result.data["node_map"]["unexpected"])
    if "version" in case:
        assert result.data["daemon"]["version"] == case["version"]
    assert (host.call(require="quorum").rc == 0) == case["met"]


@pytest.mark.parametrize("case", load("logs")["running"], ids=lambda case: case["name"])
def test_what_the_log_adds(case: dict[str, t.Any], host: Host) -> None:
    nodes = case["nodes"]
    host.install(nodes=nodes)
    host.answer(answer(dict.fromkeys(nodes, "C" * len(nodes)), hosts=nodes))
    host.log.write_text(case["log"])
    result = host.call(gather=["daemon", "domain", "log"], local_addresses=[case["own"]])
    assert result.data["verdict"] == "healthy"
    assert [reason["code"] for reason in result.data["reasons"]] == case["codes"]
    text = " ".join(reason["message"] for reason in result.data["reasons"])
    assert [said for said in case["says"] if said not in text] == []
    assert ("not in the node map now" in text) == ("not in the node map now" in " ".join(case["says"]))


@pytest.mark.parametrize("case", load("logs")["failing"], ids=lambda case: case["name"])
def test_why_a_daemon_failed_is_looked_up_in_its_log(case: dict[str, t.Any], host: Host) -> None:
    host.show(SHOW["S7 given up"])
    host.answer(answer({A: "", B: "NCCC", C: "NCCC", D: "NCCC"}, "DEGRADED"))
    host.log.write_text(case["log"])
    result = host.call()
    assert result.data["verdict"] == "down"
    assert [reason["code"] for reason in result.data["reasons"]] == case["codes"]
    text = " ".join(reason["message"] for reason in result.data["reasons"])
    assert [said for said in case["says"] if said not in text] == []


def test_no_control_tool(host: Host) -> None:
    assert host.codes(control_command="no-such-imex-ctl") == ("unknown", ["control_tool_missing"])


def test_no_systemctl(host: Host) -> None:
    assert host.codes(systemctl_command="no-such-systemctl") == ("healthy", ["unit_unknown"])
    host.answer("READY\n")
    assert host.codes(systemctl_command="no-such-systemctl", gather=["daemon"]) == ("healthy", ["unit_unknown"])


@pytest.mark.parametrize("gather", [["daemon", "domain"], ["daemon"], ["domain"]])
@pytest.mark.parametrize("nodes", [NODES, []])
def test_systemd_without_an_answer_is_no_sign_of_a_host_without_imex(
    gather: list[str], nodes: list[str], host: Host
) -> None:
    host.install(nodes=nodes)
    shutil.rmtree(host.root / "sys" / "module")
    host.program("nvidia-imex-ctl", "exit 3")
    host.program("systemctl", "echo 'Failed to get properties: Connection timed out' >&2; exit 1")
    verdict, codes = host.codes(gather=gather)
    assert verdict == "unknown"
    assert "unit_unknown" in codes
    host.program("systemctl", "echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1")
    assert host.codes(gather=gather)[0] == "not_applicable"


def test_command_service_off(host: Host) -> None:
    host.install(IMEX_CMD_ENABLED=0)
    host.answer(answer({A: "", B: "CCCC", C: "CCCC", D: "CCCC"}, "DEGRADED"))
    assert host.codes() == ("not_queryable", ["command_service_off"])


def test_files_that_cannot_be_used(host: Host) -> None:
    host.nodes.unlink()
    host.nodes.mkdir()
    verdict, codes = host.codes()
    assert (verdict, codes) == ("unknown", ["node_map_unreadable"])
    assert host.codes(expected_nodes=NODES)[1] == ["configured_differs", "node_map_unreadable"]
    host.config.unlink()
    host.config.mkdir()
    assert "config_unreadable" in host.codes(nodes_config_path=str(host.root / "none"))[1]


def test_a_node_list_that_is_damaged(host: Host) -> None:
    host.nodes.write_text(f"{A}\n{B}\n{C}\n{D}\n{A}\n")
    assert "node_map_invalid" in host.codes()[1]


def test_no_config_file_is_said(host: Host) -> None:
    host.config.unlink()
    assert host.codes(nodes_config_path=str(host.nodes)) == ("degraded", ["config_missing"])


def test_the_record_of_a_start_goes_before_the_own_row(host: Host) -> None:
    start = "0123456789abcdef0123456789abcdef"
    record = daemon.StartRecord(start, 1.0, (A, B, D, C), (), "started")
    daemon.write_record(str(host.root / "run"), "nvidia-imex", record)
    result = host.call()
    assert [reason["code"] for reason in result.data["reasons"]] == ["order_differs"]
    assert (result.data["node_map"]["source"], result.data["node_map"]["in_sync"]) == ("record", False)
    daemon.write_record(str(host.root / "run"), "nvidia-imex", record._replace(invocation_id="another"))
    assert host.codes() == ("healthy", [])


def test_expected_nodes_in_both_directions(host: Host) -> None:
    result = host.call(expected_nodes=[A, B, C, "10.0.0.15"])
    assert result.data["node_map"]["missing"] == ["10.0.0.15"]
    assert result.data["node_map"]["unexpected"] == [D]
    nodes = {reason["code"]: reason["nodes"] for reason in result.data["reasons"]}
    assert nodes["node_missing"] == ["10.0.0.15"]
    assert nodes["node_unexpected"] == [D]
    assert nodes["loaded_differs"] == ["10.0.0.15", D]
    assert result.data["quorum"]["missing"] == ["10.0.0.15"]


def test_no_own_row_asks_for_the_daemons_word(host: Host) -> None:
    host.program("nvidia-imex-ctl", 'case "$*" in *-q) echo READY ;; *) cat "${0%/*}/answer" ;; esac')
    result = host.call(local_addresses=["10.9.9.9"])
    assert (result.data["verdict"], result.data["daemon"]["state"]) == ("degraded", "READY")
    assert [reason["code"] for reason in result.data["reasons"]] == ["own_address_missing"]


def test_the_bind_address_names_the_own_row(host: Host) -> None:
    host.install(BIND_INTERFACE_IP=B)
    result = host.call(local_addresses=None)
    assert result.data["local_addresses"] == [B]
    assert result.data["verdict"] == "healthy"


def test_the_host_names_its_addresses(host: Host) -> None:
    (host.root / "proc" / "net").mkdir(parents=True)
    (host.root / "proc" / "net" / "fib_trie").write_text(f"  |-- {C}\n     /32 host LOCAL\n")
    result = host.call(local_addresses=None)
    assert result.data["local_addresses"] == [C]
    assert [node["is_local"] for node in result.data["domain"]["nodes"]] == [False, False, True, False]


def undocumented(value: t.Any, documented: t.Mapping[str, t.Any], path: str = "") -> list[str]:
    """Paths of keys that RETURN does not name; what it says nothing of the inside of is not looked into."""
    found = []
    for item in value if isinstance(value, list) else [value]:
        for key, inner in item.items() if isinstance(item, dict) else ():
            if key not in documented:
                found.append(f"{path}{key}")
            elif "contains" in documented[key]:
                found += undocumented(inner, documented[key]["contains"], f"{path}{key}.")
    return sorted(set(found))


def test_every_returned_value_is_documented(host: Host) -> None:
    host.log.write_text("IMEX Log initializing at: x\n[ERROR] trouble\n")
    (host.root / "dev" / "nvidia-caps-imex-channels").mkdir(parents=True)
    (host.root / "dev" / "nvidia-caps-imex-channels" / "channel0").write_text("")
    probe = {"addresses": ["127.0.0.1"], "ports": [1], "timeout": 1}
    result = host.call(gather=["all"], detail="full", planned=plan(mode="0600"), probe=probe)
    data = {key: value for key, value in result.data.items() if key not in ("changed", "invocation", "warnings")}
    assert undocumented(data, yaml.safe_load(imex_status.RETURN)) == []
    assert set(yaml.safe_load(imex_status.RETURN)) == set(data)


# --- arguments


@pytest.mark.parametrize(
    "params, message",
    [
        ({"gather": ["daemon", "errors"]}, "gather asks for errors, which is not built in this release"),
        ({"gather": ["statistics", "nvlink"]}, "gather asks for statistics, nvlink, which is not built"),
        ({"quorum": "5"}, "5 members are asked for, but there are only 4"),
        ({"quorum": "some"}, "'some' is no count of members"),
        ({"required_nodes": ["10.9.9.9"]}, "required_nodes names 10.9.9.9"),
        ({"gather": ["everything"]}, "value of gather must be one or more of"),
        ({"detail": "much"}, "value of detail must be one of"),
    ],
)
def test_bad_arguments_fail(params: dict[str, t.Any], message: str, host: Host) -> None:
    result = host.call(**params)
    assert result.rc == 1
    assert result.failed
    assert message in result.msg


def test_all_is_what_is_built_and_says_what_is_not(host: Host) -> None:
    host.log.write_text("IMEX Log initializing at: x\n")
    result = host.call(gather=["all"])
    assert {"daemon", "domain", "channels", "activity", "log"} <= set(result.data)
    assert not {"errors", "statistics", "nvlink"} & set(result.data)
    assert "errors, statistics, nvlink are not built in this release" in texts(result)


# --- require


def test_require_that_holds(host: Host) -> None:
    assert host.call(require="quorum").rc == 0
    assert host.call(require="ready").rc == 0
    assert host.call(require="quorum", gather=["daemon"]).data["quorum"]["met"] is True


def test_require_that_does_not_hold_fails_with_reasons_and_facts(host: Host) -> None:
    host.answer(ONE_DOWN)
    result = host.call(require="quorum", wait_timeout=3, wait_interval=0.05)
    assert result.rc == 1
    assert "expected a quorum of 4 of 4 members (quorum=all), 3 are READY and connected" in result.msg
    assert f"node_not_connected: not connected with this node: {D} (NEVER_CONNECTED)" in result.msg
    assert result.data["quorum"]["connected"] == 3
    assert result.data["verdict"] == "degraded"
    assert len(host.calls("nvidia-imex-ctl")) > 1
    assert host.call(require="quorum", quorum="75%").rc == 0
    assert "required_nodes" in host.call(require="quorum", quorum="75%", required_nodes=[D]).msg


def test_require_does_not_take_the_word_of_another_daemon(host: Host) -> None:
    host.show(STOPPED)
    for require in ("ready", "quorum"):
        result = host.call(require=require)
        assert result.rc == 1
        assert "and nvidia-imex.service is inactive" in result.msg


def test_require_waits_until_it_holds(host: Host) -> None:
    host.answer(WELL)
    (host.root / "before").write_text(ONE_DOWN)
    host.program(
        "nvidia-imex-ctl",
        'n=$(wc -l <"$0.calls"); if [ "$n" -le 3 ]; then cat "${0%/*}/before"; else cat "${0%/*}/answer"; fi',
    )
    result = host.call(require="quorum", wait_timeout=60, wait_interval=0.01)
    assert (result.rc, result.data["verdict"]) == (0, "healthy")
    assert len(host.calls("nvidia-imex-ctl")) == 4


@pytest.mark.parametrize("show", ["S3 masked", "S6 not found", "S7 given up"])
def test_require_does_not_wait_where_waiting_cannot_help(show: str, host: Host) -> None:
    host.show(SHOW[show])
    result = host.call(require="ready", wait_timeout=600)
    assert result.rc == 1
    assert "expected the local daemon to be READY" in result.msg
    assert len(host.calls("systemctl")) == 1


# --- what is gathered besides


def test_channels_and_activity(host: Host) -> None:
    (host.root / "persist.dat").write_text(f"key\nNode 1: {B}\n")
    (host.root / "jobs").mkdir()
    (host.root / "jobs" / "211").write_text("")
    (host.root / "proc").mkdir()
    (host.root / "proc" / "devices").write_text("508 nvidia-caps-imex-channels\n")
    (host.root / "slurm.conf").write_text("SwitchType=switch/nvidia_imex\n")
    result = host.call(gather=["daemon", "domain", "channels", "activity"], slurm_conf=[str(host.root / "slurm.conf")])
    assert result.data["channels"] == {
        "driver_major": 508,
        "count_limit": None,
        "devices": [],
        "manager": "switch_plugin",
    }
    assert result.data["activity"] == {
        "gpu_processes": [{"pid": 4711, "name": "python3"}],
        "importers": [B],
        "job_records": 1,
        "notes": [],
    }


def test_activity_that_is_not_known(host: Host) -> None:
    result = host.call(gather=["activity"], smi_command="no-such-smi")
    assert result.data["activity"]["gpu_processes"] is None
    assert "no-such-smi was not found" in texts(result)
    assert result.data["verdict"] == "unknown"
    assert [reason["code"] for reason in result.data["reasons"]] == ["not_gathered"]


def test_log(host: Host) -> None:
    host.log.write_text(
        "IMEX Log initializing at: x\n"
        "[Mar 21 2025 20:45:38] [INFO] [tid 39] Identified this node as ID 2, using bind IP of '10.0.0.13', and so on\n"
        "[Mar 21 2025 20:45:39] [ERROR] [tid 39] Failed to get new memory reference with rc: 87\n"
    )
    result = host.call(gather=["daemon", "domain", "log"])
    assert result.data["log"] == [
        {"time": "2025-03-21T20:45:39", "level": "ERROR", "message": "Failed to get new memory reference with rc: 87"}
    ]
    # The daemon's word for its id and the place in the map differ (case 23).
    codes = {reason["code"]: reason["message"] for reason in result.data["reasons"]}
    assert set(codes) == {"import_failed", "node_id_differs"}
    assert codes["node_id_differs"] == "the daemon calls itself node 2, in the node map this host is node 0"


def test_no_log_file_is_said(host: Host) -> None:
    host.program("journalctl", "echo '[ERROR] from the journal'")
    host.install(LOG_FILE_NAME="")
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{host.root}{os.pathsep}{path}"
    try:
        result = host.call(gather=["daemon", "domain", "log"])
    finally:
        os.environ["PATH"] = path
    assert [line["message"] for line in result.data["log"]] == ["from the journal"]
    assert "the daemon has no log file: read from the journal" in texts(result)


def test_probe(host: Host) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        result = host.call(
            gather=["daemon"], probe={"addresses": ["127.0.0.1", "127.0.0.2"], "ports": [port], "timeout": 5}
        )
    assert result.data["probes"] == [
        {"address": "127.0.0.1", "port": port, "answer": "accepted", "detail": ""},
        {"address": "127.0.0.2", "port": port, "answer": "refused", "detail": ""},
    ]


# --- other owners


def proc_of(host: Host, name: str, cgroup: str, port: int = 31005) -> None:
    proc = host.root / "proc"
    (proc / "net").mkdir(parents=True)
    row = f"   0: 00000000:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 111 1\n"
    (proc / "net" / "tcp").write_text("head\n" + row)
    for pid, fd, group in ((99, "socket:[111]", cgroup), (4711, "socket:[5]", "0::/system.slice/nvidia-imex.service")):
        (proc / str(pid) / "fd").mkdir(parents=True)
        (proc / str(pid) / "comm").write_text(name + "\n")
        (proc / str(pid) / "cgroup").write_text(group + "\n")
        (proc / str(pid) / "fd" / "3").symlink_to(fd)


def test_another_daemon_has_the_port(host: Host) -> None:
    proc_of(host, "nvidia-imex", "0::/user.slice")
    host.show(STOPPED)
    verdict, codes = host.codes()
    assert (verdict, codes) == ("down", ["daemon_not_running", "unit_disabled", "foreign_daemon"])
    assert host.call().data["daemon"]["managed_by"] == "unknown"


def test_another_daemon_answers_in_the_units_place(host: Host) -> None:
    proc_of(host, "nvidia-imex", "0::/user.slice")
    host.answer(ONE_DOWN)
    verdict, codes = host.codes()
    assert verdict == "degraded"
    assert "foreign_daemon" in codes


def test_a_pod_owns_imex(host: Host) -> None:
    proc_of(host, "nvidia-imex", "0::/kubepods.slice/pod1", port=50000)
    host.show(STOPPED)
    result = host.call()
    assert (result.data["verdict"], result.data["daemon"]["managed_by"]) == ("idle", "kubernetes")


def test_masked_by_the_collection_for_kubernetes(host: Host) -> None:
    host.show(SHOW["S3 masked"])
    (host.root / "state" / "imex").mkdir(parents=True)
    (host.root / "state" / "imex" / "masked-nvidia-imex").write_text("masked by run-1\n")
    result = host.call()
    assert (result.data["verdict"], result.data["daemon"]["managed_by"]) == ("idle", "kubernetes")
    assert result.data["daemon"]["masked_by_us"] is True


# --- planned


def plan(**more: t.Any) -> dict[str, t.Any]:
    return dict({"nodes": NODES, "require_local_address": True}, **more)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"nodes": [A, B, C]},
        {"nodes": [D, C, B, A], "order": "keep"},
        {"nodes": [D, C, B, A]},
        {"config": {"SERVER_PORT": 31001, "LOG_LEVEL": 3}},
        {"state": "empty", "nodes": None},
    ],
    ids=["as it is", "one less", "kept order", "another order", "config", "empty"],
)
def test_planned_is_what_imex_nodes_config_would_return(more: dict[str, t.Any], host: Host) -> None:
    planned = {key: value for key, value in plan(**more).items() if value is not None}
    deployment = host.call(planned=planned).data["deployment"]
    options = {key: value for key, value in host.options.items() if key in imex_nodes_config.options()}
    shown._global_warnings.clear()
    result = host.run_module(imex_nodes_config.main, True, **options, **planned)
    assert result.rc == 0, result.msg
    wanted = {key: value for key, value in result.data.items() if key not in ("invocation", "warnings")}
    assert {key: value for key, value in deployment.items() if key != "warnings"} == wanted


def test_planned_keeps_the_order_for_what_is_expected(host: Host) -> None:
    result = host.call(planned=plan(nodes=[D, C, B, A], order="keep"))
    assert result.data["verdict"] == "healthy"
    assert result.data["deployment"]["restart_required"] is False


def test_planned_refuses_as_the_module_does(host: Host) -> None:
    result = host.call(planned=plan(nodes=[B, C]))
    assert result.rc == 1
    assert "none of its own addresses" in result.msg


def test_planned_costs_no_other_process(host: Host) -> None:
    host.call(planned=plan())
    assert len(host.calls("nvidia-imex-ctl")) == 1
    assert len(host.calls("systemctl")) == 1


def test_planned_on_a_stopped_host_sees_another_daemon(host: Host) -> None:
    host.show(STOPPED)
    host.nodes.unlink()
    host.program("nvidia-imex-ctl", 'case "$*" in *-q) echo READY ;; *) exit 255 ;; esac')
    result = host.call(planned=plan())
    assert result.data["daemon"]["state"] == "READY"
    assert "foreign_daemon" in [reason["code"] for reason in result.data["reasons"]]


def test_host_changes(host: Host) -> None:
    host.show(STOPPED)
    for path in (host.config, host.nodes):
        path.chmod(0o640)
    unit = {"dropin": True, "enabled": True, "masked": False, "driver_path": ""}
    found = host.call(planned=plan(owner=str(os.getuid()), mode="0644", unit=unit)).data["host_changes"]
    drop_in = host.root / "units" / "nvidia-imex.service.d" / "50-hpc-fabric.conf"
    assert found == [
        {"what": "mode", "path": str(host.config), "before": "0640", "after": "0644"},
        {"what": "mode", "path": str(host.nodes), "before": "0640", "after": "0644"},
        {"what": "dropin", "path": str(drop_in), "before": "absent", "after": "present"},
        {"what": "enabled", "path": "nvidia-imex.service", "before": False, "after": True},
    ]
    assert stat.S_IMODE(host.config.stat().st_mode) == 0o640
    assert not drop_in.parent.exists()


def test_host_changes_of_a_host_as_planned(host: Host) -> None:
    from ansible_collections.hpc.fabric.plugins.module_utils.imex import dropin

    drop_in = host.root / "units" / "nvidia-imex.service.d" / "50-hpc-fabric.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(dropin.text(90, "/dev/nvidiactl", str(host.nodes)))
    planned = plan(mode="0644", unit={"dropin": True, "enabled": True, "masked": False})
    for path in (host.config, host.nodes):
        path.chmod(0o644)
    assert host.call(planned=planned).data["host_changes"] == []
    planned["unit"]["start_timeout"] = 30
    (change,) = host.call(planned=planned).data["host_changes"]
    assert (change["what"], change["before"]) == ("dropin", "different")
    planned["unit"].update(dropin=False, enabled=False, masked=True)
    found = [(change["what"], change["after"]) for change in host.call(planned=planned).data["host_changes"]]
    assert found == [("dropin", "absent"), ("enabled", False), ("masked", True)]


@pytest.mark.parametrize("option", ["control_timeout", "wait_timeout", "wait_interval"])
def test_negative_limits_are_refused(host: Host, option: str) -> None:
    limits: dict[str, t.Any] = {option: -1}
    result = host.call(**limits)
    assert result.rc == 1
    assert option in result.msg
    assert host.calls("nvidia-imex-ctl") == []
