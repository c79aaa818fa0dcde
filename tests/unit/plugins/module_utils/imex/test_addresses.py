# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import socket

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import addresses

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.11
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
Local:
        |-- 10.0.0.11
           /32 host LOCAL
"""
IF_INET6 = """00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000011 02 40 00 80     eth0
fe80000000000000021122fffe334455 02 40 20 80     eth0
"""


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "fib_trie").write_text(FIB_TRIE)
    (tmp_path / "net" / "if_inet6").write_text(IF_INET6)
    return tmp_path


def test_both_families_each_once(proc: pathlib.Path) -> None:
    found = addresses.local_addresses(str(proc))
    assert found == ("10.0.0.11", "127.0.0.1", "::1", "2001:db8::11", "fe80::211:22ff:fe33:4455")


def test_a_kernel_without_ipv6(proc: pathlib.Path) -> None:
    (proc / "net" / "if_inet6").unlink()
    assert addresses.local_addresses(str(proc)) == ("10.0.0.11", "127.0.0.1")


def test_a_tree_without_tables(tmp_path: pathlib.Path) -> None:
    assert addresses.local_addresses(str(tmp_path)) == ()


def test_this_host() -> None:
    assert "127.0.0.1" in addresses.local_addresses()


def test_the_own_host_name(proc: pathlib.Path) -> None:
    host = socket.gethostname()
    found = addresses.local_addresses(str(proc), ["other-host.invalid", f"{host}.example.com"])
    assert found[-1] == f"{host}.example.com"
    assert "other-host.invalid" not in found


def test_a_name_that_resolves_to_an_own_address() -> None:
    assert addresses.own_names(["127.0.0.9"], ["127.0.0.9"]) == ("127.0.0.9",)


def test_localhost_names_no_host() -> None:
    assert addresses.own_names(["localhost"], ["127.0.0.1", "::1", "10.0.0.11"]) == ()
