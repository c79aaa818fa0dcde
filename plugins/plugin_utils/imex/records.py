# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records that plan, decide, judge and report hand to each other, and their plain form for Ansible."""

from __future__ import annotations

import typing as t

# Where a host stands towards the play that runs: in this batch and alive, dropped out before, or left out.
HERE, LOST, OUTSIDE = "here", "lost", "outside"

# What a host is to the plan. The last three have no IMEX domain of their own on this host.
MEMBER, MAINTENANCE, ABSENT, IDLE, KUBERNETES, UNMANAGED = (
    "member",
    "maintenance",
    "absent",
    "idle",
    "kubernetes",
    "unmanaged",
)
# Whose daemon is stopped and whose list is emptied.
LEAVING = (ABSENT, IDLE, KUBERNETES)

UNTOUCHED, ADOPT, JOIN, LOCAL, COORDINATED, REFUSED = ("untouched", "adopt", "join", "local", "coordinated", "refused")
# The decision about a host that leaves: it is one host's, whatever becomes of the domain.
LEAVE = "leave"


class Reason(t.NamedTuple):
    """Why something is as it is: a word for programs, a sentence for people, the hosts it is about."""

    code: str
    message: str
    hosts: tuple[str, ...] = ()


class Shared(t.NamedTuple):
    """Settings that are a domain's: its members must agree on them. package: "name=version" or empty."""

    deployment: str
    order: str
    quorum: str
    required_nodes: tuple[str, ...]
    max_removed: int
    allow_active_jobs: bool
    allow_stale_members: bool
    forget_addresses: tuple[str, ...]
    rollback: bool
    package: str
    allow_hostnames: bool
    allow_loopback_addresses: bool
    allow_documentation_addresses: bool
    # Keys of imex_config that both ends of a connection must share, as KEY=VALUE.
    wire: tuple[str, ...]


class HostSettings(t.NamedTuple):
    """What the inventory says of one host. problems: what cannot be read or used; planned: options for imex_status."""

    host: str
    presence: str
    kind: str
    domain: str | None
    address: str | None
    shared: Shared | None
    planned: dict[str, t.Any]
    problems: tuple[Reason, ...] = ()


class HostPlan(t.NamedTuple):
    """The plan for one host. contact: it is to be inspected; quorum: the count that imex_status is to judge by;
    allow_active_jobs: the host's own setting, for one without a domain."""

    host: str
    presence: str
    kind: str
    domain: str | None
    address: str | None
    contact: bool
    quorum: str
    planned: dict[str, t.Any]
    problems: tuple[Reason, ...] = ()
    allow_active_jobs: bool = False


class DomainPlan(t.NamedTuple):
    """The plan for one domain. members: the active ones, in map order; nodes: the whole map, maintenance included."""

    name: str
    members: tuple[str, ...]
    nodes: tuple[str, ...]
    maintenance: tuple[str, ...]
    absent: tuple[str, ...]
    cut: tuple[str, ...]
    refused: tuple[Reason, ...]
    order: str
    quorum: str
    required: int
    required_nodes: tuple[str, ...]
    shared: Shared

    @property
    def everyone(self) -> tuple[str, ...]:
        return (*self.members, *self.maintenance, *self.absent)


class Plan(t.NamedTuple):
    """The whole plan. domains and hosts are keyed by name."""

    domains: dict[str, DomainPlan]
    hosts: dict[str, HostPlan]
    run_id: str
    warnings: tuple[str, ...] = ()

    def host_at(self) -> dict[str, str]:
        """Inventory name by address; of two hosts that claim one address the one in a domain."""
        ranked = sorted(self.hosts.values(), key=lambda host: host.domain is not None)
        return {host.address: host.host for host in ranked if host.address}


class Before(t.NamedTuple):
    """A domain as inspect found it: the map most running members held, how many of it were READY and pairwise connected,
    and whether that was a quorum."""

    nodes: tuple[str, ...] = ()
    required: int = 0
    required_nodes: tuple[str, ...] = ()
    met: bool = False
    expected: int = 0
    proved: int = 0


class Wait(t.NamedTuple):
    """What a member waits for: so many members connected, out of these addresses; quorum of them are enough."""

    expected_started: int = 0
    nodes: tuple[str, ...] = ()
    quorum: int = 0


class Probe(t.NamedTuple):
    """Addresses and ports that a member is to try before anything is stopped."""

    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    timeout: float = 2


class HostDecision(t.NamedTuple):
    """What is done on one host. involved: it takes part in apply or proof; unit: the unit itself is to be touched."""

    host: str
    domain: str | None = None
    address: str | None = None
    kind: str = MEMBER
    decision: str = UNTOUCHED
    reason: str = ""
    work: bool = False
    involved: bool = False
    prove: bool = False
    confirm: bool = False
    probe: Probe = Probe()
    stop: bool = False
    package: bool = False
    write: bool = False
    empty: bool = False
    restore: bool = False
    generation: str = ""
    start: bool = False
    note: bool = False
    enable: bool = False
    disable: bool = False
    mask: bool = False
    unmask: bool = False
    dropin: bool = False
    unit: bool = False
    round: int = 0
    nodes: tuple[str, ...] = ()
    config: dict[str, t.Any] = {}
    owner: str = ""
    group: str = ""
    wait: Wait = Wait()


class DomainDecision(t.NamedTuple):
    """What is done with one domain. unit, leaving: the domains and leaving hosts decided together with it; expected:
    addresses to be proved."""

    name: str
    decision: str
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    digest: str = ""
    unit: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    rounds: int = 0
    at_quorum_before: bool = False
    first: bool = False
    before: Before = Before()
    expected: tuple[str, ...] = ()
    required: int = 0
    required_nodes: tuple[str, ...] = ()
    rollback: bool = True


class Decision(t.NamedTuple):
    """All decisions of one run, keyed by name. confirm: some hosts must be asked again before it is final."""

    domains: dict[str, DomainDecision]
    hosts: dict[str, HostDecision]
    run_id: str
    work: bool = False
    confirm: bool = False
    rounds: int = 0


class Dropped(t.NamedTuple):
    """A member that is not part of what was proved, and why. host: empty where the inventory knows none."""

    host: str
    address: str
    reason: str


class Unproven(t.NamedTuple):
    """A member lost after its write began, with the digest that it may hold."""

    host: str
    digest: str


class DomainVerdict(t.NamedTuple):
    """How the proof of one domain ended. kept: addresses that are READY and pairwise CONNECTED."""

    name: str
    met: bool
    required: int = 0
    kept: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    unproven: tuple[Unproven, ...] = ()
    put_back: bool = False
    go_on: bool = True
    message: str = ""


class HostVerdict(t.NamedTuple):
    """What happened on one host, and how it is put back. go_on: later rounds of its domain may be carried out."""

    host: str
    failed: bool = False
    reason: str = ""
    changed: bool = False
    log: tuple[str, ...] = ()
    go_on: bool = True
    put_back: bool = False
    remove: bool = False
    restart: bool = False
    start: bool = False
    enabled: bool = False
    package: str = ""
    nodes: tuple[str, ...] = ()
    wait: Wait = Wait()


class Verdict(t.NamedTuple):
    """The judgement of one run, or of its put-back."""

    domains: dict[str, DomainVerdict]
    hosts: dict[str, HostVerdict]
    run_id: str
    put_back: bool = False
    round: int = 0


# Fields that hold records, for rebuild().
RECORDS: dict[str, t.Any] = {
    "refused": Reason,
    "reasons": Reason,
    "problems": Reason,
    "shared": Shared,
    "before": Before,
    "wait": Wait,
    "probe": Probe,
    "dropped": Dropped,
    "unproven": Unproven,
}
Record = t.TypeVar("Record", bound=tuple[t.Any, ...])


def plain(value: t.Any) -> t.Any:
    """Records as dictionaries and tuples as lists: all that Ansible can store as a variable, on every version."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(field) for name, field in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def rebuild(record: type[Record], data: t.Mapping[str, t.Any]) -> Record:
    """The record that plain() made data of. Keys that it does not know are left out."""
    names: tuple[str, ...] = record._fields  # type: ignore[attr-defined]
    return record(**{name: _thaw(data[name], RECORDS.get(name)) for name in names if name in data})  # type: ignore[call-arg]


def _thaw(value: t.Any, record: t.Any) -> t.Any:
    if isinstance(value, t.Mapping):
        return rebuild(record, value) if record else dict(value)
    if isinstance(value, (list, tuple)):
        return tuple(_thaw(item, record) for item in value)
    return str(value) if isinstance(value, str) else value


def rebuild_plan(data: t.Mapping[str, t.Any]) -> Plan:
    domains = {str(name): rebuild(DomainPlan, item) for name, item in data["domains"].items()}
    hosts = {str(name): rebuild(HostPlan, item) for name, item in data["hosts"].items()}
    return Plan(domains, hosts, str(data["run_id"]), tuple(str(word) for word in data.get("warnings", ())))


def rebuild_decision(data: t.Mapping[str, t.Any]) -> Decision:
    domains = {str(name): rebuild(DomainDecision, item) for name, item in data["domains"].items()}
    hosts = {str(name): rebuild(HostDecision, item) for name, item in data["hosts"].items()}
    return Decision(domains, hosts, str(data["run_id"]), bool(data["work"]), bool(data["confirm"]), int(data["rounds"]))


def rebuild_verdict(data: t.Mapping[str, t.Any]) -> Verdict:
    domains = {str(name): rebuild(DomainVerdict, item) for name, item in data["domains"].items()}
    hosts = {str(name): rebuild(HostVerdict, item) for name, item in data["hosts"].items()}
    return Verdict(domains, hosts, str(data["run_id"]), bool(data["put_back"]), int(data["round"]))


def enumerate_some(names: t.Iterable[str], limit: int = 8) -> str:
    """Names for a message, at most limit of them."""
    words = list(names)
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")
