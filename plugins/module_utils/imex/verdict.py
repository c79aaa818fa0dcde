# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the facts of one host to one word, with reasons. Pure: asks nobody.

The words, first that holds: not_applicable, idle, down, not_queryable, unknown, starting, degraded, healthy. What is not
as it should be is sorted out in faults.py, which a healthy host never loads.
"""

from __future__ import annotations

import typing as t

from .look import Facts, Reason, Verdict, answered
from .node_map import canonical
from .words import CONNECTED, READY

if t.TYPE_CHECKING:
    from .domain import Domain


def judge(facts: Facts) -> Verdict:
    """The verdict on one host."""
    if all_well(facts):
        return Verdict("healthy", (), _summary(facts, "healthy", ()), _evidence(facts))
    from . import faults

    word, reasons = faults.find(facts)
    reasons += [reason for reason in facts.found if reason not in reasons]
    if word == "healthy" and any(not reason.note for reason in reasons):
        word = "degraded"
    reasons.sort(key=lambda reason: reason.note)
    return Verdict(word, tuple(reasons), _summary(facts, word, reasons), _evidence(facts))


def all_well(facts: Facts) -> bool:
    """True only where there is nothing to say: all nodes READY and connected, by all rows, and every map the same."""
    domain, unit, loaded = facts.domain, facts.unit, facts.loaded
    if domain is None or unit is None or loaded is None or facts.found:
        return False
    expected = tuple(map(canonical, facts.expected))
    hosts = tuple(canonical(node.host) for node in domain.nodes)
    return (
        bool(expected)
        and unit.running
        and unit.enabled
        and unit.found
        and facts.state == READY
        and loaded.nodes == expected == hosts == facts.configured
        and domain.state == "UP"
        and domain.local is not None
        and len({node.version for node in domain.nodes}) == 1
        and all(
            node.status == READY
            and [link.id for link in node.connections] == [peer.id for peer in domain.nodes]
            and all(link.status == CONNECTED for link in node.connections)
            for node in domain.nodes
        )
    )


def _summary(facts: Facts, word: str, reasons: t.Sequence[Reason]) -> str:
    faults = [reason for reason in reasons if not reason.note] or list(reasons)
    if word not in ("healthy", "degraded"):
        return f"{word}: {faults[0].message}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
    if facts.domain is None or facts.quorum is None:
        line = f"{word}: the local daemon says {facts.state or 'nothing'}"
        line += "" if facts.domain_asked else " (the domain was not asked)"
    else:
        words = [facts.domain.state or "no state"]
        if facts.loaded and facts.loaded.digest:
            words.append(f"map loaded {facts.loaded.digest.partition(':')[2][:4]}…")
        line = f"{word}: {_well(facts, facts.domain)} of {facts.quorum.expected} nodes ready and connected ({', '.join(words)})"
    if word == "degraded":
        line += f": {faults[0].message}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
    return line


def _well(facts: Facts, domain: Domain) -> int:
    """Expected members that are READY and count for the quorum."""
    lost = set(facts.quorum.missing) if facts.quorum else set()
    ready = {canonical(node.host) for node in domain.nodes if node.status == READY}
    return sum(1 for node in map(canonical, facts.expected) if node in ready and node not in lost)


def _evidence(facts: Facts) -> tuple[str, ...]:
    words = []
    if facts.unit is not None:
        words.append("unit")
    if facts.domain is not None and facts.domain.local is not None and facts.domain.local.answered:
        words.append("own_row")
    elif answered(facts):
        words.append("daemon_state")
    if facts.domain is not None and any(node.answered and not node.is_local for node in facts.domain.nodes):
        words.append("member_rows")
    if facts.loaded and facts.loaded.source != "none":
        words.append(f"loaded_by_{facts.loaded.source}")
    return tuple(words)
