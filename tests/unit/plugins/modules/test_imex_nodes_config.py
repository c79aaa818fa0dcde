# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module as Ansible runs it, against a systemctl that keeps real processes and a control tool that answers from a file."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import stat
import subprocess
import sys
import typing as t

import pytest
from ansible.module_utils.common import warnings as shown

from ansible_collections.hpc.fabric.plugins.module_utils.imex import daemon, unit as units
from ansible_collections.hpc.fabric.plugins.modules import imex_nodes_config

SYSTEMCTL = pathlib.Path(__file__).resolve().parents[3] / "simulator" / "bin" / "systemctl"
A, B, C, D = "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"
STOCK = "# stock\nSERVER_PORT=31000\nIMEX_CMD_PORT=31005\nIMEX_CMD_ENABLED=0\n"
CONTROL = """#!/bin/sh
cat "${0%/*}/answer.json" 2>/dev/null || { echo "Query Status returned error code: 14 - failed to connect"; exit 1; }
"""


class Host:
    """One host in a folder."""

    def __init__(self, root: pathlib.Path, run_module: t.Any) -> None:
        self.root = root
        self.run_module = run_module
        self.config = root / "etc" / "config.cfg"
        self.nodes = root / "etc" / "nodes_config.cfg"
        self.unit = root / "systemd" / "nvidia-imex.service"
        self.control = root / "nvidia-imex-ctl"
        self.control.write_text(CONTROL)
        self.control.chmod(0o755)

    @property
    def options(self) -> dict[str, t.Any]:
        return {
            "config_path": str(self.config),
            "nodes_config_path": str(self.nodes),
            "config": {"IMEX_NODE_CONFIG_FILE": str(self.nodes)},
            "control_command": str(self.control),
            "systemctl_command": str(SYSTEMCTL),
            "local_addresses": [A],
            "state_dir": str(self.root / "state"),
            "run_dir": str(self.root / "run"),
            "unit_dir": str(self.root / "units"),
            "proc_root": str(self.root / "proc"),
        }

    def call(self, check: bool = False, diff: bool = False, **params: t.Any) -> t.Any:
        # They add up over all modules that run in one process.
        shown._global_warnings.clear()
        options = dict(self.options, create_config=True)
        return self.run_module(imex_nodes_config.main, check, diff, **dict(options, **params))

    def install(self, nodes: str | None = None, config: str = STOCK) -> None:
        """What the package brings, and a node map."""
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(config + f"IMEX_NODE_CONFIG_FILE={self.nodes}\n")
        self.unit.mkdir(parents=True, exist_ok=True)
        (self.unit / "unit").write_text("[Service]\nType=simple\nExecStart=/bin/sleep 600\n")
        if nodes is not None:
            self.nodes.write_text(nodes)

    def systemctl(self, *arguments: str) -> str:
        return subprocess.run([SYSTEMCTL, *arguments], check=True, capture_output=True, text=True).stdout

    def start(self) -> str:
        """Start the daemon; the invocation id."""
        self.systemctl("enable", "nvidia-imex")
        self.systemctl("start", "nvidia-imex")
        return units.read_unit("nvidia-imex", str(SYSTEMCTL)).invocation_id

    def note(self, invocation_id: str, nodes: t.Sequence[str], config: str | None = None) -> None:
        pairs = tuple(
            (key, value)
            for key, _equals, value in (
                line.partition("=") for line in (config or self.config.read_text()).splitlines() if "=" in line
            )
        )
        record = daemon.StartRecord(invocation_id, 1.0, tuple(nodes), pairs, "started")
        daemon.write_record(str(self.root / "run"), "nvidia-imex", record)

    def answer(self, hosts: t.Sequence[str], status: str = "CONNECTED") -> None:
        """The control tool's answer: the local daemon, and its connections to hosts."""
        cells = {str(number): {"host": host, "status": status} for number, host in enumerate(hosts)}
        nodes = {
            str(number): {
                "status": "READY" if host == A else "UNAVAILABLE",
                "host": host,
                "version": "570.172.08",
                "connections": cells if host == A else {},
            }
            for number, host in enumerate(hosts)
        }
        (self.root / "answer.json").write_text(json.dumps({"nodes": nodes, "timestamp": "", "status": "DEGRADED"}))

    def tree(self) -> dict[str, t.Any]:
        """Every file below the root with its content: what check mode must leave alone."""
        return {
            str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode)
            if path.is_file()
            else path.stat().st_mode
            for path in sorted(self.root.rglob("*"))
            if "systemd" not in path.parts
        }


@pytest.fixture
def host(run_module: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Host]:
    monkeypatch.setenv("SYSTEMCTL_ROOT", str(tmp_path / "systemd"))
    made = Host(tmp_path, run_module)
    yield made
    if made.unit.exists():
        made.systemctl("stop", "nvidia-imex")


def codes(result: t.Any) -> list[str]:
    return [reason["code"] for reason in result.data["restart_reasons"]]


def warnings(result: t.Any) -> str:
    return json.dumps(result.data.get("warnings", []))


def test_check_mode_on_a_clean_host(host: Host) -> None:
    before = host.tree()
    result = host.call(check=True, diff=True, nodes=[A, B], mode="0644", owner="root", group="root", generation="r1")
    assert not result.failed, result.msg
    assert result.changed
    assert codes(result) == ["nodes_changed", "daemon_not_running"]
    assert [entry["after"] for entry in result.data["diff"]] == [f"{A}\n{B}\n", f"IMEX_NODE_CONFIG_FILE={host.nodes}\n"]
    assert [entry["before"] for entry in result.data["diff"]] == ["", ""]
    assert host.tree() == before


def test_clean_host_without_config_file(host: Host) -> None:
    predicted = host.call(check=True, nodes=[A, B], create_config=False)
    assert "does not exist, expected the file of the nvidia-imex package" in warnings(predicted)
    refused = host.call(nodes=[A, B], create_config=False)
    assert refused.failed
    assert f"{host.config} does not exist" in refused.msg
    assert not host.nodes.exists()


def test_write_then_nothing(host: Host) -> None:
    predicted = host.call(check=True, nodes=[A, B])
    first = host.call(nodes=[A, B])
    assert (predicted.changed, first.changed) == (True, True)
    assert host.nodes.read_text() == f"{A}\n{B}\n"
    assert stat.S_IMODE(host.nodes.stat().st_mode) == 0o644
    before = host.tree()
    again = host.call(nodes=[A, B])
    assert not again.changed
    assert codes(again) == ["daemon_not_running"]
    assert host.tree() == before
    same = {"changed", "added", "config_changes", "config_pending", "restart_reasons"}
    assert {k: v for k, v in predicted.data.items() if k in same} == {k: v for k, v in first.data.items() if k in same}


@pytest.mark.parametrize(
    "text",
    [f"# c\n{A}\n\n{B}", f"\ufeff{A}\r\n{B}\r\n", f"  {A}\t\n{B}  # b\n", f"::ffff:{A}\n{B}\n"],
    ids=["comment", "BOM and CRLF", "blanks", "mapped"],
)
def test_another_form_is_no_change(host: Host, text: str) -> None:
    host.install(text)
    host.note(host.start(), [A, B])
    before = host.tree()
    result = host.call(nodes=[A, B], diff=True)
    assert not result.changed
    assert not result.data["restart_required"]
    assert codes(result) == []
    assert result.data["diff"] == []
    assert {k: v for k, v in host.tree().items() if not k.startswith("run")} == {
        k: v for k, v in before.items() if not k.startswith("run")
    }


def test_the_effective_list_is_returned_and_shown(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    result = host.call(check=True, diff=True, nodes=[A, C], config={"IMEX_CMD_ENABLED": True})
    assert result.data["nodes"] == [A, C]
    assert (result.data["added"], result.data["removed"], result.data["node_count"]) == ([C], [B], 2)
    assert result.data["digest"].startswith("sha256:")
    nodes, config = result.data["diff"]
    assert (nodes["before"], nodes["after"]) == (f"{A}\n{B}\n", f"{A}\n{C}\n")
    assert config["after"] == config["before"].replace("ENABLED=0", "ENABLED=1")
    assert result.data["config_changes"] == [
        {"key": "IMEX_CMD_ENABLED", "before": "0", "after": "1", "class": "domain"}
    ]


def test_record_decides(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    host.note(host.start(), [A, B, C])
    result = host.call(nodes=[A, B])
    assert not result.changed
    assert result.data["loaded"]["nodes"] == [A, B, C]
    assert (result.data["loaded"]["source"], result.data["loaded"]["in_sync"]) == ("record", False)
    assert (result.data["restart_required"], codes(result)) == (True, ["loaded_differs"])


def test_file_of_fewer_members_with_the_right_map_loaded_is_only_written(host: Host) -> None:
    host.install(f"{A}\n")
    host.note(host.start(), [A, B])
    result = host.call(nodes=[A, B])
    assert result.changed
    assert (result.data["restart_required"], codes(result)) == (False, [])


def test_own_row_decides_where_there_is_no_record(host: Host) -> None:
    host.install(f"{A}\n{B}\n{C}\n{D}\n")
    host.start()
    host.answer([A, B, C])
    result = host.call(nodes=[A, B, C, D])
    assert not result.changed
    assert (result.data["loaded"]["source"], result.data["loaded"]["nodes"]) == ("own_row", [A, B, C])
    assert codes(result) == ["loaded_differs"]
    assert host.call(nodes=[B, A, C, D], order="keep").data["nodes"] == [A, B, C, D]


def test_mismatch_is_a_reason(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    host.note(host.start(), [A, B])
    host.answer([A, B], "NODE_MAP_MISMATCH")
    result = host.call(nodes=[A, B])
    assert (result.data["restart_required"], codes(result)) == (True, ["node_map_mismatch"])


def test_closed_command_service_is_a_warning(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    host.note(host.start(), [A, B])
    result = host.call(nodes=[A, B])
    assert "The daemon's own row is not known" in warnings(result)
    assert result.data["loaded"]["source"] == "record"


def test_config_that_the_daemon_did_not_load(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    loaded = host.config.read_text().replace("31000", "31009")
    host.note(host.start(), [A, B], loaded)
    result = host.call(nodes=[A, B])
    assert not result.changed
    assert codes(result) == ["config_changed"]
    assert result.data["config_changes"] == []
    assert result.data["config_pending"] == [
        {"key": "SERVER_PORT", "before": "31009", "after": "31000", "class": "domain"}
    ]


def test_yaml_values_and_byte_for_byte(host: Host) -> None:
    host.install(f"{A}\n{B}\n", STOCK.replace("\n", "\r\n"))
    before = host.config.read_bytes()
    params: dict[str, t.Any] = {
        "nodes": [A, B],
        "config": {"IMEX_CMD_ENABLED": True, "IMEX_NODE_DISCONNECTED_GRACE_TIME": 300},
    }
    assert host.call(**params).changed
    after = host.config.read_bytes()
    assert after.startswith(before.replace(b"ENABLED=0", b"ENABLED=1"))
    assert after.count(b"IMEX_NODE_DISCONNECTED_GRACE_TIME=300") == 1
    assert not host.call(**params).changed
    assert host.config.read_bytes() == after


def test_node_file_named_in_config(host: Host) -> None:
    host.install()
    result = host.call(nodes=[A, B], nodes_config_path=None, config={})
    assert not result.failed, result.msg
    assert host.nodes.read_text() == f"{A}\n{B}\n"


@pytest.mark.parametrize(
    "params, parts",
    [
        ({"nodes": [A, B, A]}, ["entry 3 '10.0.0.11'", "same node as entry 1"]),
        ({"nodes": [A, "127.0.0.1"]}, ["entry 2 '127.0.0.1'", "loopback"]),
        ({"nodes": [A, "gb-n2"]}, ["entry 2 'gb-n2'", "allow_hostnames"]),
        ({"nodes": [A, "fd00::1"]}, ["mixed families"]),
        ({"nodes": [A, "010.0.0.12"]}, ["entry 2 '010.0.0.12'", "leading zeros"]),
        ({"nodes": ["0.0.0.0"] * 9}, ["entry 1", "entry 9", "placeholder"]),
        ({"nodes": [A, "192.0.2.1"]}, ["entry 2 '192.0.2.1'", "documentation"]),
        ({"nodes": [B, C]}, ["none of its own addresses (10.0.0.11)"]),
        ({"nodes": []}, ["nodes is empty", "state=empty"]),
        ({"nodes": [A], "max_removed": 1}, ["2 of 3 members would be removed", "max_removed"]),
        ({"nodes": [A, B, C], "config": {"SERVER_PORT": 31005}}, ["both 31005"]),
        ({"nodes": [A, B, C], "config": {"SERVER_PORT": 70000}}, ["SERVER_PORT is '70000'"]),
        ({"nodes": [A, B, C], "config": {"LOG_FILE_NAME": "/a\nB=1"}}, ["LOG_FILE_NAME", "line break"]),
        ({"nodes": [A, B, C], "config": {"IMEX_CONN_WAIT_TIMEOUT": 70}, "start_timeout": 60}, ["70 s", "60 s"]),
        ({"nodes": [A, B, C], "config": {"IMEX_ENABLE_AUTH_ENCRYPTION": 1}}, ["IMEX_AUTH_SOURCE"]),
        ({"state": "empty", "nodes": [A]}, ["state is empty, but nodes has 1 entries"]),
        ({}, ["nodes"]),
        ({"nodes": [A, D], "reachable": "9"}, ["9"]),
        ({"nodes": [A, D], "reachable": "all", "probe_port": 99999}, ["probe_port is 99999", "65535"]),
        ({"nodes": [A, D], "reachable": "all", "probe_port": 0}, ["probe_port is 0"]),
        ({"nodes": [A, D], "reachable": "all", "probe_timeout": -1}, ["probe_timeout is -1"]),
        ({"nodes": [A, D], "owner": "no-such-user"}, ["owner is 'no-such-user'", "no such user"]),
        ({"nodes": [A, D], "group": "no-such-group"}, ["group is 'no-such-group'", "no such group"]),
        ({"nodes": [A, D], "mode": "9999"}, ["mode is '9999'", "0644"]),
    ],
)
@pytest.mark.parametrize("check", [True, False], ids=["check", "real"])
def test_refused_with_the_offending_entries_and_nothing_written(
    host: Host, params: dict[str, t.Any], parts: list[str], check: bool
) -> None:
    host.install(f"{A}\n{B}\n{C}\n")
    before = {k: v for k, v in host.tree().items() if k.startswith("etc")}
    result = host.call(check=check, generation="r1", backup=True, **params)
    assert result.failed
    for part in parts:
        assert part in result.msg
    assert {k: v for k, v in host.tree().items() if k.startswith("etc")} == before
    assert not (host.root / "state").exists()


def test_duplicate_key_is_refused_with_its_lines(host: Host) -> None:
    host.install(f"{A}\n", STOCK + "SERVER_PORT=31001\n")
    result = host.call(nodes=[A, B])
    assert result.failed
    assert f"{host.config} cannot be used" in result.msg
    assert "SERVER_PORT is set 2 times, in lines 2, 5" in result.msg
    assert host.nodes.read_text() == f"{A}\n"


def test_ephemeral_port_is_a_warning(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    settings = host.root / "proc/sys/net/ipv4"
    settings.mkdir(parents=True)
    (settings / "ip_local_port_range").write_text("30000 60999\n")
    result = host.call(nodes=[A, B])
    assert not result.failed
    assert "SERVER_PORT 31000 is in the kernel's ephemeral range 30000-60999" in warnings(result)


def test_loopback_and_documentation_when_allowed(host: Host) -> None:
    options: dict[str, t.Any] = {
        "require_local_address": False,
        "allow_loopback_addresses": True,
        "allow_documentation_addresses": True,
    }
    result = host.call(nodes=["127.0.0.1", "192.0.2.1"], **options)
    assert not result.failed, result.msg
    assert host.nodes.read_text() == "127.0.0.1\n192.0.2.1\n"


def test_host_names_when_allowed(host: Host) -> None:
    options: dict[str, t.Any] = {
        "allow_hostnames": True,
        "allow_loopback_addresses": True,
        "sysfs_root": str(host.root / "sys"),
    }
    local: dict[str, t.Any] = {"local_addresses": ["127.0.0.1", "::1"]}
    (host.root / "sys/module/nvidia").mkdir(parents=True)
    version = host.root / "sys/module/nvidia/version"
    version.write_text("570.133.20\n")
    refused = host.call(nodes=["localhost"], **options, **local)
    assert "570.158.01 or newer, this host has 570.133.20" in refused.msg
    version.write_text("570.158.01\n")
    assert not host.call(nodes=["localhost"], **options, **local).failed
    unknown = host.call(nodes=["localhost", "no-such-host.invalid"], **options, **local)
    assert "'no-such-host.invalid' cannot be resolved" in unknown.msg
    assert host.nodes.read_text() == "localhost\n"


def test_addresses_of_this_host_are_asked_from_it(host: Host) -> None:
    options: dict[str, t.Any] = {"local_addresses": None, "proc_root": "/proc", "allow_loopback_addresses": True}
    assert not host.call(check=True, nodes=["127.0.0.1", B], **options).failed
    assert (
        "none of its own addresses"
        in host.call(check=True, nodes=["203.0.113.77"], allow_documentation_addresses=True, **options).msg
    )


def test_unreachable_members_keep_it_from_writing(host: Host) -> None:
    host.install(f"{A}\n")
    options: dict[str, t.Any] = {
        "allow_loopback_addresses": True,
        "local_addresses": ["127.0.0.9"],
        "probe_timeout": 0.3,
    }
    # Nobody listens on these, so their kernel refuses, which is an answer.
    result = host.call(nodes=["127.0.0.9", "127.0.0.3"], reachable="all", **options)
    assert not result.failed, result.msg
    assert result.data["reachable"] == {
        "spec": "all",
        "required": 2,
        "answered": ["127.0.0.9", "127.0.0.3"],
        "silent": [],
        "met": True,
    }
    assert host.nodes.read_text() == "127.0.0.9\n127.0.0.3\n"


def test_empty_stops_and_disables(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    host.start()
    predicted = host.call(check=True, state="empty")
    assert predicted.data["unit_changes"] == ["stop", "disable"]
    assert units.read_unit("nvidia-imex", str(SYSTEMCTL)).running
    result = host.call(state="empty")
    assert not result.failed, result.msg
    assert result.changed
    assert (result.data["unit_changes"], result.data["restart_required"], codes(result)) == (
        ["stop", "disable"],
        False,
        [],
    )
    assert host.nodes.read_text() == ""
    unit = units.read_unit("nvidia-imex", str(SYSTEMCTL))
    assert (unit.active_state, unit.enabled) == ("inactive", False)
    again = host.call(state="empty")
    assert (again.changed, again.data["unit_changes"]) == (False, [])


def test_empty_on_a_host_without_anything(host: Host) -> None:
    before = host.tree()
    assert not host.call(check=True, state="empty", config={}).changed
    assert host.tree() == before
    assert not host.call(state="empty", config={}).changed
    assert not host.nodes.exists()


def test_owner_group_mode(host: Host) -> None:
    host.install(f"{A}\n{B}\n")
    host.nodes.chmod(0o666)
    predicted = host.call(check=True, nodes=[A, B], mode="0644")
    assert predicted.changed
    assert stat.S_IMODE(host.nodes.stat().st_mode) == 0o666
    result = host.call(diff=True, nodes=[A, B], mode="0644")
    assert result.changed
    assert result.data["diff"] == [
        {
            "before_header": f"{host.nodes} (attributes)",
            "after_header": f"{host.nodes} (attributes)",
            "before": {"mode": "0666"},
            "after": {"mode": "0644"},
        }
    ]
    assert not result.data["restart_required"] or codes(result) == ["daemon_not_running"]
    assert not host.call(nodes=[A, B], mode="0644").changed


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_owner_stays_and_can_be_given(host: Host) -> None:
    host.install(f"{A}\n")
    os.chown(host.nodes, 12, 34)
    host.call(nodes=[A, B])
    assert (host.nodes.stat().st_uid, host.nodes.stat().st_gid) == (12, 34)
    assert host.call(nodes=[A, B], owner="root", group="root").changed
    assert (host.nodes.stat().st_uid, host.nodes.stat().st_gid) == (0, 0)


def test_backup(host: Host) -> None:
    host.install(f"{A}\n")
    assert "backup_file" not in host.call(check=True, nodes=[A, B], backup=True).data
    result = host.call(nodes=[A, B], config={"IMEX_CMD_ENABLED": 1}, backup=True)
    copy = pathlib.Path(result.data["backup_file"])
    assert copy.parent == host.nodes.parent
    assert copy.name.startswith("nodes_config.cfg.")
    assert copy.read_text() == f"{A}\n"
    assert len(result.data["backup_files"]) == 2
    assert "backup_file" not in host.call(nodes=[A, B], config={"IMEX_CMD_ENABLED": 1}, backup=True).data


def test_generation_is_what_was_before(host: Host) -> None:
    host.install(f"{A}\n")
    result = host.call(nodes=[A, B], generation="r1")
    (kept,) = (host.root / "state/imex/generations").iterdir()
    assert kept.name == result.data["generation"]
    assert (kept / "nodes_config.cfg").read_text() == f"{A}\n"
    assert json.loads((kept / "manifest.json").read_text())["unit_file_state"] == "disabled"
    host.call(nodes=[A, B, C], generation="r1")
    assert (kept / "nodes_config.cfg").read_text() == f"{A}\n"


@pytest.mark.parametrize("name", ["nodes_config.cfg", "config.cfg"])
@pytest.mark.parametrize("kind", ["folder", "link", "binary", "huge"])
def test_what_is_no_such_file_is_named(host: Host, name: str, kind: str) -> None:
    host.install(f"{A}\n")
    path = host.config.parent / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/nonexistent")
    else:
        path.write_bytes(b"A=1\n\0\0" if kind == "binary" else b"#" * 2_000_000)
    result = host.call(nodes=[A, B])
    assert result.failed
    assert f"Cannot use {path}: " in result.msg or f"Cannot read {path}: " in result.msg
    assert "expected" in result.msg


def test_half_written_map_is_repaired(host: Host) -> None:
    host.install(f"{A}\n10.0.")
    result = host.call(nodes=[A, B], max_removed=0)
    assert not result.failed, result.msg
    assert "line 2: '10.0.' is neither an address nor a host name; the file is written anew" in warnings(result)
    assert host.nodes.read_text() == f"{A}\n{B}\n"


RUN = """
import json, sys
from ansible.module_utils import basic
from ansible_collections.hpc.fabric.plugins.modules import imex_nodes_config
with patch(json.loads(sys.argv[1])):
    imex_nodes_config.main()
"""
PATCH = """
import contextlib, json
try:
    from ansible.module_utils.testing import patch_module_args as patch
except ImportError:
    @contextlib.contextmanager
    def patch(args):
        from ansible.module_utils import basic
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
        yield
"""


def test_runs_at_the_same_time_lose_nothing(host: Host) -> None:
    # Each sets another key and writes its own list: all keys must be there, and one of the lists, whole (case 26).
    host.install(f"{A}\n")
    keys = ["LOG_LEVEL", "LOG_MAX_ROTATE_COUNT", "LOG_USE_SYSLOG", "DAEMONIZE"]

    def run(number: int) -> subprocess.CompletedProcess[str]:
        params = dict(host.options, nodes=[A, f"10.0.1.{number}"], config={keys[number]: 1})
        command = [sys.executable, "-c", PATCH + RUN, json.dumps(params)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    with concurrent.futures.ThreadPoolExecutor(len(keys)) as pool:
        results = list(pool.map(run, range(len(keys))))
    assert [result.returncode for result in results] == [0] * len(keys), [result.stdout for result in results]
    lines = host.config.read_text().splitlines()
    assert [lines.count(f"{key}=1") for key in keys] == [1] * len(keys)
    assert host.nodes.read_text() in [f"{A}\n10.0.1.{number}\n" for number in range(len(keys))]
    assert sorted(os.listdir(host.config.parent)) == ["config.cfg", "nodes_config.cfg"]
