# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the result of every task on every host as JSON, one a line, beside the output that people read."""

from __future__ import annotations

import json
import os

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: results_json
type: aggregate
short_description: Results of all tasks as JSON lines
description:
  - For the integration tests of this collection only. Writes to the file that the environment variable
    C(FABRIC_TEST_RESULTS) names.
requirements:
  - Enabled with C(ANSIBLE_CALLBACKS_ENABLED).
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results_json"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        path = os.environ.get("FABRIC_TEST_RESULTS")
        if not path:
            self.disabled = True
            return
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)

    def _write(self, **record):
        self.file.write(json.dumps(record, cls=AnsibleJSONEncoder) + "\n")
        self.file.flush()

    def _result(self, status, result, ignored=False):
        # ansible-core 2.19 gave the private names public ones.
        task = getattr(result, "task", None) or result._task
        host = getattr(result, "host", None) or result._host
        data = getattr(result, "result", None) or result._result
        self._write(
            host=host.get_name(),
            task=task.get_name().rpartition(" : ")[2],
            action=task.action,
            status=status,
            ignored=bool(ignored),
            data=data,
        )

    def v2_runner_on_ok(self, result):
        self._result("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._result("failed", result, ignore_errors)

    def v2_runner_on_skipped(self, result):
        self._result("skipped", result)

    def v2_runner_on_unreachable(self, result):
        task = getattr(result, "task", None) or result._task
        self._result("unreachable", result, task.ignore_unreachable)

    def v2_playbook_on_stats(self, stats):
        self._write(stats={host: stats.summarize(host) for host in sorted(stats.processed)})
        self.file.close()
