# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one family of errors of the core. str(error) is the whole message for a person."""

from __future__ import annotations

OUTPUT_LIMIT = 2000


class FabricError(Exception):
    """Base of all errors that the core raises on purpose."""


class InputError(FabricError):
    """The caller's argument or the content of a file cannot be used; nothing was changed."""


class FileError(FabricError):
    """Reading or writing failed. path: the file; errno: the system's number, or None."""

    def __init__(self, message: str, path: str = "", errno: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.errno = errno


class ControlError(FabricError):
    """The control tool gave no usable answer.

    kind: missing, timeout, unreachable, not_configured, failed or unreadable; output: what it printed, cut to
    OUTPUT_LIMIT characters.
    """

    def __init__(self, message: str, kind: str = "failed", output: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.output = output[:OUTPUT_LIMIT]


class UnitError(FabricError):
    """systemd could not be asked, or refuses what was asked for (unit not found, masked, ...)."""


class NoSystemdError(UnitError):
    """This host is not run by systemd, so there is no unit either."""
