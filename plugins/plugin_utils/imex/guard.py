# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What forbids a restart: unplanned or stale daemons that still run, and people who work there. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.hpc.fabric.plugins.module_utils.imex import node_map, node_rules

from .facts import UNREACHABLE, Activity, Facts
from .records import LEAVING, MEMBER, Plan, Reason, enumerate_some
from .view import View

Answers = t.Mapping[str, Activity]


class Suspects(t.NamedTuple):
    """Addresses to be tried before a restart: of daemons that are not planned here, and of members not reachable."""

    unplanned: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.unplanned + self.stale))


def suspects(view: View, plan: Plan, facts: t.Mapping[str, Facts], restarts_all: bool) -> Suspects:
    """Who may still run an old map. A host of the play that is changed or stopped in the same apply is none."""
    names = plan.host_at()
    held = dict.fromkeys(node for host in view.stale for node in facts[host].holds if node not in view.nodes)
    unplanned = []
    for address in held:
        host = names.get(address)
        if address in view.domain.shared.forget_addresses or not means_a_host(address, view.nodes):
            continue
        settled = host in facts and facts[host].known and plan.hosts[host].kind in (MEMBER, *LEAVING) if host else False
        if not settled:
            unplanned.append(address)
    stale: tuple[str, ...] = ()
    if restarts_all and not view.domain.shared.allow_stale_members:
        stale = tuple(str(plan.hosts[host].address) for host in view.lost)
    return Suspects(tuple(unplanned), stale)


def means_a_host(address: str, nodes: t.Sequence[str]) -> bool:
    """False for what no other host can have: a placeholder, a half-written line, and loopback, which whoever tries it
    takes for itself (but for domains that are all on loopback)."""
    if not node_map.is_member(address):
        return False
    return not node_rules.is_loopback(address) or any(map(node_rules.is_loopback, nodes))


def ports(view: View, facts: t.Mapping[str, Facts], planned: t.Mapping[str, t.Any]) -> tuple[int, ...]:
    """Where a daemon with an old or the new configuration would listen."""
    now = [port for host in view.here for port in facts[host].ports]
    config = planned.get("config") or {}
    new = [int(config[key]) for key in ("SERVER_PORT", "IMEX_CMD_PORT") if str(config.get(key, "")).isdigit()]
    return tuple(sorted(set(now + new)))


def answering(found: Suspects, view: View, plan: Plan, answers: Answers) -> list[Reason]:
    """Refusals for suspects that answered a member, or of which nothing could be learned. A closed port is no daemon."""
    said: dict[str, dict[int, set[str]]] = {}
    for host in view.here:
        for address, port, answer in answers.get(host, Activity()).answers:
            said.setdefault(address, {}).setdefault(port, set()).add(answer)
    names = plan.host_at()
    reasons = []
    for address in found.addresses:
        heard = said.get(address, {})
        name = names.get(address, "")
        who = f"{name} ({address})" if name else address
        open_ports = sorted(port for port, words in heard.items() if "accepted" in words)
        blind = not heard or any(not words & {"accepted", "refused", "silent"} for words in heard.values())
        if not open_ports and not blind:
            continue
        if open_ports:
            what = (
                f"answers on port {' and '.join(map(str, open_ports))}, so a daemon still runs there with the old map"
            )
        else:
            what = "could not be tried from any member, so a daemon with the old map may run there"
        if address in found.stale:
            reasons.append(
                Reason(
                    "stale_member",
                    f"{who} cannot be reached, but {what}: make it reachable or stop it; "
                    "imex_allow_stale_members restarts the others all the same",
                    (name,) if name else (),
                )
            )
        else:
            reasons.append(
                Reason(
                    "unplanned_peer",
                    f"{who} is held by running daemons and is not planned, but {what}: take it into the play as absent, "
                    "stop its daemon, or name it in imex_forget_addresses",
                    (name,) if name else (),
                )
            )
    return reasons


def uninstallable(hosts: t.Iterable[str], answers: Answers) -> t.Iterator[Reason]:
    """Members on which the planned package cannot be installed: found out before anything is stopped."""
    for host in hosts:
        fault = answers.get(host, Activity()).package
        if fault:
            text = f"{host}: imex_package cannot be installed ({fault}): bring the package into its repositories first"
            yield Reason("package_not_installable", text, (host,))


def occupied(host: str, found: Facts, answer: Activity) -> Reason | None:
    """Why the daemon of a host must not be stopped; None when nobody works there."""
    if answer.state == UNREACHABLE:
        return Reason("lost_since", f"{host}: {answer.message}: it was reachable a moment ago, run again", (host,))
    parts = []
    for count, what in (
        (answer.gpu_processes, "GPU processes"),
        (answer.importers, "nodes that import its memory"),
        (answer.job_records, "jobs on record"),
    ):
        if count:
            parts.append(f"{count} {what}")
    if parts:
        text = f"{host}: {', '.join(parts)}: a restart would break them; drain it, or set imex_allow_active_jobs"
        return Reason("active", text, (host,))
    unknown = [
        what
        for count, what in ((answer.gpu_processes, "GPU processes"), (answer.importers, "importers"))
        if count is None and not (what == "GPU processes" and not found.driver_version)
    ]
    if unknown:
        why = f" ({answer.message})" if answer.message else ""
        text = (
            f"{host}: it is not known whether there are {' or '.join(unknown)}{why}, and unknown never restarts: "
            "make them readable, or set imex_allow_active_jobs"
        )
        return Reason("activity_unknown", text, (host,))
    return None


def occupied_all(hosts: t.Iterable[str], facts: t.Mapping[str, Facts], answers: Answers) -> list[Reason]:
    """The refusals for all hosts whose running daemon would be stopped, those of one kind in one sentence."""
    found = [occupied(host, facts[host], answers.get(host, Activity())) for host in hosts]
    reasons = [reason for reason in found if reason is not None]
    if len(reasons) <= 3:
        return reasons
    grouped: dict[str, list[Reason]] = {}
    for reason in reasons:
        grouped.setdefault(reason.code, []).append(reason)
    merged = []
    for code, members in grouped.items():
        names = tuple(host for reason in members for host in reason.hosts)
        merged.append(Reason(code, f"{members[0].message} (the same on {enumerate_some(names[1:])})", names))
    return merged
