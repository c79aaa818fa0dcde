# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon's main log since its last start: error lines, and what it says of itself (reference 3.3)."""

from __future__ import annotations

import os
import re
import time
import typing as t

from .. import process
from ..files import failure

# The file may have 1 GB; the present start is looked for in its last part only.
TAIL = 4 * 1024 * 1024
BANNER = "IMEX Log initializing at:"
LINE = re.compile(
    r"^(?:\[(?P<time>[A-Z][a-z]{2} +\d{1,2} \d{4} \d{2}:\d{2}:\d{2})\] )?"
    r"(?:\[(?P<level>[A-Z]+)\]|(?P<early>[A-Z]+):) (?:\[tid \d+\] )?(?P<text>.*)$"
)
ERRORS = ("ERROR", "CRITICAL")
# What a line means, whatever its level: a part of its text, the code of the reason. The first that fits counts.
KNOWN = (
    ("No matching network interface found", "own_address_missing"),
    ("NV_ERR_IN_USE", "foreign_daemon"),
    ("Address already in use", "port_in_use"),
    ("not matching with current GPU driver version", "version_mismatch"),
    ("Unable to notify ImexSessionApi", "driver_notification_failed"),
    ("Failed to get new memory reference", "import_failed"),
    ("with failure status", "import_failed"),
    ("Unable to open configuration file", "not_configured"),
)
IDENTIFIED = re.compile(r"Identified this node as ID (\d+)")
VERSION = re.compile(r"IMEX version (\S+) is running")
HOST_NAME = re.compile(r"Treating node config entry '([^']*)' as a host name")


class LogLine(t.NamedTuple):
    """time is the host's local time as ISO 8601 without a zone; code: see KNOWN, "" for any other error."""

    time: str | None
    level: str
    message: str
    code: str = ""


class Log(t.NamedTuple):
    """origin: the path, or journal; names: entries of its node list that the daemon took for host names, in their order;
    note: what limits the answer, "" for nothing."""

    origin: str
    lines: tuple[LogLine, ...] = ()
    version: str | None = None
    node_id: int | None = None
    note: str = ""
    names: tuple[str, ...] = ()


def read(path: str, started_at: float | None = None) -> Log:
    """What the log file says since the daemon's last start. Raises FileError when it is there and cannot be read.

    The start is the last banner; where the file has none (rotated), it is started_at (seconds since the epoch).
    """
    try:
        with open(path, "rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(0, size - TAIL))
            text = source.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return Log(path, note=f"{path} does not exist: the daemon never started with this log file, or logs elsewhere")
    except OSError as exc:
        raise failure("read", path, exc) from exc
    return parse(text, path, started_at)


def read_journal(unit: str, invocation_id: str, timeout: float = 10) -> Log:
    """The same from the journal, for a daemon without a log file (LOG_FILE_NAME empty or LOG_USE_SYSLOG=1)."""
    program = process.find("journalctl")
    if program is None:
        return Log("journal", note="the daemon has no log file and this host has no journalctl to ask for its messages")
    start = [f"_SYSTEMD_INVOCATION_ID={invocation_id}"] if invocation_id else ["-u", unit]
    try:
        ended = process.run([program, "--no-pager", "-q", "-o", "cat", "-n", "5000", *start], timeout)
    except OSError as exc:
        return Log("journal", note=f"journalctl could not be started: {exc.strerror}")
    if ended.timed_out or ended.rc != 0:
        return Log("journal", note=f"the daemon has no log file and journalctl failed: {ended.text or 'time limit'}")
    return parse(ended.stdout, "journal", None)._replace(note="the daemon has no log file: read from the journal")


def parse(text: str, origin: str, started_at: float | None = None, limit: int = 20) -> Log:
    """The last limit error lines of text since the last banner, else since started_at."""
    start = text.rfind(BANNER)
    note = ""
    if start >= 0:
        text, started_at = text[start:], None
    elif started_at is None:
        note = f"{origin} holds no start of the daemon: its last part was read, older starts may be in it"
    lines = []
    names = []
    version = node_id = None
    for row in text.splitlines():
        match = LINE.match(row)
        moment = match["time"] if match else None
        if started_at is not None and moment and _seconds(moment) + 1 < started_at:
            continue
        message = match["text"] if match else row
        said, own = VERSION.search(message), IDENTIFIED.search(message)
        version = said[1] if said else version
        node_id = int(own[1]) if own else node_id
        names += HOST_NAME.findall(message)
        level = (match["level"] or match["early"]) if match else ""
        code = next((code for part, code in KNOWN if part in message), "")
        if code or level in ERRORS:
            lines.append(LogLine(_iso(moment) if moment else None, level or "UNKNOWN", message, code))
    return Log(origin, tuple(lines[-limit:]), version, node_id, note, tuple(names))


def _parsed(moment: str) -> time.struct_time | None:
    try:
        return time.strptime(moment, "%b %d %Y %H:%M:%S")
    except ValueError:
        return None


def _iso(moment: str) -> str | None:
    parsed = _parsed(moment)
    return time.strftime("%Y-%m-%dT%H:%M:%S", parsed) if parsed else None


def _seconds(moment: str) -> float:
    parsed = _parsed(moment)
    return time.mktime(parsed) if parsed else float("inf")
