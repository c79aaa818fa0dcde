# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of one look at a host: what is asked for, what is found, and the verdict on it."""

from __future__ import annotations

import typing as t

from .words import UNAVAILABLE

if t.TYPE_CHECKING:
    from .daemon import Loaded
    from .domain import Domain
    from .quorum import Quorum
    from .unit import Unit


class Request(t.NamedTuple):
    """The options of imex_status, see its documentation."""

    config_path: str = "/etc/nvidia-imex/config.cfg"
    nodes_config_path: str | None = None
    control_command: str = "nvidia-imex-ctl"
    control_timeout: float = 30.0
    service: str = "nvidia-imex"
    systemctl_command: str = "systemctl"
    local_addresses: t.Sequence[str] | None = None
    state_dir: str = "/var/lib/hpc-fabric"
    run_dir: str = "/run/hpc-fabric"
    proc_root: str = "/proc"
    sysfs_root: str = "/sys"
    device_root: str = "/dev"
    unit_dir: str = "/etc/systemd/system"
    gather: t.Sequence[str] = ("daemon", "domain")
    detail: str = "summary"
    planned: t.Mapping[str, t.Any] | None = None
    expected_nodes: t.Sequence[str] | None = None
    quorum: str = "all"
    required_nodes: t.Sequence[str] = ()
    require: str = "none"
    wait_timeout: float = 0.0
    wait_interval: float = 1.0
    starting_limit: float = 300.0
    probe: t.Mapping[str, t.Any] | None = None
    smi_command: str = "nvidia-smi"
    persist_path: str = "/var/run/nvidia-imex/persist.dat"
    job_records_dir: str = "/run/hpc-fabric/jobs"
    slurm_conf: t.Sequence[str] = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")


class Local(t.NamedTuple):
    """What this host's files say. A text is None where there is no file or it cannot be read (then found says so)."""

    config_text: str | None
    values: dict[str, str]
    nodes_path: str
    nodes_text: str | None
    nodes: tuple[str, ...]
    changed_at: float | None
    addresses: tuple[str, ...]
    found: tuple[Reason, ...]


class Reason(t.NamedTuple):
    """Why. A note is worth knowing and makes no verdict worse."""

    code: str
    message: str
    nodes: tuple[str, ...] = ()
    note: bool = False


class Facts(t.NamedTuple):
    """What was found on one host. None: not asked, or not known (then an entry of found says why)."""

    expected: tuple[str, ...] = ()
    # False where the files that say it cannot be read.
    expected_known: bool = True
    configured: tuple[str, ...] = ()
    driver: bool = True
    unit: Unit | None = None
    # False where systemd is there, but gave no answer: there may be a unit.
    unit_known: bool = True
    # Whether systemd or the control tool was asked at all, and the latter for the domain.
    asked: bool = True
    domain_asked: bool = True
    domain: Domain | None = None
    # The local daemon's word: its own row's, else what -q says.
    state: str | None = None
    control_kind: str = ""
    control_message: str = ""
    command_enabled: bool = True
    loaded: Loaded | None = None
    quorum: Quorum | None = None
    managed_by: str = "unknown"
    now: float = 0.0
    starting_limit: float = 300.0
    # Reasons from reading files, ports and the log.
    found: tuple[Reason, ...] = ()


class Verdict(t.NamedTuple):
    """The word, its reasons (the gravest first), one line for a person, and what it rests on."""

    word: str
    reasons: tuple[Reason, ...]
    summary: str
    evidence: tuple[str, ...]


class Look(t.NamedTuple):
    """One look at the host: the facts, the verdict on them, and what the result needs besides."""

    local: Local
    facts: Facts
    verdict: Verdict
    # What imex_nodes_config would return, with planned.
    deployment: dict[str, t.Any] | None


def answered(facts: Facts) -> bool:
    """True when the local daemon spoke for itself."""
    return facts.state not in (None, "", UNAVAILABLE)
