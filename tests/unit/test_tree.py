# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of the house that a reader cannot see in one file."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted(path for path in ROOT.glob("plugins/modules/*.py") if path.name != "__init__.py")
CORE = sorted(ROOT.glob("plugins/module_utils/**/*.py"))
ACTIONS = sorted(path for path in ROOT.glob("plugins/action/*.py") if path.name != "__init__.py")

# Every line that a module imports is compiled on every host at every call: about 0.13 of the time of a "command" task
# for 1,000 lines.
CLOSURE_LIMIT = 1000

# Run in a process of its own: imports a module file and prints one "lines path" for each part of the core it loaded.
MEASURE = """
import importlib, sys
importlib.import_module("ansible_collections.hpc.fabric.plugins.modules." + sys.argv[1])
for name, module in sorted(sys.modules.items()):
    if name.startswith("ansible_collections.hpc.fabric.plugins.module_utils") and getattr(module, "__file__", None):
        with open(module.__file__, encoding="utf-8") as source:
            print(sum(1 for line in source), name)
"""


def imported_names(path: pathlib.Path) -> list[str]:
    """Top-level names of all absolute imports of a file, also of those inside functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module.partition(".")[0])
    return names


def relative_to_root(paths: list[pathlib.Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def module_is_documented(path: pathlib.Path) -> bool:
    """True when DOCUMENTATION names the module and RETURN and EXAMPLES are there."""
    strings = {
        target.id: node.value.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    documentation = yaml.safe_load(str(strings.get("DOCUMENTATION", "")))
    return bool(
        isinstance(documentation, dict)
        and documentation.get("module") == path.stem
        and str(strings.get("EXAMPLES", "")).strip()
        and "RETURN" in strings
    )


def action_group() -> list[str]:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    return list(runtime["action_groups"]["imex"])


def test_there_are_modules_and_a_core() -> None:
    assert MODULES
    assert CORE


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_import_closure_of_a_module_is_small(module: pathlib.Path, import_root: pathlib.Path) -> None:
    path = os.pathsep.join([str(import_root), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, module.stem],
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total = sum(int(line.split()[0]) for line in done.stdout.splitlines())
    assert total <= CLOSURE_LIMIT, f"{module.stem} imports {total} lines of the core:\n{done.stdout}"


@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.stdlib_module_names came with Python 3.10")
def test_core_imports_the_standard_library_and_itself_only() -> None:
    foreign = {
        str(path.relative_to(ROOT)): sorted(set(imported_names(path)) - set(sys.stdlib_module_names)) for path in CORE
    }
    assert {path: names for path, names in foreign.items() if names} == {}


def test_init_files_are_empty() -> None:
    files = sorted(path for top in ("plugins", "tests/unit") for path in ROOT.glob(f"{top}/**/__init__.py"))
    assert relative_to_root([path for path in files if path.stat().st_size]) == []


def test_every_module_is_documented() -> None:
    assert relative_to_root([path for path in MODULES if not module_is_documented(path)]) == []


def test_every_action_plugin_has_a_module_file() -> None:
    assert [path.stem for path in ACTIONS if path.stem not in {module.stem for module in MODULES}] == []


def test_action_group_holds_every_imex_module() -> None:
    # An action plugin decides over many hosts and takes none of the options that the group's modules share.
    actions = {path.stem for path in ACTIONS}
    wanted = sorted(path.stem for path in MODULES if path.stem.startswith("imex_") and path.stem not in actions)
    assert action_group() == wanted
