# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which version of the IMEX package is installed (reference 1.2: its name depends on branch and distribution)."""

from __future__ import annotations

from .. import process
from ..errors import FabricError

QUERIES = (
    ("dpkg-query", ("-W", "-f", "${db:Status-Status} ${Version}\n")),
    ("rpm", ("-q", "--qf", "installed %{VERSION}-%{RELEASE}\n")),
)


def installed_version(name: str, timeout: float = 30) -> str | None:
    """The installed version of a package, None when it is not installed.

    Raises FabricError when the host has neither dpkg nor rpm, or none of them answers in time.
    """
    asked = False
    for program, arguments in QUERIES:
        path = process.find(program)
        if path is None:
            continue
        asked = True
        try:
            ended = process.run([path, *arguments, name], timeout)
        except OSError as exc:
            raise FabricError(f"{path} could not be started: {exc.strerror}") from exc
        if ended.timed_out:
            raise FabricError(
                f"{path} did not say within {timeout:g} s whether {name} is installed; is its database locked?"
            )
        words = ended.stdout.split()
        if ended.rc == 0 and len(words) >= 2 and words[0] == "installed":
            return words[1]
    if not asked:
        raise FabricError(
            f"Cannot say whether the package {name} is installed: this host has neither dpkg-query nor rpm"
        )
    return None


def fits(installed: str | None, wanted: str) -> bool:
    """True when installed is wanted, or wanted with the distribution's release behind it (570.172.08 and 570.172.08-1)."""
    if installed is None:
        return False
    have = installed.partition(":")[2] if installed.partition(":")[0].isdigit() else installed
    return wanted in (installed, have) or have.startswith(wanted + "-")
