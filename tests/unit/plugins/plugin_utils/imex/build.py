# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds inventories and answers of hosts from the short words of the tables in tests/fixtures/{plan,decide,judge}.

Host "b3" is number 3 of domain b and has the address 10.0.2.3. In lists of nodes a host's name stands for its address.
"""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import yaml

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import decide, facts, judge, plan, records, settings

ROOT = pathlib.Path(__file__).resolve().parents[5]
FIXTURES = ROOT / "tests" / "fixtures"
DEFAULTS = yaml.safe_load((ROOT / "roles" / "imex" / "defaults" / "main.yml").read_text(encoding="utf-8"))
RUN_ID = "run-1"

Case = dict[str, t.Any]


def load(name: str) -> list[Case]:
    return t.cast("list[Case]", json.loads((FIXTURES / name).read_text(encoding="utf-8")))


def name_of(case: Case) -> str:
    return str(case["name"])


def address(word: str) -> str:
    """The address of a host's name; any other word stays itself."""
    match = re.fullmatch(r"([a-z])(\d+)", word)
    return f"10.0.{ord(match.group(1)) - 96}.{match.group(2)}" if match else word


def addresses(words: t.Iterable[str]) -> list[str]:
    return [address(word) for word in words]


def variables(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The variables of one host: domain and address by its name, the role's defaults below. None takes one away."""
    own = {"imex_domain": host[0], "imex_address": address(host), **given}
    return {**DEFAULTS, **{name: value for name, value in own.items() if value is not None}}


def make_plan(case: Case) -> records.Plan:
    """The plan for the hosts of a case: {name: {"vars": {...}, "presence": "here"}}, with variables for all of them."""
    found = []
    for host, entry in case["hosts"].items():
        values = variables(host, {**case.get("vars", {}), **entry.get("vars", {})})
        found.append(settings.read(host, entry.get("presence", records.HERE), values.get))
    return plan.plan([host for host in found if host is not None], RUN_ID)


def peer_row(peer: str, held: t.Sequence[str]) -> dict[str, t.Any]:
    """What the daemon of a peer says of itself: READY, with this map."""
    links = [{"id": number, "host": node, "status": "CONNECTED"} for number, node in enumerate(addresses(held))]
    return {"id": 0, "host": address(peer), "status": "READY", "is_local": False, "connections": links}


def status_result(host: str, words: t.Mapping[str, t.Any], default: t.Sequence[str]) -> dict[str, t.Any]:
    """What imex_status registers for a host. words:

    unreachable, failed: a message. file: the configured map (default: as planned). run: the loaded map, true for that of
    the file, null for a stopped unit. source, in_sync: how the loaded map is known. links: state of a connection by peer,
    CONNECTED where not named. own: the host's addresses. peers: maps of other daemons as they say it. ready, unit,
    pending, config_changes, changes (host_changes), driver, version, ports.
    """
    if "unreachable" in words:
        return {"unreachable": True, "msg": words["unreachable"], "changed": False}
    if "failed" in words:
        return {"failed": True, "msg": words["failed"], "changed": False}
    configured = addresses(words.get("file", default))
    run = words.get("run", True)
    held = configured if run is True else addresses(run or ())
    running = run is not None
    source = words.get("source", "record") if running else "none"
    unit = {
        "unit": "nvidia-imex.service",
        "load_state": "loaded",
        "active_state": "active" if running else "inactive",
        "sub_state": "running" if running else "dead",
        "unit_file_state": "enabled",
        "started_at": 1000.0 if running else None,
        **words.get("unit", {}),
    }
    links = {address(peer): state for peer, state in words.get("links", {}).items()}
    ready = words.get("ready", True)
    state = words.get("state", ("READY" if ready else "INITIALIZING") if running else None)
    own = {
        "id": 0,
        "host": address(host),
        "status": state or "UNAVAILABLE",
        "is_local": True,
        "connections": [
            {"id": number, "host": peer, "status": links.get(peer, "CONNECTED")} for number, peer in enumerate(held)
        ],
    }
    loaded = held if running and source not in ("none", "start_time") else None
    return {
        "changed": False,
        "verdict": words.get("verdict", "healthy" if running else "down"),
        "summary": words.get("summary", f"{host} in short"),
        "reasons": words.get("reasons", []),
        "daemon": {
            **unit,
            "state": state,
            "version": words.get("version", "570.1"),
            "masked_by_us": words.get("ours", False),
        },
        "domain": {
            "state": "UP",
            "nodes": [
                *([own] if running and words.get("row", True) else []),
                *(peer_row(peer, held) for peer, held in words.get("peers", {}).items()),
            ],
        },
        "node_map": {"configured": configured, "loaded": loaded, "source": source, "in_sync": words.get("in_sync")},
        "deployment": {
            "changed": bool(words.get("config_changes")),
            "config_changes": [
                {"key": key, "before": None, "after": "1", "class": "local"} for key in words.get("config_changes", ())
            ],
            "config_pending": [{"key": key, "class": kind} for key, kind in words.get("pending", ())],
            "loaded": {"nodes": loaded, "source": source, "in_sync": words.get("in_sync")},
            "warnings": [],
        },
        "host_changes": [
            {"what": what, "path": "x", "before": before, "after": after}
            for what, before, after in words.get("changes", ())
        ],
        "local_addresses": addresses(words.get("own", [host])),
        "versions": {"daemon": words.get("version", "570.1"), "driver": words.get("driver", "570.1")},
        "ports": words.get("ports", {"server": 50000, "command": 50005}),
        "log": words.get("log", []),
    }


def make_facts(case: Case, made: records.Plan, key: str = "status") -> dict[str, facts.Facts]:
    """The facts of all hosts that are contacted, from their "status" in the case."""
    found = {}
    for host, planned in made.hosts.items():
        if planned.presence == records.LOST:
            found[host] = facts.facts(host, None, alive=False)
        elif planned.contact:
            own = made.domains.get(planned.domain or "")
            default = own.nodes if own and planned.kind == records.MEMBER else ()
            words = {"own": [planned.address or host], **case.get("status", {}), **case["hosts"][host].get(key, {})}
            if planned.kind != records.MEMBER and "run" not in words:
                words["run"] = None
            found[host] = facts.facts(host, status_result(host, words, default))
    return found


def make_answers(case: Case) -> dict[str, facts.Activity] | None:
    """What the hosts answered before a restart: "answers" by host, null for not asked yet; gpu, importers, jobs, probes."""
    if case.get("answers") is None:
        return None
    found = {}
    for host in case["hosts"]:
        words = {**case["answers"].get("all", {}), **case["answers"].get(host, {})}
        if "unreachable" in words:
            found[host] = facts.activity({"unreachable": True, "msg": words["unreachable"]})
            continue
        found[host] = facts.activity(
            {
                "activity": {
                    "gpu_processes": words.get("gpu", []),
                    "importers": words.get("importers", []),
                    "job_records": words.get("jobs", 0),
                },
                "probes": [
                    {"address": address(peer), "port": int(port), "answer": answer}
                    for peer, ports in words.get("probes", {}).items()
                    for port, answer in ports.items()
                ],
            }
        )._replace(package=words.get("package", ""))
    return found


def make_decision(case: Case) -> tuple[records.Plan, dict[str, facts.Facts], records.Decision]:
    made = make_plan(case)
    found = make_facts(case, made)
    return made, found, decide.decide(made, found, make_answers(case), case.get("check_mode", False))


def make_step(words: t.Any) -> facts.Step:
    """ok, changed, "failed: why", "unreachable: why", or null for a task that was skipped."""
    if words is None:
        return facts.step({"skipped": True})
    kind, _colon, message = str(words).partition(": ")
    return facts.step(
        {"changed": kind == "changed", "failed": kind == "failed", "unreachable": kind == "unreachable", "msg": message}
    )


def make_outcomes(case: Case, decision: records.Decision) -> dict[str, judge.Outcome]:
    """How the change ended: by default every step succeeded and every member holds the decided map, connected with all."""
    found = {}
    for host, work in decision.hosts.items():
        words = dict(case["hosts"][host].get("after", {}))
        steps = {name: make_step(words.pop(name, "changed")) for name in ("stop", "write", "start")}
        own = decision.domains.get(work.domain or "")
        proof = facts.Facts(host)
        if work.prove:
            proof = facts.facts(host, status_result(host, words, own.nodes if own else ()))
        found[host] = judge.Outcome(
            stop=steps["stop"] if work.stop else facts.Step(),
            write=steps["write"] if work.write or work.empty else facts.Step(),
            start=steps["start"] if work.unit else facts.Step(),
            proof=proof,
        )
    return found


def make_back(case: Case, verdict: records.Verdict, inspected: t.Mapping[str, facts.Facts]) -> dict[str, judge.Outcome]:
    """How the put-back ended: by default every host that ran holds its previous map again, connected with all."""
    found = {}
    for host, back in verdict.hosts.items():
        words = dict(case["hosts"][host].get("back", {}))
        steps = {name: make_step(words.pop(name, "changed")) for name in ("stop", "write", "start")}
        proof = facts.Facts(host)
        if back.start:
            proof = facts.facts(host, status_result(host, words, inspected[host].configured))
        found[host] = judge.Outcome(steps["stop"], facts.Step(), steps["write"], steps["start"], proof)
    return found


def subset(expected: t.Any, found: t.Any, path: str = "") -> list[str]:
    """Where found differs from what expected names; keys that expected does not name are free."""
    if isinstance(expected, dict):
        missing = [f"{path}.{key}: missing" for key in expected if key not in found]
        return missing + [
            line for key in expected if key in found for line in subset(expected[key], found[key], f"{path}.{key}")
        ]
    return [] if expected == found else [f"{path}: expected {expected!r}, found {found!r}"]
