# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks nvidia-imex-ctl (reference 2.1, 2.2). Every call ends within its time limit; nothing is decided here."""

from __future__ import annotations

import time
import typing as t

from .. import process
from ..errors import ControlError
from . import domain as answer

# Where the packages and other tools' searches expect it, after PATH.
DIRECTORIES = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/nvidia/imex/bin",
    "/usr/local/nvidia/imex/bin",
)


def find_command(name: str) -> str:
    """Path of a program of the IMEX package. Raises ControlError (kind missing)."""
    path = process.find(name, DIRECTORIES)
    if path is None:
        raise ControlError(
            f"{name} was not found on PATH nor in {', '.join(DIRECTORIES)}: install the nvidia-imex package that "
            "matches the driver, or set control_command",
            "missing",
            "",
        )
    return path


def query_domain(
    command: str,
    config_path: str,
    timeout: float,
    local_addresses: t.Collection[str],
    hostnames: bool = False,
) -> answer.Domain:
    """Ask every node of the domain once, as JSON; a tool that has no -j is asked for its text table.

    timeout, in seconds, holds for all of it. hostnames adds -H, for which the tool looks up every node's name.
    Raises ControlError: missing, timeout, unreachable, not_configured, failed, unreadable.
    """
    deadline = time.monotonic() + timeout
    base = [find_command(command), "-c", config_path, "-N"]
    ended = _run([*base, "-j", *(["-H"] if hostnames else [])], timeout)
    if _has_no_such_option(ended):
        ended = _run(base, max(deadline - time.monotonic(), 0.1))
    try:
        if "{" not in ended.stdout and "Domain State" in ended.stdout:
            from . import table

            return table.parse(ended.stdout, local_addresses)
        return answer.parse_json(ended.stdout, local_addresses)
    except ControlError as exc:
        raise _failure(base, ended) or exc from None


def query_daemon(command: str, config_path: str, timeout: float) -> str:
    """The state word of the local daemon (-q), as it says it; words we do not know are carried through.

    Raises ControlError: missing, timeout, unreachable, not_configured, failed, unreadable.
    """
    argv = [find_command(command), "-c", config_path, "-q"]
    ended = _run(argv, timeout)
    words = ended.stdout.split()
    failed = _failure(argv, ended)
    if failed is not None:
        raise failed
    # Old versions write lines like "stopAtReady: 0" before it.
    if not words or words[-1].endswith(":"):
        raise answer.unreadable("no state word", ended.text)
    return words[-1]


def daemon_version(command: str = "nvidia-imex", timeout: float = 10) -> str | None:
    """The version of the installed daemon program ("IMEX version is: 570.148.08"); None where it does not say."""
    try:
        ended = process.run([find_command(command), "--version"], timeout)
    except (ControlError, OSError):
        return None
    words = ended.stdout.split()
    return words[-1] if ended.rc == 0 and words and not ended.timed_out else None


def _run(argv: t.Sequence[str], timeout: float) -> process.Ended:
    said = " ".join(argv)
    try:
        ended = process.run(argv, timeout)
    except OSError as exc:
        raise ControlError(f"{said} could not be started: {exc.strerror or exc}", "failed", "") from exc
    if ended.timed_out:
        raise ControlError(
            f"{said} had no answer within {timeout:g} s and was killed; the state of the domain is not known. "
            "Raise control_timeout if some nodes cannot be reached, else look at the daemon's log",
            "timeout",
            ended.text,
        )
    if ended.overflow:
        raise ControlError(f"{said} did not stop writing and was killed", "unreadable", ended.text)
    return ended


def _has_no_such_option(ended: process.Ended) -> bool:
    return ended.rc != 0 and "{" not in ended.stdout and "usage:" in ended.text.lower() and not _not_configured(ended)


def _not_configured(ended: process.Ended) -> bool:
    return "Unable to open configuration file" in ended.text or "Failed to read node configuration" in ended.text


def _failure(argv: t.Sequence[str], ended: process.Ended) -> ControlError | None:
    """What a run without an answer means; None when the tool itself saw nothing wrong."""
    said = f"{' '.join(argv)} ended with exit status {ended.rc} and said: {ended.text or 'nothing'}"
    if _not_configured(ended) or ended.rc == 255:
        return ControlError(
            f"IMEX is not configured here, or its files cannot be read (they need an existing config.cfg and node "
            f"list, and the right to read them): {said}",
            "not_configured",
            ended.text,
        )
    if "error code: 14" in ended.text or "failed to connect" in ended.text.lower():
        return ControlError(
            f"The command service of the local daemon does not answer (is the daemon up, IMEX_CMD_ENABLED=1, the "
            f"bind address right?): {said}",
            "unreachable",
            ended.text,
        )
    if ended.rc != 0:
        return ControlError(f"The control tool failed: {said}", "failed", ended.text)
    return None
