# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stops and starts the unit of the daemon within time limits, and notes what it loaded (reference 1.3, 1.7).

A start of this unit may hang for ever and a restart of one member alone breaks a domain, so nothing here waits for
READY and nothing is restarted that was not asked for.
"""

from __future__ import annotations

import os
import time
import typing as t

from .. import files
from ..errors import UnitError
from .unit import Unit, mask_note, read_unit, run_systemctl, unit_name

if t.TYPE_CHECKING:
    from .daemon import Pairs, StartRecord

# Seconds: for systemd to take a start up, for the kernel to end a killed process, for one call of systemctl.
TAKE_UP = 2.0
AFTER_KILL = 10.0
CALL = 30.0
PAUSE = 0.1


class Order(t.NamedTuple):
    """The options of imex_daemon, see its documentation."""

    state: str = "unchanged"
    enabled: bool | None = None
    masked: bool | None = None
    force_unmask: bool = False
    dropin: bool | None = None
    unit_dir: str = "/etc/systemd/system"
    start_timeout: float = 90.0
    stop_timeout: float = 60.0
    driver_path: str = "/dev/nvidiactl"
    note: bool = False
    run_id: str = ""
    reset_failed: bool = True
    config_path: str = "/etc/nvidia-imex/config.cfg"
    nodes_config_path: str | None = None
    service: str = "nvidia-imex"
    systemctl_command: str = "systemctl"
    state_dir: str = "/var/lib/hpc-fabric"
    run_dir: str = "/run/hpc-fabric"


class Outcome(t.NamedTuple):
    """What was done (check mode: what would be). before and after: the unit; record: what is noted for this daemon."""

    changed: bool
    before: Unit
    after: Unit
    record: StartRecord | None
    killed: bool
    actions: tuple[str, ...]
    warnings: tuple[str, ...]
    dropin_before: str | None
    dropin_after: str | None


class Installed(t.NamedTuple):
    """What the daemon would load from the files now."""

    nodes: tuple[str, ...]
    config: Pairs
    nodes_path: str


def carry_out(order: Order, check_mode: bool) -> Outcome:
    """Do what order asks. Raises UnitError (no such unit, masked by somebody else, systemctl fails) and FileError."""
    if check_mode:
        return _Run(order, True).carry_out()
    from .. import atomic

    with atomic.locked(os.path.join(order.run_dir, "imex-unit.lock")):
        return _Run(order, False).carry_out()


def installed(order: Order) -> Installed:
    """Read config.cfg and the node list as they are. Raises FileError."""
    from . import config_file, node_map

    values = config_file.parse(files.read_text(order.config_path) or "", order.config_path).values
    path = order.nodes_config_path or config_file.value(values, "IMEX_NODE_CONFIG_FILE")
    return Installed(node_map.parse(files.read_text(path) or "", path).nodes, tuple(values.items()), path)


class _Run:
    """One call: the steps share what was found and what was done."""

    def __init__(self, order: Order, check_mode: bool) -> None:
        self.order = order
        self.check_mode = check_mode
        self.actions: list[str] = []
        self.warnings: list[str] = []
        self.changed = False
        self.killed = False
        self.unit = Unit(unit_name(order.service))

    def carry_out(self) -> Outcome:
        order = self.order
        before = self.unit = self._first_look()
        note = mask_note(order.state_dir, order.service)
        self._refuse(note)
        path, have, wanted = self._dropin()
        # A start that hangs is ended by a stop too, so what is under way counts as up.
        up = before.running or before.active_state in ("activating", "deactivating") or before.job is not None
        if order.state in ("stopped", "restarted") and up and before.found:
            self._stop()
        if order.masked is False:
            self._unmask(note)
        if have != wanted:
            self._write_dropin(path, wanted)
        if order.enabled is not None:
            self._enable(order.enabled)
        begun = order.state == "restarted" or (order.state == "started" and not (before.running or before.starting))
        record = self._start() if begun else None
        if order.masked:
            self._mask(note)
        if order.note and not begun:
            record = self._note()
        if not self.check_mode:
            self._look()
        if self.unit.restart_loop:
            self.warnings.append(
                f"{self.unit.unit} fails and is started again and again ({self.unit.restarts} times): see its log"
            )
        record = record or self._noted()
        return Outcome(
            self.changed,
            before,
            self.unit,
            record,
            self.killed,
            tuple(self.actions),
            tuple(self.warnings),
            have,
            wanted,
        )

    def _first_look(self) -> Unit:
        try:
            return read_unit(self.order.service, self.order.systemctl_command, CALL)
        except UnitError as exc:
            if not self.check_mode:
                raise
            self.warnings.append(f"The unit is not known, check mode goes on as if it was there and stopped: {exc}")
            return Unit(unit_name(self.order.service))

    def _refuse(self, note: str) -> None:
        order, unit = self.order, self.unit
        # A unit that is not there can be masked all the same, before a package brings it.
        needed = order.state in ("started", "restarted") or order.enabled
        if not unit.found:
            text = f"There is no unit {unit.unit} on this host (LoadState {unit.load_state or 'not known'})"
            if needed and not self.check_mode:
                raise UnitError(
                    f"{text}: install the nvidia-imex package, or correct service, then systemctl daemon-reload"
                )
            self.warnings.append(f"{text}; nothing is there to be stopped" if not needed else f"{text} yet")
        if not unit.masked or os.path.exists(note):
            if unit.masked and order.masked is not False and order.state in ("started", "restarted"):
                raise UnitError(
                    f"{unit.unit} is masked by this collection, for another owner of IMEX: set masked=false too"
                )
            return
        if (order.masked is False and not order.force_unmask) or (
            order.masked is None and order.state in ("started", "restarted")
        ):
            raise UnitError(
                f"{unit.unit} is masked, and not by this collection, so somebody wants it off. Ask why; then run "
                f"systemctl unmask {unit.unit}, or set masked=false with force_unmask=true"
            )

    def _do(self, word: str, *arguments: str) -> None:
        self.actions.append(word)
        if not self.check_mode:
            run_systemctl(self.order.systemctl_command, arguments, CALL)

    def _look(self) -> Unit:
        self.unit = read_unit(self.order.service, self.order.systemctl_command, CALL)
        return self.unit

    def _stop(self) -> None:
        name = self.unit.unit
        self._do("stop", "stop", "--no-block", name)
        self.changed = True
        if self.check_mode:
            return
        if self._ended_within(self.order.stop_timeout):
            return
        self.killed = True
        self.warnings.append(
            f"{name} did not stop within {self.order.stop_timeout:g} s and was killed: its next start may have to wait for "
            "its former importers"
        )
        self._do("kill", "kill", "--signal=SIGKILL", name)
        if not self._ended_within(AFTER_KILL):
            raise UnitError(
                f"{name} is still {self.unit.active_state} ({self.unit.sub_state}) {AFTER_KILL:g} s after SIGKILL, expected it "
                "to be inactive: a process may hang in the driver (state D in ps), then only a reboot helps"
            )

    def _ended_within(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            unit = self._look()
            if unit.active_state in ("inactive", "failed") and unit.job is None:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE)

    def _start(self) -> StartRecord | None:
        name, last = self.unit.unit, self.unit
        if self.order.reset_failed and (last.active_state == "failed" or last.restart_loop or last.restarts):
            self._do("reset-failed", "reset-failed", name)
        if last.need_reload and "daemon-reload" not in self.actions:
            self._do("daemon-reload", "daemon-reload")
        if self.check_mode:
            self._do("start")
            self.changed = True
            return None
        loads = installed(self.order)
        self._do("start", "start", "--no-block", name)
        deadline = time.monotonic() + TAKE_UP
        while time.monotonic() < deadline:
            unit = self._look()
            fresh = bool(unit.invocation_id) and unit.invocation_id != last.invocation_id
            if (fresh and (unit.running or unit.starting or unit.active_state == "failed")) or (
                unit.condition is False and unit.job is None and unit.active_state == "inactive"
            ):
                break
            time.sleep(PAUSE)
        unit = self.unit
        if unit.invocation_id != last.invocation_id or unit.active_state != last.active_state:
            self.changed = True
        if unit.condition is False and not unit.running:
            self.warnings.append(
                f"{name} was not started: a condition of it does not hold (no driver, or an empty node list?)"
            )
        elif not (unit.running or unit.starting):
            self.warnings.append(
                f"{name} is {unit.active_state} ({unit.result or unit.sub_state}) after the start: see its log"
            )
        if unit.invocation_id in ("", last.invocation_id):
            return None
        return self._write(loads, "started")

    def _note(self) -> StartRecord | None:
        if self.check_mode:
            self.actions.append("note")
            return None
        unit = self._look()
        if not unit.invocation_id or not (unit.running or unit.starting):
            self.warnings.append(f"{unit.unit} is not running, so there is nothing to note")
            return None
        loads = installed(self.order)
        record = self._noted()
        if record and (record.nodes, record.config) == loads[:2]:
            return record
        self.actions.append("note")
        return self._write(loads, "adopted")

    def _noted(self) -> StartRecord | None:
        """The record of the present start, if there is one."""
        if not self.unit.invocation_id:
            return None
        from . import daemon

        record = daemon.read_record(self.order.run_dir, self.order.service)
        return record if record and record.invocation_id == self.unit.invocation_id else None

    def _write(self, loads: Installed, origin: str) -> StartRecord | None:
        if installed(self.order) != loads:
            self.warnings.append(
                "The files changed while the daemon was started, so it is not noted which of them it loaded"
            )
            return None
        from . import daemon

        unit = self.unit
        began = unit.activating_at or unit.started_at or time.time()
        record = daemon.StartRecord(unit.invocation_id, began, loads.nodes, loads.config, origin, self.order.run_id)
        daemon.write_record(self.order.run_dir, self.order.service, record)
        return record

    def _dropin(self) -> tuple[str, str | None, str | None]:
        """Path of the drop-in, its text and the text wanted; nothing where it is left as it is."""
        order = self.order
        if order.dropin is None:
            return "", None, None
        from . import dropin

        path = dropin.path(order.unit_dir, order.service)
        wanted = None
        if order.dropin:
            wanted = dropin.text(order.start_timeout, order.driver_path, installed(order).nodes_path)
        return path, files.read_text(path), wanted

    def _write_dropin(self, path: str, text: str | None) -> None:
        self.actions.append("dropin" if text is not None else "remove-dropin")
        self.changed = True
        if not self.check_mode:
            if text is None:
                files.remove(path)
            else:
                from .. import atomic

                files.ensure_folder(os.path.dirname(path))
                atomic.replace(path, files.encode(text), mode=0o644)
        self._do("daemon-reload", "daemon-reload")
        if not self.check_mode:
            self._look()

    def _enable(self, wanted: bool) -> None:
        unit = self.unit
        # enabled-runtime is no lasting enablement, but it is one to be taken away.
        if wanted and not unit.enabled:
            self._do("enable", "enable", unit.unit)
        elif not wanted and unit.unit_file_state.startswith("enabled"):
            runtime = ["--runtime"] if unit.unit_file_state == "enabled-runtime" else []
            self._do("disable", "disable", *runtime, unit.unit)
        else:
            return
        if self.check_mode:
            self.changed = True
            return
        last = unit.unit_file_state
        now = self._look().unit_file_state
        self.changed = self.changed or now != last
        if wanted and not self.unit.enabled:
            self.warnings.append(
                f"{unit.unit} is {now or 'not enabled'} after systemctl enable: it has no [Install] section?"
            )

    def _mask(self, note: str) -> None:
        if self.unit.masked:
            return
        if not self.check_mode:
            from .. import atomic

            # First the note: a mask without it could not be undone by us.
            files.ensure_folder(os.path.dirname(note))
            atomic.replace(note, files.encode(f"masked by {self.order.run_id or 'hpc.fabric'}\n"), mode=0o644)
        try:
            self._do("mask", "mask", self.unit.unit)
        except UnitError:
            files.remove(note)
            raise
        self.changed = True

    def _unmask(self, note: str) -> None:
        if self.unit.masked:
            self._do("unmask", "unmask", self.unit.unit)
            self.changed = True
        if not self.check_mode:
            files.remove(note)
            self._look()


def result(order: Order, outcome: Outcome, want_diff: bool) -> dict[str, t.Any]:
    """What imex_daemon returns: plain values."""
    from .report import unit_result

    record = outcome.record
    values: dict[str, t.Any] = {
        "changed": outcome.changed,
        "unit": {"before": unit_result(outcome.before), "after": unit_result(outcome.after)},
        "invocation_id": outcome.after.invocation_id,
        "record": None
        if record is None
        else {**record._asdict(), "nodes": list(record.nodes), "config": dict(record.config)},
        "killed": outcome.killed,
        "actions": list(outcome.actions),
        "warnings": list(outcome.warnings),
    }
    if want_diff and outcome.dropin_before != outcome.dropin_after:
        from . import dropin

        path = dropin.path(order.unit_dir, order.service)
        values["diff"] = {
            "before_header": path,
            "after_header": path,
            "before": outcome.dropin_before or "",
            "after": outcome.dropin_after or "",
        }
    return values
