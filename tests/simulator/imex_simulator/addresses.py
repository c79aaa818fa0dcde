# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of this host and which line of the nodes file is its own."""

from __future__ import annotations

import _socket
import array
import fcntl
import struct

from imex_simulator import rules

_SIOCGIFCONF = 0x8912
_IFREQ = 40  # struct ifreq on 64-bit Linux: 16 bytes name, then a sockaddr


def local_interfaces():
    """{address: interface name} of this host, IPv4 and IPv6."""
    found = {}
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        size = 64 * _IFREQ
        while True:
            buffer = array.array("B", bytes(size))
            request = struct.pack("iP", size, buffer.buffer_info()[0])
            used = struct.unpack("iP", fcntl.ioctl(probe.fileno(), _SIOCGIFCONF, request))[0]
            if used < size:
                break
            size *= 2
        data = buffer.tobytes()
        for i in range(0, used, _IFREQ):
            name = data[i : i + 16].split(b"\0", 1)[0].decode().split(":")[0]
            found[_socket.inet_ntoa(data[i + 20 : i + 24])] = name
    finally:
        probe.close()
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as f:
            for line in f:
                words = line.split()
                found[_socket.inet_ntop(_socket.AF_INET6, bytes.fromhex(words[0]))] = words[5]
    except OSError:
        pass  # a kernel without IPv6
    return found


def canonical(address):
    """One spelling for an address literal; a host name stays itself."""
    if ":" in address:
        try:
            return _socket.inet_ntop(_socket.AF_INET6, _socket.inet_pton(_socket.AF_INET6, address.split("%")[0]))
        except OSError:
            return address
    return address


def resolve(name):
    """Addresses of a host name, [] when there is none."""
    try:
        return [entry[4][0] for entry in _socket.getaddrinfo(name, None, 0, _socket.SOCK_STREAM)]
    except OSError:
        return []


def own_id(nodes, bind_address, local_addresses):
    """(id, address, interface) of the first line that is this host's, or None.

    observed: "derive own address by matching local interfaces with the nodes file"; BIND_INTERFACE_IP decides when set.
    ``local_addresses`` (a setting) replaces what the host says, for loopback addresses.
    """
    if bind_address:
        mine = {canonical(bind_address): "lo" if bind_address.startswith("127.") else ""}
        for address, name in local_interfaces().items():
            if address in mine:
                mine[address] = name
    elif local_addresses is not None:
        mine = {canonical(address): "lo" for address in local_addresses}
    else:
        mine = local_interfaces()
    for node_id, entry in enumerate(nodes):
        if rules.is_address(entry):
            address = canonical(entry)
            if address in mine:
                return node_id, address, mine[address] or "lo"
        else:
            for address in resolve(entry):
                if canonical(address) in mine:
                    return node_id, canonical(address), mine[canonical(address)] or "lo"
    return None
