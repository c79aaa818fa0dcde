# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import endpoint

POD = "0::/kubepods.slice/kubepods-pod1.slice/cri-1.scope\n"
UNIT = "0::/system.slice/nvidia-imex.service\n"


def listener(address: str) -> socket.socket:
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    server.bind((address, 0))
    server.listen()
    return server


def test_holders_of_this_host() -> None:
    with listener("127.0.3.1") as server:
        port = int(server.getsockname()[1])
        (found,) = endpoint.holders("/proc", [port], ["127.0.3.1"])
        assert (found.port, found.pid) == (port, os.getpid())
        assert found.shown == f"process {os.getpid()} ({found.name})"
        assert found.cgroup == endpoint.cgroup("/proc", os.getpid())
        # Another address of this host is another daemon's.
        assert endpoint.holders("/proc", [port], ["127.0.3.2"]) == ()
        assert endpoint.holders("/proc", [port], ["127.0.3.1"], beside=os.getpid()) == ()
    assert endpoint.holders("/proc", [port], ["127.0.3.1"]) == ()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "::1"])
def test_holders_at_every_address(address: str) -> None:
    try:
        server = listener(address)
    except OSError:
        pytest.skip(f"this host cannot listen at {address}")
    with server:
        port = int(server.getsockname()[1])
        assert [found.pid for found in endpoint.holders("/proc", [port], ["10.0.0.1", "::1"])] == [os.getpid()]


def tree(root: pathlib.Path, pid: int, name: str, cgroup: str, inode: str) -> None:
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(name + "\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "fd" / "0").symlink_to("/dev/null")
    (folder / "fd" / "3").symlink_to(f"socket:[{inode}]")


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000     0        0 {} 1\n"
    (tmp_path / "net" / "tcp").write_text(
        head + row.format("00000000:C355", "0A", "111") + row.format("0100000A:C355", "01", "112") + "cut off\n"
    )
    return tmp_path


def test_a_pod_holds_the_port(proc: pathlib.Path) -> None:
    tree(proc, 7, "nvidia-imex", POD, "111")
    (found,) = endpoint.holders(str(proc), [50005], ["10.0.0.1"])
    assert found == endpoint.Holder(50005, 7, "nvidia-imex", POD[3:].strip())
    assert found.in_kubernetes
    assert endpoint.named(str(proc), "nvidia-imex") == (found._replace(port=0),)


def test_the_unit_holds_the_port(proc: pathlib.Path) -> None:
    tree(proc, 8, "nvidia-imex", "12:memory:/system.slice\n" + UNIT, "111")
    (found,) = endpoint.holders(str(proc), [50005], [])
    assert found.cgroup == "/system.slice/nvidia-imex.service"
    assert not found.in_kubernetes


def test_a_holder_that_cannot_be_seen(proc: pathlib.Path) -> None:
    (found,) = endpoint.holders(str(proc), [50005], [])
    assert found == endpoint.Holder(50005, 0, "", "")
    assert found.shown == "a process that cannot be seen from here"


def test_a_tree_without_tables(tmp_path: pathlib.Path) -> None:
    assert endpoint.holders(str(tmp_path), [50005], []) == ()
    assert endpoint.named(str(tmp_path / "none"), "nvidia-imex") == ()
