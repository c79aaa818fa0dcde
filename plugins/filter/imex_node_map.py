# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter imex_node_map: hosts and hostvars to the ordered addresses of an IMEX domain."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, node_rules
from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import settings


def imex_node_map(
    hosts: t.Any,
    hostvars: t.Any,
    network: str | None = None,
    order: str = "given",
    known: t.Sequence[str] = (),
    allow_hostnames: bool = False,
    allow_loopback_addresses: bool = False,
    allow_documentation_addresses: bool = False,
) -> list[str]:
    """The addresses of hosts, checked and in order. Every host must have one; the error names all that have not."""
    if isinstance(hosts, str) or not isinstance(hosts, t.Iterable):
        raise AnsibleFilterError(f"imex_node_map: expected a list of inventory names, got {hosts!r}.")
    problems: list[str] = []
    entries: list[str] = []
    for host in map(str, hosts):
        try:
            variables = hostvars[host]
        except KeyError:
            problems.append(f"{host}: not in the inventory")
            continue
        reader = settings.Reader(host, _getter(variables, network))
        address = settings.address_of(reader)
        problems += [problem.message for problem in reader.problems]
        if address is not None:
            entries.append(address)
        elif not reader.problems:
            problems.append(f"{host}: its address is not known: set imex_address, or give network")
    if problems:
        raise AnsibleFilterError(f"imex_node_map: {'; '.join(problems)}.")
    policy = node_map.Policy(allow_hostnames, allow_loopback_addresses, allow_documentation_addresses)
    try:
        return list(node_rules.build(node_map.arrange(entries, str(order), list(known)), policy, what="hosts").nodes)
    except InputError as exc:
        raise AnsibleFilterError(f"imex_node_map: {exc}") from exc


def _getter(variables: t.Any, network: str | None) -> settings.Get:
    def get(name: str) -> t.Any:
        if name == "imex_network" and network is not None:
            return network
        return variables.get(name)

    return get


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"imex_node_map": imex_node_map}
