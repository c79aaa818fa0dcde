# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node map the running daemon holds, and the record of a start that says so.

The daemon reads its files once, when it starts (reference 0.1), so a file proves nothing about it.
"""

from __future__ import annotations

import json
import os
import typing as t

from .. import files
from ..errors import FileError
from .node_map import canonical, digest
from .unit import Unit

Pairs = tuple[tuple[str, str], ...]


class StartRecord(t.NamedTuple):
    """What the daemon loaded at one start, noted by who started (origin "started") or found it ("adopted")."""

    invocation_id: str
    started_at: float
    nodes: tuple[str, ...]
    config: Pairs
    origin: str
    writer_run: str = ""


class Loaded(t.NamedTuple):
    """What the running daemon holds, by the best evidence there is (source); None: not known."""

    nodes: tuple[str, ...] | None
    digest: str | None
    source: str
    in_sync: bool | None
    config: Pairs | None


NOTHING = Loaded(None, None, "none", None, None)


def record_path(run_dir: str, service: str) -> str:
    """Where the record of a service lies. It is gone after a reboot, as the daemon is."""
    return os.path.join(run_dir, f"imex-start-{service}.json")


def read_record(run_dir: str, service: str) -> StartRecord | None:
    """The record of the last start; None where there is none, or none that can be trusted (half-written, foreign)."""
    try:
        text = files.read_text(record_path(run_dir, service))
        data: dict[str, t.Any] = json.loads(text) if text else {}
        record = StartRecord(
            invocation_id=data["invocation_id"],
            started_at=float(data["started_at"]),
            nodes=tuple(data["nodes"]),
            config=tuple((key, value) for key, value in data["config"]),
            origin=data["origin"],
            writer_run=data["writer_run"],
        )
    except (FileError, ValueError, TypeError, KeyError):
        return None
    words = (
        record.invocation_id,
        record.origin,
        record.writer_run,
        *record.nodes,
        *(w for p in record.config for w in p),
    )
    return record if record.invocation_id and all(isinstance(word, str) for word in words) else None


def write_record(run_dir: str, service: str, record: StartRecord) -> None:
    """Note what was loaded (mode 0600, replaced in one step). Raises FileError."""
    from .. import atomic

    files.ensure_folder(run_dir)
    data = (json.dumps(record._asdict(), indent=1) + "\n").encode()
    atomic.replace(record_path(run_dir, service), data, mode=0o600)


def loaded(
    unit: Unit,
    record: StartRecord | None,
    own_row_hosts: tuple[str, ...] | None,
    configured: tuple[str, ...],
    files_changed_at: float | None,
) -> Loaded:
    """What the daemon of unit holds.

    Best evidence first: the record, if it is of this very start; the hosts of the daemon's own row, in id order; the
    time of the start against the time the files changed. Nothing is loaded where no daemon runs.
    """
    if not (unit.running or unit.starting):
        return NOTHING
    if record is not None and record.invocation_id == unit.invocation_id:
        return _held(record.nodes, "record", configured, record.config)
    if own_row_hosts:
        return _held(own_row_hosts, "own_row", configured, None)
    if unit.running and files_changed_at is not None and unit.started_at is not None:
        # Some systems say whole seconds only.
        if files_changed_at > unit.started_at + 1:
            return Loaded(None, None, "start_time", False, None)
        # A change while the start was under way may have been seen or not.
        if files_changed_at <= (unit.started_at if unit.activating_at is None else unit.activating_at):
            return _held(configured, "start_time", configured, None)
    return NOTHING


def _held(nodes: tuple[str, ...], source: str, configured: tuple[str, ...], config: Pairs | None) -> Loaded:
    held = tuple(canonical(node) for node in nodes)
    return Loaded(held, digest(held), source, held == tuple(canonical(node) for node in configured), config)
