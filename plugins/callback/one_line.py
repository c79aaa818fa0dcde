# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stdout callback for ad hoc use: one line a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: one_line
type: stdout
short_description: One line a host, with the verdict of the host and why
version_added: 0.1.0
author:
  - hpc.fabric contributors (@hpc-fabric)
description:
  - Made for C(ansible -m hpc.fabric.imex_status). A line has the host, its verdict and the summary, as soon as the host has answered.
  - Works with any module. Where there is no C(verdict), the line has V(ok), V(changed), V(failed), V(skipped) or V(unreachable) and the
    message, else the first line of the output.
  - Warnings follow in lines of their own.
requirements:
  - Set as stdout in the configuration, or with C(ANSIBLE_STDOUT_CALLBACK=hpc.fabric.one_line).
  - For the C(ansible) command also C(ANSIBLE_LOAD_CALLBACK_PLUGINS=1) (C(bin_ansible_callbacks) in C(ansible.cfg)).
"""

EXAMPLES = r"""
one_line: |
  $ export ANSIBLE_STDOUT_CALLBACK=hpc.fabric.one_line ANSIBLE_LOAD_CALLBACK_PLUGINS=1
  $ ansible all -b -m hpc.fabric.imex_status
  n1  healthy      4 of 4 nodes ready and connected (UP, map loaded 3b1f…)
  n2  unreachable  Failed to connect to the host via ssh: No route to host
"""

import typing as t

from ansible import constants
from ansible.plugins.callback import CallbackBase

# How bad a word is. A word that is not known is shown as bad as "degraded": unknown is never healthy.
GOOD = 0
NEUTRAL = 1
CHANGED = 2
WARN = 3
BAD = 4
GONE = 5
WORDS = {
    "healthy": GOOD,
    "ok": GOOD,
    "idle": NEUTRAL,
    "not_applicable": NEUTRAL,
    "skipped": NEUTRAL,
    "changed": CHANGED,
    "starting": WARN,
    "degraded": WARN,
    "not_queryable": WARN,
    "unknown": WARN,
    "down": BAD,
    "failed": BAD,
    "unreachable": GONE,
}
# Names of the settings, in the order above.
COLORS = ("COLOR_OK", "COLOR_SKIP", "COLOR_CHANGED", "COLOR_WARN", "COLOR_ERROR", "COLOR_UNREACHABLE")
WORD_WIDTH = max(len(word) for word in WORDS)


def color(word: str) -> str:
    """The configured colour for a word."""
    return str(getattr(constants, COLORS[WORDS.get(word, WARN)]))


def line(host: str, word: str, text: str, width: int) -> str:
    """One line, aligned; line breaks of the text become blanks, and a word that the text repeats in front is left out."""
    flat = " ".join(text.split())
    for prefix in (f"{word}: ", f"{word} "):
        if flat.startswith(prefix):
            flat = flat[len(prefix) :]
    return f"{host:<{width}}  {word:<{WORD_WIDTH}}  {flat}".rstrip()


def describe(result: t.Mapping[str, t.Any], word: str) -> tuple[str, str]:
    """The word and the text of a result; word is what stands without a verdict."""
    verdict = result.get("verdict")
    text = result.get("summary")
    if verdict and word in ("ok", "changed"):
        return str(verdict), str(text or "")
    if word in ("failed", "unreachable") or text is None:
        text = _message(result)
    return word, str(text)


def _message(result: t.Mapping[str, t.Any]) -> str:
    for key in ("msg", "module_stderr", "stderr", "stdout", "reason", "skip_reason"):
        value = result.get(key)
        if value not in (None, "", [], {}):
            return str(value) if key in ("msg", "reason", "skip_reason") else str(value).strip().partition("\n")[0]
    if "rc" in result:
        return f"rc={result['rc']}"
    return "pong" if result.get("ping") == "pong" else ""


class CallbackModule(CallbackBase):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "hpc.fabric.one_line"

    def __init__(self) -> None:
        super().__init__()
        self._width = 0

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        """Learn how wide the names are."""
        manager = play.get_variable_manager()
        inventory = getattr(manager, "_inventory", None)
        names = [host.name for host in inventory.get_hosts(play.hosts or "all")] if inventory is not None else []
        self._width = max(map(len, names), default=0)

    def _show(self, result: t.Any, word: str) -> None:
        # Newer cores have result.host and result.result; older ones the names with an underscore.
        host = getattr(result, "host", None) or result._host
        data = result.result if hasattr(result, "result") else result._result
        self._handle_warnings(data)
        word, text = describe(data, word)
        self._display.display(line(host.get_name(), word, text, self._width), color=color(word))

    def v2_runner_on_ok(self, result: t.Any) -> None:
        data = result.result if hasattr(result, "result") else result._result
        self._show(result, "changed" if data.get("changed") else "ok")

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self._show(result, "failed")

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self._show(result, "unreachable")

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self._show(result, "skipped")
