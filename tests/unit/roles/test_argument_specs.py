# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role's defaults and its argument specification say the same."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROLES = sorted(path.parent.parent for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


def load(path: pathlib.Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options_of(role: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    """The options of all entry points of a role; one name means the same in each of them."""
    options: dict[str, dict[str, t.Any]] = {}
    for entry_point in load(role / "meta" / "argument_specs.yml")["argument_specs"].values():
        options.update(entry_point.get("options") or {})
    return options


def defaults_of(role: pathlib.Path) -> dict[str, t.Any]:
    path = role / "defaults" / "main.yml"
    return load(path) or {} if path.exists() else {}


def test_every_role_has_an_argument_specification() -> None:
    roles = {path.name for path in ROOT.glob("roles/*") if (path / "tasks").is_dir()}
    assert roles == {path.name for path in ROLES}


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_defaults_match_argument_specs(role: pathlib.Path) -> None:
    documented = {name: option["default"] for name, option in options_of(role).items() if "default" in option}
    assert defaults_of(role) == documented


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_public_variables_carry_the_name_of_the_role(role: pathlib.Path) -> None:
    names = set(options_of(role)) | set(defaults_of(role))
    assert sorted(name for name in names if not name.startswith(f"{role.name}_")) == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_no_required_variable_has_a_default(role: pathlib.Path) -> None:
    required = {name for name, option in options_of(role).items() if option.get("required")}
    assert sorted(required & set(defaults_of(role))) == []
