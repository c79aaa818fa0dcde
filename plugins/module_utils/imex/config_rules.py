# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules that a whole config.cfg must keep (reference 1.5, 1.10): ports, words, numbers, time limits, encryption."""

from __future__ import annotations

import os
import re
import typing as t

from ..errors import InputError
from .config_file import DEFAULTS, NO_LIMITS, Limits, value
from .node_map import is_address

PORTS = ("SERVER_PORT", "IMEX_CMD_PORT")
TLS_KEYS = (
    "IMEX_SERVER_KEY",
    "IMEX_SERVER_CERT",
    "IMEX_SERVER_CERT_AUTH",
    "IMEX_CLIENT_KEY",
    "IMEX_CLIENT_CERT",
    "IMEX_CLIENT_CERT_AUTH",
)
SWITCH = ("0", "1")
WORDS = {
    "LOG_LEVEL": ("0", "1", "2", "3", "4"),
    "LOG_APPEND_TO_LOG": SWITCH,
    "LOG_USE_SYSLOG": SWITCH,
    "DAEMONIZE": SWITCH,
    "IMEX_ENABLE_AUTH_ENCRYPTION": SWITCH,
    "IMEX_CMD_ENABLED": SWITCH,
    "IMEX_GSS_SHUTDOWN_ON_FAILURE": SWITCH,
    "IMEX_WAIT_FOR_QUORUM": ("NONE", "RECOVERY", "FULL"),
    "IMEX_AUTH_ENCRYPTION_MODE": ("SSL_TLS", "GSS_AUTH_ENCRYPT", "GSS_AUTH_ONLY"),
    "IMEX_AUTH_SOURCE": ("", "FILE", "ENV_PATH", "ENV_VAL"),
}
# The smallest whole number that a key accepts.
NUMBERS = {
    "LOG_FILE_MAX_SIZE": 1,
    "LOG_MAX_ROTATE_COUNT": 0,
    "IMEX_GSS_TIMEOUT_SEC": -1,
    "IMEX_GSS_RETRY_INTERVAL_SEC": 0,
    "IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC": -1,
    "IMEX_NODE_DISCONNECTED_GRACE_TIME": -1,
    "IMEX_CONN_WAIT_TIMEOUT": 0,
}
ADDRESSES = ("BIND_INTERFACE_IP", "IMEX_CMD_BIND_INTERFACE_IP")
PATHS = ("LOG_FILE_NAME", "STATS_FILE_NAME", "IMEX_NODE_CONFIG_FILE", "IMEX_CMD_UNIX_DOMAIN_PATH")
PATH_LIMIT = 256
# Every key that was seen in a shipped file or in the documentation (reference 1.5).
KNOWN = frozenset(
    (
        *DEFAULTS,
        *PORTS,
        *TLS_KEYS,
        *WORDS,
        *NUMBERS,
        *ADDRESSES,
        *PATHS,
        "NETWORK_INTERFACE",
        "IMEX_SECURITY_TARGET_OVERRIDE",
    )
)


def check(
    values: t.Mapping[str, str],
    limits: Limits = NO_LIMITS,
    given: t.Collection[str] | None = None,
    *,
    what: str = "config",
) -> tuple[str, ...]:
    """Judge a whole configuration. Returns warnings, raises InputError for what cannot work.

    given: keys that the caller sets; a bad value of another key, which the daemon lives with up to now, is a warning.
    None: all are given.
    """
    faults: list[str] = []
    warnings: list[str] = []
    for key in values:
        fault = value_fault(key, values[key])
        if fault and (given is None or key in given or key in PORTS):
            faults.append(fault)
        elif fault:
            warnings.append(f"{what}: {fault}")
    warnings += [f"{what}: {unknown(key)}" for key in given or () if key not in KNOWN]
    ports = {key: value(values, key) for key in PORTS}
    if ports["SERVER_PORT"] == ports["IMEX_CMD_PORT"]:
        faults.append(f"SERVER_PORT and IMEX_CMD_PORT are both {ports['SERVER_PORT']}, expected two different ports")
    for key, port in ports.items():
        low, high = limits.ephemeral or (1, 0)
        reserved = port.isdigit() and any(first <= int(port) <= last for first, last in limits.reserved)
        if port.isdigit() and low <= int(port) <= high and not reserved:
            warnings.append(
                f"{what}: {key} {port} is in the kernel's ephemeral range {low}-{high}, so another program can hold it "
                "when the daemon starts: reserve it (sysctl net.ipv4.ip_local_reserved_ports) or take a port outside"
            )
    inner = value(values, "IMEX_CONN_WAIT_TIMEOUT")
    if inner.isdigit() and limits.start_timeout is not None and int(inner) >= limits.start_timeout:
        faults.append(
            f"IMEX_CONN_WAIT_TIMEOUT is {inner} s, expected less than the start timeout of {limits.start_timeout:g} s: systemd "
            "would end the daemon before it gives up by itself"
        )
    security_faults, security_warnings = check_security(values)
    if faults + security_faults:
        raise InputError(f"{what} cannot be used, nothing was written: {'; '.join(faults + security_faults)}.")
    return (*warnings, *(f"{what}: {warning}" for warning in security_warnings))


def unknown(key: str) -> str:
    """What to say of a key that nobody knows: a new version may have it, but it may be mistyped too."""
    import difflib

    close = difflib.get_close_matches(key.upper(), KNOWN, 1, 0.8)
    return f"{key} is no key of config.cfg that is known" + (f", did you mean {close[0]}?" if close else "")


def value_fault(key: str, text: str) -> str:
    """Why a key cannot have this value, empty when it can or when the key is not known."""
    if key in PORTS:
        good = re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536
        return "" if good else f"{key} is {text!r}, expected a port from 1 to 65535"
    if key in WORDS:
        words = [word or "nothing" for word in WORDS[key]]
        return "" if text in WORDS[key] else f"{key} is {text!r}, expected {', '.join(words[:-1])} or {words[-1]}"
    if key in NUMBERS:
        good = re.fullmatch("-?[0-9]+", text) and int(text) >= NUMBERS[key]
        return "" if good else f"{key} is {text!r}, expected a whole number from {NUMBERS[key]}"
    if key in ADDRESSES:
        return "" if not text or is_address(text) else f"{key} is {text!r}, expected an address or nothing"
    if key in PATHS:
        if len(text) > PATH_LIMIT:
            return f"{key} has {len(text)} characters, expected at most {PATH_LIMIT}"
        if key == "IMEX_NODE_CONFIG_FILE" and not text:
            return f"{key} is empty, expected a path"
        return "" if not text or text.startswith("/") else f"{key} is {text!r}, expected a path that begins with /"
    return ""


def check_security(values: t.Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Faults and warnings of the authentication keys (reference 1.5, 1.10)."""
    missing = [key for key in TLS_KEYS if not value(values, key)]
    enabled = value(values, "IMEX_ENABLE_AUTH_ENCRYPTION") == "1"
    mode = value(values, "IMEX_AUTH_ENCRYPTION_MODE")
    if not enabled:
        if value(values, "IMEX_AUTH_SOURCE") or len(missing) < len(TLS_KEYS):
            return [], [
                "keys of the encryption are set, but IMEX_ENABLE_AUTH_ENCRYPTION is not 1, so nothing is encrypted"
            ]
        return [], []
    if mode == "SSL_TLS":
        if not value(values, "IMEX_AUTH_SOURCE"):
            missing.insert(0, "IMEX_AUTH_SOURCE")
        if missing:
            return [f"IMEX_ENABLE_AUTH_ENCRYPTION is 1 with SSL_TLS, which needs also: {', '.join(missing)}"], []
    elif mode not in WORDS["IMEX_AUTH_ENCRYPTION_MODE"]:
        return [f"IMEX_AUTH_ENCRYPTION_MODE is {mode!r} with encryption enabled: the daemon would not start"], []
    return [], []


def ephemeral_range(proc_root: str = "/proc") -> tuple[int, int] | None:
    """The kernel's range of local ports, None when it cannot be read."""
    try:
        low, high = read_setting(proc_root, "ip_local_port_range").split()
        return int(low), int(high)
    except ValueError:
        return None


def reserved_ports(proc_root: str = "/proc") -> tuple[tuple[int, int], ...]:
    """The ranges that the kernel leaves out ("50000,50005-50010"), none when they cannot be read."""
    try:
        pairs = [word.partition("-") for word in read_setting(proc_root, "ip_local_reserved_ports").strip().split(",")]
        return tuple((int(low), int(high or low)) for low, _dash, high in pairs if low)
    except ValueError:
        return ()


def read_setting(proc_root: str, name: str) -> str:
    try:
        with open(os.path.join(proc_root, "sys/net/ipv4", name), encoding="ascii") as source:
            return source.read()
    except OSError:
        return ""
