# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three log files of a daemon: main log, statistics, verbose dump."""

from __future__ import annotations

import collections
import json
import os
import sys
import time

from imex_simulator import rules


class RotatingFile:
    """A log file that the daemon itself rotates. ``path`` empty or unopenable means standard error."""

    def __init__(self, path, append, max_bytes, keep):
        self.path, self.max_bytes, self.keep = path, max_bytes, keep
        self.error = None
        self.stopped = False
        self.file = None
        try:
            self.file = open(path, "ab" if append else "wb", buffering=0)  # noqa: SIM115
            os.chmod(path, 0o644)
        except OSError as e:
            self.error = e

    @property
    def on_stderr(self):
        return self.file is None

    def write(self, text):
        if self.stopped:
            return
        data = text.encode("utf-8", "replace")
        if self.file is None:
            try:
                sys.stderr.write(text)
                sys.stderr.flush()
            except OSError:
                pass  # nobody reads the standard error of a daemon any more
            return
        if self.max_bytes and self.file.tell() + len(data) > self.max_bytes and self.file.tell():
            if not self.keep:  # observed: LOG_MAX_ROTATE_COUNT=0 stops logging at the size limit
                self.stopped = True
                return
            self._rotate()
        self.file.write(data)

    def _rotate(self):
        # inferred: the names of rotated files are not published
        self.file.close()
        for i in range(self.keep - 1, 0, -1):
            if os.path.exists(f"{self.path}.{i}"):
                os.replace(f"{self.path}.{i}", f"{self.path}.{i + 1}")
        os.replace(self.path, f"{self.path}.1")
        self.file = open(self.path, "wb", buffering=0)  # noqa: SIM115

    def close(self):
        if self.file is not None:
            self.file.close()


class MainLog:
    def __init__(self, config, version_rules, megabyte):
        self.rules = version_rules
        self.level = _number(config["LOG_LEVEL"], 4)
        self.config = config
        self.verbose = collections.deque(maxlen=5000)
        self.syslog = None
        if config["LOG_USE_SYSLOG"] == "1":
            import syslog

            syslog.openlog("nvidia-imex", syslog.LOG_PID, syslog.LOG_DAEMON)
            self.syslog = syslog
        max_bytes = int(_number(config["LOG_FILE_MAX_SIZE"], 1024) * megabyte)
        keep = _number(config["LOG_MAX_ROTATE_COUNT"], 3)
        append = config["LOG_APPEND_TO_LOG"] != "0"
        self.file = RotatingFile(config["LOG_FILE_NAME"], append, max_bytes, keep)
        if config["STATS_FILE_NAME"] == config["LOG_FILE_NAME"]:  # observed: equal names mix both into one file
            self.stats = self.file
        else:
            self.stats = RotatingFile(config["STATS_FILE_NAME"], append, max_bytes, keep)
        if self.file.error is not None:
            for line in rules.LOG_FALLBACK:
                self.file.write(line.format(reason=self.file.error.strerror) + "\n")
        now = time.time()
        self._raw(rules.LOG_FIRST_LINE.format(stamp=rules.short_stamp(time.localtime(now), int(now % 1 * 1000))))

    def _raw(self, text):
        if self.syslog is not None:
            self.syslog.syslog(text)
        elif self.level > 0:
            self.file.write(text + "\n")

    def write(self, level, text, tid=None, blank=False):
        stamp = rules.log_stamp(time.localtime())
        line = rules.LOG_LINE.format(stamp=stamp, level=level, tid=tid or os.getpid(), text=text)
        self.verbose.append(line)
        if rules.LOG_LEVELS[level] <= self.level:
            self._raw(line + ("\n" if blank else ""))

    def debug(self, text):
        """Only for the verbose buffer."""
        self.verbose.append(
            rules.LOG_LINE.format(stamp=rules.log_stamp(time.localtime()), level="DEBUG", tid=os.getpid(), text=text)
        )

    def banner(self, version, port, nogpu):
        """observed: 570.00 (a blank line after each line) and 580.159.04 (colon, authentication line)."""
        r, c = self.rules, self.config
        end = ":" if r.banner_colon else ""
        mode = "in NO GPU MODE" if nogpu else f"with the following configuration options{end}"  # observed: 590.48.01
        lines = [
            f"IMEX version {version} is running {mode}",
            f"Logging level = {c['LOG_LEVEL']}",
            f"Logging file name/path = {c['LOG_FILE_NAME']}",
            f"Append to log file = {c['LOG_APPEND_TO_LOG']}",
            f"Max Log file size = {c['LOG_FILE_MAX_SIZE']} (MBs)",
            f"Use Syslog file = {c['LOG_USE_SYSLOG']}",
        ]
        if r.banner_auth:
            lines.append(f"Authentication and Encryption enabled = {c['IMEX_ENABLE_AUTH_ENCRYPTION']}")
        lines.append(f"IMEX Library communication bind interface = {c['BIND_INTERFACE_IP']}")
        lines.append(f"IMEX library communication bind port = {port}")
        for line in lines:
            self.write("INFO", line.rstrip() if r.banner_blank_lines else line, blank=r.banner_blank_lines)

    def dump_verbose(self):
        """observed: written on SIGHUP and at shutdown. inferred: beside the main log; none without a main log file."""
        name = self.config["LOG_FILE_NAME"]
        if not name or self.file.on_stderr:
            return
        path = (name[: -len(".log")] if name.endswith(".log") else name) + "-verbose.log"
        try:
            with open(path, "a", encoding="utf-8") as f:
                f.write("".join(line + "\n" for line in self.verbose))
        except OSError as e:
            self.write("WARNING", f"Failed to write verbose log {path}: {e.strerror}")

    def close(self):
        self.file.close()
        self.stats.close()


def _number(text, default):
    try:
        return int(text)
    except ValueError:
        return default


def stats_record(seconds, incoming, outgoing, overrides, errors):
    """Text of one statistics record.

    observed: header and layout from the metrics page; 64-bit counts are strings; ``error_counters`` in snake_case beside
    the older camelCase. inferred: message types without traffic are left out, maps without members are ``{}``.
    ``errors``: (error_counters, error_details_last_window) or None.
    """
    record = {
        "QueueStats": {
            "ProcessorQueue": {"queueDepth": "0", "oldestDurationMillis": 0},
            "PendingFreeQueue": {"queueDepth": "0", "oldestDurationMillis": 0},
        },
        "IncomingMessages": incoming,
        "OutgoingMessages": outgoing,
    }
    for key, value in (overrides or {}).items():
        record[key] = {**record[key], **value} if isinstance(record.get(key), dict) else value
    if errors is not None:
        record["error_counters"], record["error_details_last_window"] = errors
    return rules.STATS_HEADER.format(seconds=seconds) + json.dumps(record, indent=1) + "\n"


def message_stats(count, millis):
    """One message type of a statistics record."""
    return {
        "msgCount": str(count),
        "avgQueueTimeMillis": 0.01,
        "avgOperTimeMillis": millis,
        "avgTotalTimeMillis": round(0.01 + millis, 2),
    }
