# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd says about the unit of the IMEX daemon (reference 1.3; cases S1 to S7)."""

from __future__ import annotations

import os
import time
import typing as t

from .. import process
from ..errors import NoSystemdError, UnitError

# Ready after a reboot too. enabled-runtime, linked, static and the like are not (case 47).
ENABLED = ("enabled", "alias")
# For these a daemon may be there that has read its files.
ALIVE = ("active", "reloading", "refreshing")
# What systemctl says where another program is the first of all.
NOT_BOOTED = "not been booted with systemd"
SUFFIXES = (".service", ".target", ".scope", ".socket", ".slice")
PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,UnitFileState,NRestarts,InvocationID,MainPID,"
    "ActiveEnterTimestamp,ActiveEnterTimestampMonotonic,InactiveExitTimestamp,InactiveExitTimestampMonotonic,"
    "ExecMainStatus,Result,ConditionResult,ConditionTimestampMonotonic,"
    "FragmentPath,DropInPaths,NeedDaemonReload,TimeoutStartUSec,Job"
)
SPAN_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "month": 2629800.0,
    "y": 31557600.0,
}


class Unit(t.NamedTuple):
    """One unit as systemd sees it. Times are seconds since the epoch; None: not known."""

    unit: str
    load_state: str = ""
    active_state: str = ""
    sub_state: str = ""
    unit_file_state: str = ""
    restarts: int = 0
    invocation_id: str = ""
    pid: int | None = None
    started_at: float | None = None
    exec_status: int | None = None
    result: str = ""
    # The unit's Condition lines at the last start; None: never asked.
    condition: bool | None = None
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()
    need_reload: bool = False
    # None: no limit (TimeoutStartSec=infinity).
    start_timeout: float | None = None
    # When the start began that led to the present state: the daemon read its files between this and started_at.
    activating_at: float | None = None
    job: int | None = None

    @property
    def running(self) -> bool:
        """True once the start is done and the daemon has not ended."""
        return self.active_state in ALIVE

    @property
    def starting(self) -> bool:
        """True while a start is under way; the daemon has read its files and may wait for peers."""
        return self.active_state == "activating" and not self.sub_state.startswith("auto-restart")

    @property
    def found(self) -> bool:
        """False when there is no such unit (a masked one is there)."""
        return self.load_state not in ("", "not-found")

    @property
    def enabled(self) -> bool:
        """True when it is started at the next boot too."""
        return self.unit_file_state in ENABLED

    @property
    def masked(self) -> bool:
        """True when it cannot be started."""
        return self.load_state == "masked" or self.unit_file_state.startswith("masked")

    @property
    def restart_loop(self) -> bool:
        """True when systemd starts it again and again, or has given up doing so."""
        return self.sub_state.startswith("auto-restart") or self.result == "start-limit-hit"


def unit_name(service: str) -> str:
    """The full name of a unit: "nvidia-imex" is "nvidia-imex.service"."""
    return service if service.endswith(SUFFIXES) else service + ".service"


def mask_note(state_dir: str, service: str) -> str:
    """The note of imex_daemon that it masked the unit itself, for another owner of IMEX."""
    return os.path.join(state_dir, "imex", f"masked-{service}")


def read_unit(service: str, systemctl: str = "systemctl", timeout: float = 30) -> Unit:
    """Ask systemd once for everything we use. A unit that does not exist is an answer (load_state not-found).

    Raises UnitError when systemctl is missing or has no answer.
    """
    name = unit_name(service)
    output = run_systemctl(systemctl, ["show", "--no-pager", "-p", PROPERTIES, name], timeout).stdout
    unit = parse_show(output, name, time.time(), time.monotonic())
    if not unit.load_state:
        raise UnitError(f"systemctl show {name} did not say its LoadState, it printed: {output.strip()[:500]!r}")
    return unit


def run_systemctl(systemctl: str, arguments: t.Sequence[str], timeout: float) -> process.Ended:
    """Run systemctl with arguments. Raises UnitError when it fails or does not end in time, NoSystemdError where there is none."""
    path = process.find(systemctl)
    # Without the long list of properties.
    said = " ".join(dict.fromkeys([systemctl, arguments[0], arguments[-1]]))
    if path is None:
        raise NoSystemdError(
            f"{systemctl} was not found: this host is not run by systemd, or systemctl_command is wrong"
        )
    try:
        ended = process.run([path, *arguments], timeout, {"SYSTEMD_COLORS": "0"})
    except OSError as exc:
        raise UnitError(f"{said} could not be started: {exc.strerror or exc}") from exc
    if ended.timed_out:
        raise UnitError(f"{said} did not end within {timeout:g} s and was killed; is systemd answering at all?")
    if ended.rc != 0:
        error = NoSystemdError if NOT_BOOTED in ended.text else UnitError
        raise error(f"{said} failed with exit status {ended.rc}: {ended.text or 'it said nothing'}")
    return ended


def parse_show(text: str, name: str, now: float, monotonic: float) -> Unit:
    """Read the output of systemctl show. now and monotonic are the two clocks of the host at that moment, in seconds."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def moment(prefix: str) -> float | None:
        # Monotonic times have microseconds; the ones in words are whole seconds.
        since_boot = _number(values.get(prefix + "Monotonic"))
        if since_boot:
            return round(now - monotonic + since_boot / 1e6, 3)
        return parse_timestamp(values.get(prefix, ""))

    asked = values.get("ConditionResult")
    judged = asked in ("yes", "no") and _number(values.get("ConditionTimestampMonotonic", "1")) != 0
    return Unit(
        unit=values.get("Id") or name,
        load_state=values.get("LoadState", ""),
        active_state=values.get("ActiveState", ""),
        sub_state=values.get("SubState", ""),
        unit_file_state=values.get("UnitFileState", ""),
        restarts=_number(values.get("NRestarts")) or 0,
        invocation_id=values.get("InvocationID", ""),
        pid=_number(values.get("MainPID")) or None,
        started_at=moment("ActiveEnterTimestamp"),
        exec_status=_number(values.get("ExecMainStatus")),
        result=values.get("Result", ""),
        condition=asked == "yes" if judged else None,
        fragment=values.get("FragmentPath", ""),
        drop_ins=tuple(values.get("DropInPaths", "").split()),
        need_reload=values.get("NeedDaemonReload") == "yes",
        start_timeout=parse_span(values.get("TimeoutStartUSec", "")),
        activating_at=moment("InactiveExitTimestamp"),
        job=_number(values.get("Job")) or None,
    )


def parse_timestamp(text: str) -> float | None:
    """Seconds since the epoch of "Wed 2026-07-01 12:00:00 UTC" (or in the local zone) or "@1782907200".

    None when it is empty or in another zone.
    """
    if text.startswith("@"):
        return float(text[1:]) if text[1:].replace(".", "", 1).isdigit() else None
    words = text.split()
    # Not strptime, which loads a good deal of code.
    digits = " ".join(words[1:3]).partition(".")[0].replace("-", " ").replace(":", " ").split()
    if len(words) != 4 or len(digits) != 6 or not all(word.isdigit() for word in digits):
        return None
    year, month, day, hour, minute, second = map(int, digits)
    moment = (year, month, day, hour, minute, second, 0, 0)
    if words[3] in time.tzname:
        return time.mktime((*moment, time.tzname.index(words[3])))
    if words[3] != "UTC":
        return None
    import calendar

    return float(calendar.timegm(moment))


def parse_span(text: str) -> float | None:
    """Seconds of "1min 30s"; None for infinity or nothing."""
    total = 0.0
    for word in text.split():
        number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
        factor = SPAN_UNITS.get(word[len(number) :], 0.0)
        if not factor or not number.replace(".", "", 1).isdigit():
            return None
        total += float(number) * factor
    return total if text.strip() else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
