# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils import files
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FileError, InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import (
    daemon,
    deployment,
    domain,
    host_files,
    host_writes,
    node_map,
    reach as reachable,
)
from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import Unit
from ansible_collections.hpc.fabric.plugins.module_utils.imex.wanted import Found, Wanted

A, B = "10.0.0.11", "10.0.0.12"
RUNNING = Unit(
    "nvidia-imex.service",
    "loaded",
    "active",
    "running",
    "enabled",
    invocation_id="i1",
    started_at=2000.0,
    activating_at=1999.0,
)
WANTED = Wanted(nodes=(A, B), local_addresses=(A,))


def find(tmp_path: pathlib.Path, wanted: Wanted = WANTED, **observed: t.Any) -> Found:
    return host_files.find(
        wanted,
        str(tmp_path / "config.cfg"),
        str(tmp_path / "nodes_config.cfg"),
        host_files.Observed(**observed),
        str(tmp_path / "proc"),
        str(tmp_path / "sys"),
    )


def domain_of(status: str, hosts: t.Sequence[str] = (A, B), version: str = "570.172.08") -> domain.Domain:
    cells = tuple(domain.Connection(number, host, status, status) for number, host in enumerate(hosts))
    return domain.Domain("UP", "", (domain.Node(0, A, None, "READY", version, True, cells),))


def write_map(tmp_path: pathlib.Path, text: str, when: float) -> None:
    (tmp_path / "nodes_config.cfg").write_text(text)
    os.utime(tmp_path / "nodes_config.cfg", (when, when))


@pytest.mark.parametrize(
    "option, wanted, in_file, path",
    [
        (None, {}, "", "/etc/nvidia-imex/nodes_config.cfg"),
        (None, {}, "IMEX_NODE_CONFIG_FILE=/srv/list\n", "/srv/list"),
        (None, {"IMEX_NODE_CONFIG_FILE": "/srv/new"}, "IMEX_NODE_CONFIG_FILE=/srv/list\n", "/srv/new"),
        ("/opt/list", {}, "IMEX_NODE_CONFIG_FILE=/srv/list\n", "/opt/list"),
    ],
)
def test_where_the_node_map_belongs(option: str | None, wanted: dict[str, str], in_file: str, path: str) -> None:
    asked = Wanted(config=tuple(wanted.items()))
    assert host_files.nodes_path_of(asked, "/etc/nvidia-imex/config.cfg", option, in_file) == path


@pytest.mark.parametrize(
    "path", ["list", "", "/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/../nvidia-imex/config.cfg"]
)
def test_places_where_no_node_map_belongs(path: str) -> None:
    text = f"IMEX_NODE_CONFIG_FILE={path}\n"
    with pytest.raises(InputError, match="expected an absolute path other than"):
        host_files.nodes_path_of(Wanted(), "/etc/nvidia-imex/config.cfg", None, text)


def test_record_of_this_start_is_the_best_evidence(tmp_path: pathlib.Path) -> None:
    write_map(tmp_path, f"{A}\n{B}\n", 3000)
    record = daemon.StartRecord("i1", 2000.0, (A, B), (("SERVER_PORT", "31000"),), "started")
    found = find(tmp_path, unit=RUNNING, record=record, domain=domain_of("CONNECTED", (A,)))
    plan = deployment.assess(WANTED, found)
    assert (plan.as_result()["loaded"]["source"], plan.in_sync) == ("record", True)


def test_record_of_another_start_is_none(tmp_path: pathlib.Path) -> None:
    write_map(tmp_path, f"{A}\n{B}\n", 3000)
    record = daemon.StartRecord("i0", 1000.0, (A, B), (), "started")
    found = find(tmp_path, unit=RUNNING, record=record, domain=domain_of("CONNECTED", (A,)))
    plan = deployment.assess(WANTED, found)
    assert (plan.as_result()["loaded"]["source"], plan.in_sync) == ("own_row", False)
    assert [reason.code for reason in plan.restart_reasons] == ["loaded_differs"]


@pytest.mark.parametrize(
    "changed_at, in_sync, codes",
    [(1000.0, True, []), (3000.0, False, ["loaded_differs"]), (1999.5, None, ["loaded_unknown"])],
)
def test_start_time_against_the_files(
    changed_at: float, in_sync: bool | None, codes: list[str], tmp_path: pathlib.Path
) -> None:
    write_map(tmp_path, f"{A}\n{B}\n", changed_at)
    plan = deployment.assess(WANTED, find(tmp_path, unit=RUNNING))
    assert plan.in_sync is in_sync
    assert [reason.code for reason in plan.restart_reasons] == codes


@pytest.mark.parametrize(
    "status, mismatch",
    [("CONNECTED", ""), ("NODE_MAP_MISMATCH", "node_map"), ("VERSION_MISMATCH", "version"), ("RECOVERING", "")],
)
def test_mismatch_of_the_own_row(status: str, mismatch: str) -> None:
    assert host_files.mismatch_of(domain_of(status)) == mismatch


def test_mismatch_of_another_row_is_not_ours() -> None:
    assert host_files.mismatch_of(None) == ""
    other = domain_of("NODE_MAP_MISMATCH")
    assert host_files.mismatch_of(other._replace(nodes=(other.nodes[0]._replace(is_local=False),))) == ""


def test_version_for_host_names_is_of_the_daemon_then_of_the_driver(tmp_path: pathlib.Path) -> None:
    wanted = WANTED._replace(nodes=("localhost",), policy=node_map.Policy(allow_hostnames=True, allow_loopback=True))
    found = find(tmp_path, wanted, unit=RUNNING, domain=domain_of("CONNECTED", version="570.133.20"))
    assert found.version == "570.133.20"
    assert "127.0.0.1" in dict(found.names)["localhost"] or "::1" in dict(found.names)["localhost"]
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.65.06\n")
    assert find(tmp_path, wanted).version == "580.65.06"


def test_without_names_nobody_is_asked(tmp_path: pathlib.Path) -> None:
    assert find(tmp_path).names == ()


def test_apply_makes_the_folder_and_writes_both(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "etc" / "nvidia-imex"
    wanted = WANTED._replace(config=(("SERVER_PORT", 31000),))
    found = Found(str(folder / "nodes_config.cfg"), str(folder / "config.cfg"))
    plan = deployment.assess(wanted, found)
    host_writes.apply(plan, found)
    assert (folder / "nodes_config.cfg").read_text() == f"{A}\n{B}\n"
    assert (folder / "config.cfg").read_text() == "SERVER_PORT=31000\n"
    assert host_writes.changed_paths(plan, found) == host_files.present_paths(plan, found)


def test_apply_writes_nothing_where_nothing_changes(tmp_path: pathlib.Path) -> None:
    write_map(tmp_path, f"\ufeff{A}\r\n{B}", 1000)
    found = find(tmp_path)
    before = (tmp_path / "nodes_config.cfg").stat()
    host_writes.apply(deployment.assess(WANTED, found), found)
    after = (tmp_path / "nodes_config.cfg").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(tmp_path) == ["nodes_config.cfg"]


def test_diffs_show_bytes_that_are_no_text(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nodes_config.cfg").write_bytes(b"\xff\n")
    found = find(tmp_path)
    (shown,) = host_writes.diffs(deployment.assess(WANTED, found), found)
    assert shown["before"] == "\ufffd\n"
    assert shown["after"] == f"{A}\n{B}\n"
    assert shown["before_header"] == str(tmp_path / "nodes_config.cfg")


def test_lock_is_in_run_dir_or_beside_the_file(tmp_path: pathlib.Path) -> None:
    config = str(tmp_path / "config.cfg")
    with host_writes.lock(str(tmp_path / "run"), config, 1):
        assert (tmp_path / "run" / "imex.lock").exists()
        with (
            pytest.raises(FileError, match="Another run holds the lock"),
            host_writes.lock(str(tmp_path / "run"), config, 0),
        ):
            pass
    (tmp_path / "file").write_text("")
    with host_writes.lock(str(tmp_path / "file" / "run"), config, 1):
        assert (tmp_path / ".imex.lock").exists()


class Ports(t.NamedTuple):
    """Loopback addresses on one port: one accepts, one refuses, one is silent."""

    port: int
    accepted: str
    refused: str
    silent: str


@pytest.fixture
def ports() -> t.Iterator[Ports]:
    with contextlib.ExitStack() as stack:
        server, full = (stack.enter_context(socket.socket()) for _turn in range(2))
        server.bind(("127.0.0.2", 0))
        server.listen()
        port = server.getsockname()[1]
        # The kernel drops what comes to a listener whose queue is full: that is silence.
        full.bind(("127.0.0.4", port))
        full.listen(0)
        for _turn in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.4", port))
        yield Ports(port, "127.0.0.2", "127.0.0.3", "127.0.0.4")


def reach(
    nodes: tuple[str, ...], spec: str, port: int | None, local: tuple[str, ...], config: str = ""
) -> reachable.Reach:
    wanted = Wanted(nodes=nodes, policy=node_map.Policy(allow_loopback=True), local_addresses=local)
    found = Found("/n", "/c", config_text=config or None)
    plan = deployment.assess(wanted._replace(require_local_address=False), found)
    return reachable.reach(plan, wanted, spec, port, 0.3, found)


def test_a_refusal_is_an_answer(ports: Ports) -> None:
    reached = reach((ports.accepted, ports.refused), "all", ports.port, ())
    assert reached.as_result() == {
        "spec": "all",
        "required": 2,
        "answered": [ports.accepted, ports.refused],
        "silent": [],
        "met": True,
    }
    reachable.refuse_unreachable(reached)


def test_the_port_is_the_one_that_config_will_have(ports: Ports) -> None:
    assert reach((ports.accepted,), "all", None, (), f"SERVER_PORT={ports.port}\n").met


def test_silence_is_no_answer_and_this_host_is_one(ports: Ports) -> None:
    nodes = (ports.accepted, ports.silent, "127.0.0.9")
    reached = reach(nodes, "all", ports.port, ("127.0.0.9",))
    assert reached.answered == (ports.accepted, "127.0.0.9")
    assert (reached.silent, reached.required, reached.met) == ((ports.silent,), 3, False)
    with pytest.raises(InputError, match=r"2 of 3 members answer .* expected 3 .* Silent: 127\.0\.0\.4\. "):
        reachable.refuse_unreachable(reached)
    assert reach(nodes, "majority", ports.port, ("127.0.0.9",)).met
    with pytest.raises(InputError, match="only 3"):
        reach(nodes, "4", ports.port, ())


def test_files_are_refused_before_anything_is_judged(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.cfg").mkdir()
    with pytest.raises(FileError, match=r"config\.cfg: it is a folder"):
        find(tmp_path)
    (tmp_path / "config.cfg").rmdir()
    (tmp_path / "nodes_config.cfg").write_bytes(b"\0" * 10)
    with pytest.raises(InputError, match=r"nodes_config\.cfg: binary data"):
        find(tmp_path)
    (tmp_path / "nodes_config.cfg").write_bytes(b"#" * (files.PLAIN_LIMIT + 1))
    with pytest.raises(FileError, match=r"nodes_config\.cfg: it is larger than"):
        find(tmp_path)


def test_a_host_without_systemd_is_a_warning(tmp_path: pathlib.Path) -> None:
    observed = host_files.observe("nvidia-imex", str(tmp_path / "no"), str(tmp_path), "ctl", "/c", 1, ())
    assert observed.unit is None
    assert observed.warnings[0].startswith("The unit is not known: ")
