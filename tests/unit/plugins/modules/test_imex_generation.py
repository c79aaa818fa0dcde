# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible.module_utils.common import warnings as shown

from ansible_collections.hpc.fabric.plugins.module_utils.imex import generations
from ansible_collections.hpc.fabric.plugins.modules import imex_generation

SYSTEMCTL = pathlib.Path(__file__).resolve().parents[3] / "simulator" / "bin" / "systemctl"


class Host:
    """A host's files in a folder, with one generation for each map it had."""

    def __init__(self, root: pathlib.Path, run_module: t.Any) -> None:
        self.root = root
        self.run_module = run_module
        self.nodes = root / "etc" / "nodes_config.cfg"
        self.dropin = root / "units" / "nvidia-imex.service.d" / "50-hpc-fabric.conf"
        self.nodes.parent.mkdir()
        self.dropin.parent.mkdir(parents=True)
        paths = generations.Paths(str(root / "etc" / "config.cfg"), str(self.nodes), str(self.dropin))
        for number in (1, 2):
            self.nodes.write_text(f"10.0.0.{number}\n")
            generations.save(str(root / "state"), f"r{number}", paths, "enabled")
        self.nodes.write_text("10.0.0.3\n")

    def call(self, check: bool = False, diff: bool = False, **params: t.Any) -> t.Any:
        options = {
            "state_dir": str(self.root / "state"),
            "run_dir": str(self.root / "run"),
            "config_path": str(self.root / "etc" / "config.cfg"),
            "systemctl_command": str(SYSTEMCTL),
        }
        # They add up over all modules that run in one process.
        shown._global_warnings.clear()
        return self.run_module(imex_generation.main, check, diff, **dict(options, **params))


@pytest.fixture
def host(run_module: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("SYSTEMCTL_ROOT", str(tmp_path / "systemd"))
    return Host(tmp_path, run_module)


def labels(result: t.Any) -> list[str]:
    return [generation["label"] for generation in result.data["generations"]]


def test_list(host: Host) -> None:
    result = host.call()
    assert not result.changed
    assert labels(result) == ["r2", "r1"]
    assert result.data["generations"][0]["nodes"] == ["10.0.0.2"]
    assert [item["differs"] for item in result.data["generations"]] == [True, True]
    assert set(result.data["generations"][0]) == {
        "absent",
        "config_digest",
        "differs",
        "digest",
        "id",
        "label",
        "nodes",
        "saved_at",
        "unit_file_state",
    }


def test_restore_by_label_then_nothing(host: Host) -> None:
    predicted = host.call(check=True, diff=True, state="restored", generation="r1")
    assert predicted.changed
    assert host.nodes.read_text() == "10.0.0.3\n"
    result = host.call(diff=True, state="restored", generation="r1")
    assert host.nodes.read_text() == "10.0.0.1\n"
    assert result.data["restored"]["label"] == "r1"
    assert result.data["changed_paths"] == [str(host.nodes)]
    assert result.data["diff"] == predicted.data["diff"]
    assert [(entry["before"], entry["after"]) for entry in result.data["diff"]] == [("10.0.0.3\n", "10.0.0.1\n")]
    assert not host.call(state="restored", generation="r1").changed


def test_previous_with_the_present_state_kept(host: Host) -> None:
    result = host.call(state="restored", generation="previous", label="before the rollback")
    assert result.data["restored"]["label"] == "r2"
    assert labels(result) == ["before the rollback", "r2", "r1"]
    assert host.nodes.read_text() == "10.0.0.2\n"
    host.call(state="restored", generation="before the rollback")
    assert host.nodes.read_text() == "10.0.0.3\n"


def test_the_restored_one_is_not_pruned_away(host: Host) -> None:
    result = host.call(state="restored", generation="r1", label="now", keep_generations=1)
    assert not result.failed, result.msg
    assert host.nodes.read_text() == "10.0.0.1\n"
    assert labels(result) == ["now", "r1"]


def test_check_mode_keeps_and_writes_nothing(host: Host) -> None:
    before = sorted(host.root.rglob("*"))
    result = host.call(check=True, state="restored", generation="previous", label="x")
    assert result.changed
    assert sorted(host.root.rglob("*")) == before


def test_dropin_goes_and_systemd_reads_it(host: Host) -> None:
    host.dropin.write_text("[Unit]\n")
    result = host.call(state="restored", generation="r2")
    assert set(result.data["changed_paths"]) == {str(host.nodes), str(host.dropin)}
    assert not host.dropin.exists()
    assert "warnings" not in result.data


def test_without_systemd_the_files_are_restored_all_the_same(host: Host) -> None:
    host.dropin.write_text("[Unit]\n")
    result = host.call(state="restored", generation="r2", systemctl_command=str(host.root / "none"))
    assert not result.failed
    assert not host.dropin.exists()
    assert "systemd has not read it yet" in str(result.data["warnings"])


def test_unknown_generation_names_those_there_are(host: Host) -> None:
    result = host.call(state="restored", generation="r9")
    assert result.failed
    assert "There is no generation 'r9'" in result.msg
    assert "(r2)" in result.msg
    assert "(r1)" in result.msg


def test_generation_is_required(host: Host) -> None:
    assert "generation" in host.call(state="restored").msg
