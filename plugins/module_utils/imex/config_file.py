# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""config.cfg of the IMEX daemon: KEY=VALUE lines and # comment lines (reference 1.5)."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

from ..errors import InputError
from .node_map import is_address, printable

# Documented defaults, in force where a key is absent. IMEX_CMD_ENABLED and IMEX_CMD_PORT are the shipped values, since
# the documentation names none.
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
    """start_timeout: seconds that a start of the unit may take, None for no limit; ephemeral: the kernel's port range."""

    start_timeout: float | None = None
    ephemeral: tuple[int, int] | None = None


NO_LIMITS = Limits()


def lines_of(text: str) -> list[str]:
    return text.split("\n")


def parse(text: str, path: str) -> ConfigFile:
    """Read a config.cfg as found on a host. Never raises; line numbers start at 1."""
    values: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for number, line in enumerate(lines_of(text.lstrip("\ufeff")), 1):
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


def refuse_unclear(found: ConfigFile, path: str) -> None:
    """Raise InputError for a file of which nobody can say what the daemon makes of it."""
    faults = [
        f"{key} is set {len(numbers)} times, in lines {', '.join(map(str, numbers))}: leave one"
        for key, numbers in found.duplicates.items()
    ]
    if found.problems:
        faults.append(
            f"{', '.join(found.problems)}: neither KEY=VALUE nor a # comment (a half-written file?), correct or remove it"
        )
    if found.duplicates or found.problems:
        raise InputError(f"{path} cannot be used, nothing was written: {'; '.join(faults)}.")


def edit(text: str, wanted: t.Mapping[str, str], path: str) -> Edited:
    """Give keys their values and keep every other byte: comments, blanks around "=", line ends, a missing final newline.

    A key that is not in the file is appended once, with the line ends that the file has. wanted: values by normalise().
    Raises InputError where the file has a key twice or a line that is neither KEY=VALUE nor a comment.
    """
    refuse_unclear(parse(text, path), path)
    bom = text[: len(text) - len(text.lstrip("\ufeff"))]
    lines = lines_of(text[len(bom) :])
    missing = dict(wanted)
    changes: list[ConfigChange] = []
    for index, line in enumerate(lines):
        match = None if line.lstrip().startswith("#") else re.fullmatch(LINE, line)
        if match is None or match.group(2) not in missing:
            continue
        key, before = match.group(2), match.group(3)
        after = missing.pop(key)
        if after != before:
            changes.append(ConfigChange(key, before, after, key_class(key)))
            lines[index] = match.group(1) + after + match.group(4)
    body = bom + "\n".join(lines)
    if missing:
        end = "\r\n" if body.count("\r\n") * 2 > body.count("\n") else "\n"
        if body[len(bom) :] and not body.endswith("\n"):
            body += end
        body += "".join(f"{key}={value}{end}" for key, value in missing.items())
        changes += [ConfigChange(key, None, value, key_class(key)) for key, value in missing.items()]
    order = list(wanted)
    return Edited(body, tuple(sorted(changes, key=lambda change: order.index(change.key))))


def key_class(key: str) -> str:
    """local: may differ between members; domain: all alike, so a change restarts all. Unknown keys are domain."""
    return "local" if key.startswith(("LOG_", "STATS_")) or key == "IMEX_NODE_DISCONNECTED_GRACE_TIME" else "domain"


def value(values: t.Mapping[str, str], key: str) -> str:
    """The value in force: what the file says, else the documented default, else nothing."""
    return values[key] if key in values else DEFAULTS.get(key, "")


def digest(values: t.Mapping[str, str]) -> str:
    """The identity of a configuration; the order of the keys does not matter."""
    lines = "".join(f"{key}={values[key]}\n" for key in sorted(values))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def normalise(wanted: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Values as YAML gives them (true, 50000, null, text) to the text of config.cfg. Raises InputError."""
    result: dict[str, str] = {}
    faults: list[str] = []
    for key, raw in wanted.items():
        key = str(key)
        if not re.fullmatch(KEY, key):
            faults.append(f"{key!r} is no name of a key (letters, digits and _)")
            continue
        if raw is None:
            text = ""
        elif isinstance(raw, bool):
            text = "1" if raw else "0"
        elif isinstance(raw, (str, int)):
            text = str(raw).strip(" \t")
        elif isinstance(raw, float) and raw.is_integer():
            text = str(int(raw))
        else:
            faults.append(f"{key}: {raw!r} is a {type(raw).__name__}, expected one text or number")
            continue
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            faults.append(f"{key}: {text!r} holds a line break or another control character")
        elif re.search(r"(^|[ \t])#", text):
            faults.append(f"{key}: {text!r} holds a # that would begin a comment")
        result[key] = text
    if faults:
        raise InputError(f"config cannot be used, nothing was written: {'; '.join(faults)}.")
    return result


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
    ports = {key: value(values, key) for key in PORTS}
    if ports["SERVER_PORT"] == ports["IMEX_CMD_PORT"]:
        faults.append(f"SERVER_PORT and IMEX_CMD_PORT are both {ports['SERVER_PORT']}, expected two different ports")
    for key, port in ports.items():
        low, high = limits.ephemeral or (1, 0)
        if port.isdigit() and low <= int(port) <= high:
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
        with open(os.path.join(proc_root, "sys/net/ipv4/ip_local_port_range"), encoding="ascii") as source:
            low, high = source.read().split()
            return int(low), int(high)
    except (OSError, ValueError):
        return None
