# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state machine of one node, without sockets."""

from __future__ import annotations

import pytest
from imex_simulator import model, rules

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def node(own_id, addresses=ADDRESSES, version="570.172.08", auth="0", instance=None, grace=-1.0):
    return model.NodeModel(addresses, own_id, version, auth, instance or f"i{own_id}", 50000, grace=grace)


def connect(a, b, now=0.0):
    """a's connection to b, as the daemons carry it out."""
    peer = a.ids[b.addresses[b.own_id]]
    a.peers[peer].trying = True
    verdict, effects = b.judge(a.hello(), now, 0.0)
    return verdict, a.welcomed(peer, verdict, b.hello(), now, 0.0), effects


def words(n):
    return [word for _id, _address, word in n.row()]


def test_first_attempts_go_to_every_line_itself_included():
    chosen, effects = node(0).due(0.0)
    assert chosen == [0, 1, 2]
    assert effects == []


def test_retries_follow_the_published_schedule():
    n = node(0)
    now, delays = 0.0, []
    for _turn in range(6):
        chosen, _effects = n.due(now)
        assert 1 in chosen
        for peer in chosen:
            n.connect_failed(peer, now)
        delays.append(n.next_due() - now)
        now = n.next_due()
    assert delays == [15.0, 31.0, 62.0, 125.0, 125.0, 125.0]


def test_retries_are_logged_with_their_number():
    n = node(0)
    n.due(0.0)
    n.connect_failed(1, 0.0)
    assert n.due(15.0)[1] == [model.Log("INFO", "Attempting connection for target node 1 - 10.0.0.2:50000, attempt #2")]


def test_equal_maps_connect():
    a, b = node(0), node(1)
    verdict, effects, _theirs = connect(a, b)
    assert verdict == model.ACCEPTED
    assert words(a) == [rules.NEVER_CONNECTED, rules.CONNECTED, rules.NEVER_CONNECTED]
    assert effects == [
        model.Log("INFO", "Connection established to node 1 with ip address 10.0.0.2. Number of times connected: 1")
    ]


def test_an_incoming_peer_is_connected_to_at_once():
    a, b = node(0), node(1)
    a.due(0.0)
    a.connect_failed(1, 0.0)
    _verdict, _effects, theirs = connect(b, a, now=1.0)
    assert theirs == [model.Reconnect(1)]
    assert a.due(1.0)[0] == [1]


@pytest.mark.parametrize(
    "other",
    [ADDRESSES[:2], (*ADDRESSES, "10.0.0.4"), ("10.0.0.3", "10.0.0.2", "10.0.0.1")],
    ids=["fewer", "more", "other order"],
)
def test_another_map_blocks_both_sides(other):
    a = node(0)
    b = node(other.index("10.0.0.2"), other)
    verdict, _effects, _theirs = connect(a, b)
    assert verdict == model.BAD_MAP
    assert a.peers[a.ids["10.0.0.2"]].status == rules.NODE_MAP_MISMATCH
    assert b.peers[b.ids["10.0.0.1"]].status == rules.NODE_MAP_MISMATCH
    assert a.errors.total == {("connection", rules.CET_NODES_MISMATCH): 1}


def test_a_mismatch_outlives_the_restart_of_one_side_but_not_of_both():
    old = node(0, ADDRESSES[:2])
    new = node(1)
    connect(old, new)
    # the first one comes back with the right map: the other still blocks it, and the block is passed on
    restarted = node(0, instance="again")
    assert connect(restarted, new)[0] == model.BAD_MAP
    assert words(restarted)[1] == rules.NODE_MAP_MISMATCH
    # then the other one restarts: now the first blocks
    assert connect(node(1, instance="again"), restarted)[0] == model.BAD_MAP
    # both stopped, both started
    assert connect(node(0, instance="third"), node(1, instance="third"))[0] == model.ACCEPTED


def test_a_peer_that_is_not_in_the_map_is_refused_and_leaves_no_trace():
    a = node(0, ADDRESSES[:2])
    stranger = node(2)
    verdict, _effects, theirs = connect(stranger, a)
    assert verdict == model.BAD_MAP
    assert theirs == []
    assert words(a) == [rules.NEVER_CONNECTED] * 2


def test_another_version_is_looked_at_again_with_the_next_connection():
    a, b = node(0), node(1, version="570.133.20")
    assert connect(a, b)[0] == model.BAD_VERSION
    assert words(a)[1] == rules.VERSION_MISMATCH
    assert a.errors.total == {("connection", rules.CET_VERSION_MISMATCH): 1}
    assert connect(a, node(1, instance="upgraded"))[0] == model.ACCEPTED
    assert words(a)[1] == rules.CONNECTED


def test_another_authentication_setting_leaves_the_cell_as_it_was():
    a, b = node(0), node(1, auth="SSL_TLS")
    assert connect(a, b)[0] == model.BAD_AUTH
    assert words(a)[1] == rules.NEVER_CONNECTED
    assert a.errors.total == {("connection", rules.CET_AUTHENTICATION_ERROR): 1}


def test_a_clean_stop_is_recovering_without_an_error():
    a, b = node(0), node(1)
    connect(a, b)
    effects = a.peer_shut_down(1, 5.0)
    assert words(a)[1] == rules.RECOVERING
    assert [e.text for e in effects if isinstance(e, model.Log)] == [
        "Received notification of shutdown from node 1 - 10.0.0.2",
        "Node disconnect event detected for node 1 with address 10.0.0.2",
    ]
    assert a.errors.total == {}
    assert a.peer_shut_down(1, 5.0) == []


def test_a_crash_is_counted_as_a_lost_connection():
    a, b = node(0), node(1)
    connect(a, b)
    a.lost(1, 5.0, 0.0)
    assert words(a)[1] == rules.RECOVERING
    assert a.errors.total == {("connection", rules.CET_CONNECTION_LOST): 1}


@pytest.mark.parametrize(
    "grace, later, status",
    [
        (-1.0, 1e9, rules.RECOVERING),
        (0.0, 0.0, rules.DISCONNECTED),
        (30.0, 29.0, rules.RECOVERING),
        (30.0, 30.0, rules.DISCONNECTED),
    ],
)
def test_the_grace_time_decides_when_recovering_ends(grace, later, status):
    a, b = node(0, grace=grace), node(1)
    connect(a, b)
    a.lost(1, 100.0, 0.0)
    a.tick(100.0 + later)
    assert words(a)[1] == status


@pytest.mark.parametrize("instance, cleaned", [("i1", False), ("new", True)])
def test_a_new_instance_is_cleaned_up_at_once(instance, cleaned):
    a = node(0)
    connect(a, node(1))
    a.lost(1, 5.0, 0.0)
    _verdict, effects, _theirs = connect(a, node(1, instance=instance))
    assert any("is a new instance" in e.text for e in effects) == cleaned
    assert words(a)[1] == rules.CONNECTED
    assert a.peers[1].connects == 2


def test_recovery_waits_for_the_former_importers_only():
    a = node(0)
    a.awaited = {2}
    connect(a, node(1))
    assert not a.recovered()
    connect(a, node(2))
    assert a.recovered()


def test_reconnect_all_closes_and_opens_every_connection():
    a = node(0)
    connect(a, node(1))
    effects = a.reconnect_all(9.0)
    assert [e.peer for e in effects if isinstance(e, model.Reconnect)] == [0, 1, 2]
    assert words(a)[1] == rules.RECOVERING
    assert a.due(9.0)[0] == [0, 1, 2]


def test_the_digest_depends_on_the_order():
    assert model.digest(ADDRESSES) != model.digest(ADDRESSES[::-1])
