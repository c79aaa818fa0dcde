# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpc.fabric.plugins.filter import imex_node_map as plugin
from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import settings

HOSTVARS: dict[str, dict[str, t.Any]] = {
    "n1": {"imex_address": "10.4.0.11"},
    "n2": {"imex_network": "10.4.0.0/16", "ansible_facts": {"all_ipv4_addresses": ["192.168.7.2", "10.4.0.2"]}},
    "n3": {"ansible_host": "10.5.0.3"},
    "n4": {},
    "n5": {"imex_address": "10.4.0.11"},
    "n6": {"imex_address": "127.0.0.1"},
    "n7": {"imex_address": "{{ ip }}"},
}
imex_node_map = plugin.FilterModule().filters()["imex_node_map"]

GOOD: list[tuple[list[str], dict[str, t.Any], list[str]]] = [
    (["n1", "n2"], {}, ["10.4.0.11", "10.4.0.2"]),
    (["n1", "n2"], {"order": "address"}, ["10.4.0.2", "10.4.0.11"]),
    (
        ["n1", "n2", "n3"],
        {"order": "keep", "known": ["10.5.0.3", "10.4.0.2"], "network": "10.0.0.0/8"},
        ["10.5.0.3", "10.4.0.2", "10.4.0.11"],
    ),
    (["n6"], {"allow_loopback_addresses": True}, ["127.0.0.1"]),
    ([], {}, []),
]
BAD: list[tuple[t.Any, dict[str, t.Any], str]] = [
    (["n1", "n3", "n4"], {}, "n3: its address is not known.*n4: its address is not known"),
    (["n1", "n5"], {}, "names the same node as entry 1"),
    (["n6"], {}, "loopback"),
    (["n1", "n9"], {}, "n9: not in the inventory"),
    (["n7"], {}, "n7: imex_address still holds a template"),
    (["n2"], {"network": "10.4/99"}, "10.4/99"),
    (["n1"], {"order": "random"}, "random"),
    ("n1", {}, "expected a list"),
]


@pytest.mark.parametrize("hosts, options, expected", GOOD)
def test_addresses(hosts: list[str], options: dict[str, t.Any], expected: list[str]) -> None:
    assert imex_node_map(hosts, HOSTVARS, **options) == expected


@pytest.mark.parametrize("hosts, options, said", BAD)
def test_what_cannot_be_a_map_is_said(hosts: t.Any, options: dict[str, t.Any], said: str) -> None:
    with pytest.raises(AnsibleFilterError, match=said):
        imex_node_map(hosts, HOSTVARS, **options)


def test_netaddr_is_needed_for_networks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HAS_NETADDR", False)
    assert imex_node_map(["n1"], HOSTVARS) == ["10.4.0.11"]
    with pytest.raises(AnsibleFilterError, match="netaddr"):
        imex_node_map(["n2"], HOSTVARS)
