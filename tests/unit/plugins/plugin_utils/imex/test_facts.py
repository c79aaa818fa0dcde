# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of registered results."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import facts

STEPS: list[tuple[t.Any, facts.Step]] = [
    (None, facts.Step(facts.MISSING)),
    ({"skipped": True, "msg": "a condition"}, facts.Step(facts.MISSING)),
    ({"changed": True}, facts.Step(facts.OK, True)),
    ({"failed": True, "msg": "no space left"}, facts.Step(facts.FAILED, False, "no space left")),
    ({"unreachable": True}, facts.Step(facts.UNREACHABLE, False, "the host cannot be reached")),
]


@pytest.mark.parametrize("result, expected", STEPS)
def test_step(result: t.Any, expected: facts.Step) -> None:
    assert facts.step(result) == expected


def test_a_module_that_did_not_run_says_why() -> None:
    result = {
        "failed": True,
        "msg": "No start of json char found",
        "rc": 127,
        "module_stderr": "sh: python3.13: not found\n",
    }
    message = facts.step(result).message
    for word in ("No start of json char found", "127", "python3.13: not found", "ansible_python_interpreter"):
        assert word in message
