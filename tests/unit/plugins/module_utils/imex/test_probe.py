# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.imex import probe


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_probe_tells_accepted_from_refused() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port, closed = int(server.getsockname()[1]), closed_port()
        found = probe.probe(["127.0.0.1", "127.0.0.2"], [port, closed], 5)
    assert [(answer.address, answer.port) for answer in found] == [
        ("127.0.0.1", port),
        ("127.0.0.1", closed),
        ("127.0.0.2", port),
        ("127.0.0.2", closed),
    ]
    assert [answer.answer for answer in found] == ["accepted", "refused", "refused", "refused"]
    assert all(answer.reachable for answer in found)


def test_probe_meets_silence() -> None:
    # A listener whose queue is full lets the kernel drop what comes.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = int(server.getsockname()[1])
        waiting = [socket.socket() for _number in range(4)]
        for channel in waiting:
            channel.setblocking(False)
            channel.connect_ex(("127.0.0.1", port))
        (found,) = probe.probe(["127.0.0.1"], [port], 0.3)
        for channel in waiting:
            channel.close()
    assert found == probe.Probe("127.0.0.1", port, "silent", "no answer within 0.3 s")
    assert not found.reachable


def test_probe_of_a_name_that_does_not_exist() -> None:
    (found,) = probe.probe(["no-such-host.invalid"], [1], 1)
    assert found.answer == "error"
    assert found.detail


def test_probe_of_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as server:
            server.bind(("::1", 0))
            server.listen()
            (found,) = probe.probe(["::1"], [int(server.getsockname()[1])], 5)
    except OSError:
        pytest.skip("this host has no IPv6")
    assert found.answer == "accepted"


def test_probe_of_more_than_fit_at_once_and_of_one_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "AT_ONCE", 3)
    port = closed_port()
    addresses = [f"127.0.1.{number}" for number in range(1, 8)] + ["127.0.1.1"]
    found = probe.probe(addresses, [port], 5)
    assert [answer.address for answer in found] == addresses
    assert {answer.answer for answer in found} == {"refused"}


def test_probe_of_nothing() -> None:
    assert probe.probe([], [1], 1) == ()
