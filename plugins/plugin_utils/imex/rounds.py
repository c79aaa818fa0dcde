# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which work waits for other work: the rounds of local restarts. Pure."""

from __future__ import annotations

import typing as t

from .examine import Finding
from .records import LOCAL, HostDecision


def with_rounds(
    hosts: t.Mapping[str, HostDecision], findings: t.Mapping[str, Finding]
) -> tuple[dict[str, HostDecision], dict[str, int]]:
    """Give each restart of a local change a round of its own; all other work is done in round 0.

    Members that were stopped come first: from round 1 on the domain has all it can have.
    """
    result = dict(hosts)
    rounds: dict[str, int] = {}
    for name, finding in findings.items():
        if finding.decision != LOCAL:
            continue
        first = [host for host in finding.full if host not in finding.view.holders]
        turns = [host for host in finding.full if host in finding.view.holders]
        start = 1 if first or any(result[h].work for h in finding.view.here if h not in finding.full) else 0
        for number, host in enumerate(turns, start):
            result[host] = result[host]._replace(round=number)
        rounds[name] = start + len(turns)
    return result, rounds
