# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible import constants

from ansible_collections.hpc.fabric.plugins.callback import one_line

LINES = [
    ("n1", "ok", {"verdict": "healthy", "summary": "healthy: 4 of 4 nodes"}, "n1    healthy         4 of 4 nodes"),
    ("n1", "ok", {"verdict": "odd", "summary": "a new word"}, "n1    odd             a new word"),
    ("n10", "ok", {"ping": "pong"}, "n10   ok              pong"),
    ("n1", "changed", {"msg": "done\n  well"}, "n1    changed         done well"),
    ("n1", "changed", {"rc": 0, "stdout": "first\nsecond", "stderr": ""}, "n1    changed         first"),
    ("n1", "ok", {"rc": 0, "stdout": "", "stderr": ""}, "n1    ok              rc=0"),
    ("n1", "failed", {"msg": "No\nspace", "verdict": "down", "summary": "down: x"}, "n1    failed          No space"),
    ("n1", "failed", {"module_stderr": "Traceback\nmore"}, "n1    failed          Traceback"),
    ("n1", "unreachable", {"msg": "No route"}, "n1    unreachable     No route"),
    (
        "n1",
        "skipped",
        {"skip_reason": "Conditional result was False"},
        "n1    skipped         Conditional result was False",
    ),
    ("n1", "ok", {}, "n1    ok"),
]


@pytest.mark.parametrize("host, word, result, expected", LINES)
def test_line(host: str, word: str, result: dict[str, t.Any], expected: str) -> None:
    assert one_line.line(host, *one_line.describe(result, word), 4) == expected


@pytest.mark.parametrize(
    "word, name",
    [
        ("healthy", "COLOR_OK"),
        ("degraded", "COLOR_WARN"),
        ("a word of tomorrow", "COLOR_WARN"),
        ("down", "COLOR_ERROR"),
        ("unreachable", "COLOR_UNREACHABLE"),
        ("changed", "COLOR_CHANGED"),
        ("idle", "COLOR_SKIP"),
    ],
)
def test_color(word: str, name: str) -> None:
    assert one_line.color(word) == getattr(constants, name)


def test_ad_hoc(run_ansible: t.Any) -> None:
    """One line a host, also for one that cannot be reached and one that fails."""
    hosts = {
        "n1": {"ansible_connection": "local", "word": "fine"},
        "node22": {"ansible_connection": "local", "word": "two\nlines"},
        "n3": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh", "word": "x"},
    }
    settings = {"ANSIBLE_STDOUT_CALLBACK": "hpc.fabric.one_line", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"}
    inventory = {"all": {"hosts": hosts}}
    ended = run_ansible("adhoc", "all", "-m", "debug", "-a", "msg={{ word }}", inventory=inventory, **settings)
    assert ended.rc == 0, ended.text
    assert sorted(ended.stdout.splitlines()) == [
        "n1      ok              fine",
        "n3      ok              x",
        "node22  ok              two lines",
    ]
    ended = run_ansible("adhoc", "n1,n3", "-m", "fail", "-a", "msg={{ word }}", inventory=inventory, **settings)
    assert ended.rc == 2
    assert sorted(line for line in ended.stdout.splitlines() if line.startswith("n")) == [
        "n1  failed          fine",
        "n3  failed          x",
    ]
    ended = run_ansible("adhoc", "n3", "-m", "ping", inventory=inventory, ANSIBLE_SSH_RETRIES="0", **settings)
    assert ended.rc == 4, ended.text
    lines = [line for line in ended.stdout.splitlines() if line.startswith("n3")]
    assert len(lines) == 1
    assert lines[0].startswith("n3  unreachable     ")
