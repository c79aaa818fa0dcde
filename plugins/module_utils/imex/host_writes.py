# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes what deployment.assess decided; apart, since most calls of a module write nothing."""

from __future__ import annotations

import os
import typing as t

from .. import files
from ..errors import FabricError
from .deployment import Deployment
from .wanted import Found

LOCK = "imex.lock"


def lock(run_dir: str, config_path: str, timeout: float) -> t.ContextManager[None]:
    """The lock under which files are read, judged and written; beside config.cfg where run_dir cannot be used."""
    from .. import atomic

    try:
        files.ensure_folder(run_dir)
    except FabricError:
        return atomic.locked(os.path.join(os.path.dirname(config_path), f".{LOCK}"), timeout)
    return atomic.locked(os.path.join(run_dir, LOCK), timeout)


def apply(deployment: Deployment, found: Found) -> None:
    """Write the files of a deployment, config.cfg first. Call it under lock(), with a found that was read under it.

    A unit that is to be stopped must be stopped before, since its daemon must not start with half of it. Raises FileError.
    """
    from .. import atomic

    for path, text in (
        (found.config_path, deployment.config_text_after),
        (found.nodes_path, deployment.nodes_text_after),
    ):
        if text is not None:
            files.ensure_folder(os.path.dirname(path))
            atomic.replace(path, files.encode(text))


def diffs(deployment: Deployment, found: Found) -> list[dict[str, str]]:
    """Before and after of each file that changes, for Ansible's diff mode."""
    pairs = (
        (found.nodes_path, found.nodes_text, deployment.nodes_text_after),
        (found.config_path, found.config_text, deployment.config_text_after),
    )
    return [
        {
            "before_header": path,
            "after_header": path,
            "before": printable(before or ""),
            "after": printable(after),
        }
        for path, before, after in pairs
        if after is not None
    ]


def printable(text: str) -> str:
    """Text that can be sent as JSON: bytes that are no UTF-8 are shown as question marks."""
    return files.encode(text).decode("utf-8", "replace")


def changed_paths(deployment: Deployment, found: Found) -> list[str]:
    """The files that apply() writes, the node map last."""
    pairs = ((found.config_path, deployment.config_text_after), (found.nodes_path, deployment.nodes_text_after))
    return [path for path, text in pairs if text is not None]


def save_generation(found: Found, state_dir: str, run_id: str, keep: int, unit_dir: str, service: str) -> str:
    """Keep the files as they were found, under the run's label; the id of the generation."""
    from . import dropin, generations

    paths = generations.Paths(found.config_path, found.nodes_path, dropin.path(unit_dir, service))
    state = found.unit.unit_file_state if found.unit is not None else ""
    return generations.save(state_dir, run_id, paths, state, keep).id


def retire_unit(deployment: Deployment, options: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Stop and disable the unit, as unit_changes says; warnings, of a kill for instance. Raises UnitError, FileError.

    options: those of service.Order that say where the unit and our notes are, and stop_timeout.
    """
    from . import service

    disable = False if "disable" in deployment.unit_changes else None
    return service.carry_out(service.Order(state="stopped", enabled=disable, **options), False).warnings
