# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/cases.md names every case of the list, and only tests that exist."""

from __future__ import annotations

import ast
import fnmatch
import functools
import json
import pathlib
import re
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
LIST = json.loads((TESTS / "fixtures" / "cases" / "ids.json").read_text(encoding="utf-8"))
ROW = re.compile(r"^\| (?P<case>[A-Z]?\d+) \| (?P<right>[^|]+) \| (?P<tests>.+) \|$")
TEST = re.compile(r"^(?P<file>[a-z_/]+\.py)::(?P<function>test_\w+)(?:\[(?P<id>.+)\])?$")


class Row(t.NamedTuple):
    """One line of a table: the case, what is right, and the tests as written."""

    case: str
    right: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    found = []
    for line in (ROOT / "docs" / "cases.md").read_text(encoding="utf-8").splitlines():
        match = ROW.match(line)
        if match:
            found.append(Row(match["case"], match["right"], tuple(re.findall(r"`([^`]+)`", match["tests"]))))
    return found


def files_named(name: str) -> list[pathlib.Path]:
    """Test files by name, or by the end of their path."""
    return [path for path in TESTS.rglob(name.rpartition("/")[2]) if path.as_posix().endswith("/" + name)]


@functools.cache
def functions(path: pathlib.Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def names_in(value: t.Any) -> t.Iterator[str]:
    """Every name of a row in a fixture."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from names_in(item)


@functools.cache
def fixture_names(path: pathlib.Path) -> set[str]:
    """The names of rows in those fixtures that a test file mentions by their file's name."""
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    for fixture in (TESTS / "fixtures").rglob("*.json"):
        if re.search(rf"\b{fixture.stem}\b", text):
            found.update(names_in(json.loads(fixture.read_text(encoding="utf-8"))))
    return found


def fault(test: str) -> str:
    """Why there is no such test, empty when there is."""
    match = TEST.match(test)
    if match is None:
        return f"{test}: expected file::function or file::function[id]"
    # Two files may have one name; then one of them must have the function.
    paths = [path for path in files_named(match["file"]) if match["function"] in functions(path)]
    if len(paths) != 1:
        return f"{test}: {len(paths)} files {match['file']} have this function"
    if match["id"] is None:
        return ""
    # In a name [ stands for itself.
    pattern = match["id"].replace("[", "[[]")
    return (
        "" if fnmatch.filter(fixture_names(paths[0]), pattern) else f"{test}: no fixture of it has a row of this name"
    )


def test_every_case_of_the_list_has_a_row() -> None:
    wanted = [f"{group}{number}" for group, numbers in LIST["groups"].items() for number in numbers]
    wanted += [str(number) for number in LIST["situations"]]
    assert [row.case for row in rows()] == wanted


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.case)
def test_the_tests_of_a_case_exist(row: Row) -> None:
    assert row.tests
    assert [said for said in map(fault, row.tests) if said] == []


@pytest.mark.parametrize(
    "test",
    [
        "test_node_map.py::test_no_such_thing",
        "test_no_such_file.py::test_parse",
        "test_node_map.py::test_parse[N99 *]",
        "test_node_map.py",
    ],
)
def test_what_does_not_exist_is_found_out(test: str) -> None:
    assert fault(test)


def test_cases_of_a_group_are_in_fixtures() -> None:
    """Every letter case is the name of a row in some table, so its input is a file."""
    names: set[str] = set()
    for fixture in (TESTS / "fixtures").rglob("*.json"):
        names.update(names_in(json.loads(fixture.read_text(encoding="utf-8"))))
    begun = {name.split(" ")[0] for name in names}
    wanted = {f"{group}{number}" for group, numbers in LIST["groups"].items() for number in numbers}
    assert sorted(wanted - begun) == []
