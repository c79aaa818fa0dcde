# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import deployment, node_map
from ansible_collections.hpc.fabric.plugins.module_utils.imex.daemon import Loaded
from ansible_collections.hpc.fabric.plugins.module_utils.imex.unit import Unit
from ansible_collections.hpc.fabric.plugins.module_utils.imex.wanted import Found, Wanted

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "deployment"
TABLE = json.loads((FIXTURES / "assess.json").read_text(encoding="utf-8"))
# What the documentation of imex_nodes_config names, without what needs the host (diff, backup_file, reachable).
KEYS = {
    "added",
    "changed",
    "config_changes",
    "config_pending",
    "digest",
    "loaded",
    "node_count",
    "nodes",
    "removed",
    "reordered",
    "restart_reasons",
    "restart_required",
    "unit_changes",
    "warnings",
}


def wanted_of(row: dict[str, t.Any]) -> Wanted:
    data = dict(TABLE["wanted"], **row.get("wanted", {}))
    return Wanted(
        **dict(
            data,
            nodes=tuple(data["nodes"]),
            local_addresses=tuple(data["local_addresses"]),
            config=tuple(data.get("config", {}).items()),
            policy=node_map.Policy(**data.get("policy", {})),
        )
    )


def found_of(row: dict[str, t.Any]) -> Found:
    differs = row.get("found", {})
    data = dict(TABLE["found"], **differs)
    unit = None
    if data["unit"] is not None:
        unit = Unit("nvidia-imex.service", **dict(TABLE["found"]["unit"], **differs.get("unit", {})))
    loaded = None
    if data["loaded"] is not None:
        held = data["loaded"]
        nodes = None if held["nodes"] is None else tuple(held["nodes"])
        config = None if held["config"] is None else tuple(tuple(pair) for pair in held["config"])
        digest = None if nodes is None else node_map.digest(nodes)
        loaded = Loaded(nodes, digest, held["source"], held["in_sync"], config)
    data.update(
        unit=unit,
        loaded=loaded,
        ephemeral=tuple(data["ephemeral"]) if data.get("ephemeral") else None,
        names=tuple((name, tuple(addresses)) for name, addresses in data.get("names", ())),
        warnings=tuple(data.get("warnings", ())),
    )
    return Found("/etc/nvidia-imex/nodes_config.cfg", "/etc/nvidia-imex/config.cfg", **data)


def seen(plan: deployment.Deployment) -> dict[str, t.Any]:
    """The parts of a plan that the table can name."""
    return dict(
        plan._asdict(),
        nodes=list(plan.nodes),
        added=list(plan.added),
        removed=list(plan.removed),
        codes=[reason.code for reason in plan.restart_reasons],
        nodes_after=plan.nodes_text_after,
        config_after=plan.config_text_after,
        config_changes=[list(change) for change in plan.config_changes],
        pending=[change.key for change in plan.config_pending],
        unit_changes=list(plan.unit_changes),
        loaded_source=plan.as_result()["loaded"]["source"],
    )


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in TABLE["cases"]])
def test_assess(row: dict[str, t.Any]) -> None:
    if "errors" in row:
        with pytest.raises(InputError) as error:
            deployment.assess(wanted_of(row), found_of(row))
        for part in row["errors"]:
            assert part in str(error.value)
        return
    plan = deployment.assess(wanted_of(row), found_of(row))
    expected = dict(row["expect"])
    warnings = expected.pop("warnings", None)
    got = seen(plan)
    assert {key: got[key] for key in expected} == expected
    if warnings is not None:
        assert len(plan.warnings) == len(warnings), plan.warnings
        for warning, part in zip(plan.warnings, warnings):
            assert part in warning


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in TABLE["cases"] if "expect" in row])
def test_what_was_written_is_not_written_again(row: dict[str, t.Any]) -> None:
    wanted, found = wanted_of(row), found_of(row)
    plan = deployment.assess(wanted, found)
    after = found._replace(
        nodes_text=found.nodes_text if plan.nodes_text_after is None else plan.nodes_text_after,
        config_text=found.config_text if plan.config_text_after is None else plan.config_text_after,
    )
    again = deployment.assess(wanted, after)
    assert (again.nodes_text_after, again.config_text_after) == (None, None)
    assert again.nodes == plan.nodes
    assert (again.added, again.removed, again.reordered, again.config_changes) == ((), (), False, ())
    assert again.changed == bool(plan.unit_changes)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in TABLE["cases"] if "expect" in row])
def test_result_has_the_documented_keys_and_plain_values(row: dict[str, t.Any]) -> None:
    result = deployment.assess(wanted_of(row), found_of(row)).as_result()
    assert set(result) == KEYS
    assert set(result["loaded"]) == {"nodes", "digest", "source", "in_sync"}
    assert json.loads(json.dumps(result)) == result
    for change in result["config_changes"] + result["config_pending"]:
        assert set(change) == {"key", "before", "after", "class"}
    for reason in result["restart_reasons"]:
        assert set(reason) == {"code", "message"}
        assert reason["message"]


def test_long_lists_in_messages_are_cut() -> None:
    nodes = tuple(f"10.0.1.{number}" for number in range(1, 31))
    row = {"wanted": {"nodes": nodes}}
    with pytest.raises(InputError, match=r"10\.0\.1\.10 and 20 more\. Its daemon"):
        deployment.assess(wanted_of(row), found_of(row))
