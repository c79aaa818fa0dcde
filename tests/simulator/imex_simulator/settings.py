# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's own settings: one JSON file, documented in tests/simulator/README.md.

Found by the environment variable IMEX_SIMULATOR_CONFIG, else as ``imex-simulator.json`` beside the config.cfg in use, else
/etc/imex-simulator.json. An absent file means defaults.
"""

from __future__ import annotations

import os

ENVIRONMENT = "IMEX_SIMULATOR_CONFIG"
FILE_NAME = "imex-simulator.json"
SYSTEM_PATH = "/etc/imex-simulator.json"
FALLBACK_VERSION = "570.172.08"

DEFAULTS = {
    "version": None,
    "driver_version": None,
    "driver_loaded": True,
    "local_addresses": None,
    "hostname": None,
    "run_dir": None,
    "time_scale": 1.0,
    "heartbeat_interval": None,
    "reconnect_on_incoming": True,
    "stats_interval": None,
    "statistics": None,
    "error_fields": None,
    "error_commands": None,
    "inject_errors": [],
    "importers": [],
    "gpu_processes": [],
    "fabric": "F1",
    "settings_poll": 0.25,
    "log_megabyte": 1024 * 1024,
    "ctl_connect_timeout": 1.0,
    "ctl_answer_timeout": 5.0,
    "query_unavailable": "error14",
    "monitor_interval": None,
    "faults": {},
}

FAULTS = (
    "exit_at_start",
    "hang_start",
    "never_ready",
    "never_return",
    "init_seconds",
    "crash_after",
    "wrong_version",
    "node_map_mismatch",
    "cmd_port_closed",
    "peer_port_closed",
    "isolate",
    "ignore_sigterm",
    "slow_stop",
    "report_state",
    "report_connections",
    "torn_record",
    "ctl_hang",
    "ctl_delay",
    "ctl_exit",
    "ctl_rubbish",
    "ctl_truncated",
    "ctl_leading_log_lines",
    "smi_hang",
    "smi_exit",
)


class SettingsError(Exception):
    """The settings file cannot be used."""


class Settings:
    """Settings as attributes; ``fault(name)`` is None where that fault is off."""

    def __init__(self, values=None, path=None):
        values = values or {}
        unknown = set(values) - set(DEFAULTS)
        if unknown:
            raise SettingsError(f"{path}: unknown setting {', '.join(sorted(unknown))}; known: {', '.join(DEFAULTS)}")
        faults = values.get("faults") or {}
        unknown = set(faults) - set(FAULTS)
        if unknown:
            raise SettingsError(f"{path}: unknown fault {', '.join(sorted(unknown))}; known: {', '.join(FAULTS)}")
        self.path = path
        self.values = values
        for name, default in DEFAULTS.items():
            value = values.get(name)
            setattr(self, name, default if value is None else value)
        self.faults = faults
        if self.version is None:
            self.version = installed_version()
        if self.driver_version is None:
            self.driver_version = self.version

    def fault(self, name):
        value = self.faults.get(name)
        return None if value is False else value


def installed_version():
    """The version that ``imex-simulator install`` or the package wrote beside the programs."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "version")
    try:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return FALLBACK_VERSION


def find(config_path=None):
    """Path of the settings file in force, whether or not it exists."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return given
    if config_path:
        beside = os.path.join(os.path.dirname(os.path.abspath(config_path)), FILE_NAME)
        if os.path.exists(beside):
            return beside
    return SYSTEM_PATH


def load(path):
    """Read a settings file; an absent one means defaults."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except FileNotFoundError:
        return Settings(path=path)
    except OSError as e:
        raise SettingsError(f"{path}: {e.strerror}") from e
    import json  # costs a control call milliseconds, so only where there is something to parse

    try:
        values = json.loads(text)
    except ValueError as e:
        raise SettingsError(f"{path}: not JSON: {e}") from e
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected a JSON object")
    return Settings(values, path)


def save(path, values):
    """Write a settings file so that a reader sees the old one or the new one, never a part."""
    import json

    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(values, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(temporary, path)
