# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""config.cfg of the IMEX daemon: KEY=VALUE lines and # comment lines (reference 1.5).

config_edit.py gives keys their values, config_rules.py judges the whole.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from .node_map import printable

# Documented defaults, in force where a key is absent; of UNDOCUMENTED keys the shipped values.
DEFAULTS = {
    "LOG_LEVEL": "4",
    "LOG_FILE_NAME": "/var/log/nvidia-imex.log",
    "STATS_FILE_NAME": "/var/log/nvidia-imex-stats.log",
    "LOG_APPEND_TO_LOG": "1",
    "LOG_FILE_MAX_SIZE": "1024",
    "LOG_USE_SYSLOG": "0",
    "DAEMONIZE": "1",
    "SERVER_PORT": "50000",
    "IMEX_NODE_CONFIG_FILE": "/etc/nvidia-imex/nodes_config.cfg",
    "IMEX_WAIT_FOR_QUORUM": "RECOVERY",
    "IMEX_ENABLE_AUTH_ENCRYPTION": "0",
    "IMEX_AUTH_ENCRYPTION_MODE": "SSL_TLS",
    "IMEX_GSS_SERVICE_NAME": "host",
    "IMEX_GSS_TIMEOUT_SEC": "-1",
    "IMEX_GSS_RETRY_INTERVAL_SEC": "5",
    "IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC": "-1",
    "IMEX_GSS_SHUTDOWN_ON_FAILURE": "1",
    "IMEX_CMD_ENABLED": "1",
    "IMEX_CMD_PORT": "50005",
    "IMEX_NODE_DISCONNECTED_GRACE_TIME": "-1",
}
UNDOCUMENTED = ("IMEX_CMD_ENABLED", "IMEX_CMD_PORT")

KEY = "[A-Za-z_][A-Za-z0-9_]*"
# What stands before the value, the value, what stands behind it (blanks, a comment after a blank, the line's end).
LINE = rf"([ \t]*({KEY})[ \t]*=[ \t]*)(.*?)((?:[ \t]+#.*|[ \t]*)\r?)"


class ConfigFile(t.NamedTuple):
    """values: in the order of the file, the first of duplicates; problems: lines that are no KEY=VALUE and no comment."""

    values: dict[str, str]
    duplicates: dict[str, tuple[int, ...]]
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ConfigChange(t.NamedTuple):
    """before: None when the key was not in the file. key_class: domain (all members alike) or local."""

    key: str
    before: str | None
    after: str
    key_class: str


class Edited(t.NamedTuple):
    text: str
    changes: tuple[ConfigChange, ...]


class Limits(t.NamedTuple):
    """start_timeout: seconds that a start of the unit may take, None for no limit; ephemeral: the kernel's port range;
    reserved: the ports that it leaves out of that range."""

    start_timeout: float | None = None
    ephemeral: tuple[int, int] | None = None
    reserved: tuple[tuple[int, int], ...] = ()


NO_LIMITS = Limits()


def parse(text: str, path: str) -> ConfigFile:
    """Read a config.cfg as found on a host. Never raises; line numbers start at 1."""
    values: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = re.fullmatch(LINE, line)
        if match is None:
            problems.append(f"line {number} {printable(stripped)}")
            continue
        key, value = match.group(2), match.group(3)
        if "#" in match.group(4):
            warnings.append(
                f"{path} line {number}: a comment behind the value of {key}; only comment lines of their own are documented"
            )
        values.setdefault(key, value)
        places.setdefault(key, []).append(number)
    duplicates = {key: tuple(numbers) for key, numbers in places.items() if len(numbers) > 1}
    return ConfigFile(values, duplicates, tuple(problems), tuple(warnings))


def key_class(key: str) -> str:
    """local: may differ between members; domain: all alike, so a change restarts all. Unknown keys are domain."""
    return "local" if key.startswith(("LOG_", "STATS_")) or key == "IMEX_NODE_DISCONNECTED_GRACE_TIME" else "domain"


def value(values: t.Mapping[str, str], key: str) -> str:
    """The value in force: what the file says, else the documented default, else nothing."""
    return values[key] if key in values else DEFAULTS.get(key, "")


def effective(values: t.Mapping[str, str], key: str) -> str | None:
    """As value(), but None where neither the file nor the documentation says what is in force."""
    return None if key not in values and key in UNDOCUMENTED else value(values, key)


def digest(values: t.Mapping[str, str]) -> str:
    """The identity of a configuration; the order of the keys does not matter."""
    lines = "".join(f"{key}={values[key]}\n" for key in sorted(values))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
