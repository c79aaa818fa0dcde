# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import signal
import stat
import time

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import FileError, InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import generations

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Host:
    """A host's files in a folder, and where its generations are kept."""

    def __init__(self, root: pathlib.Path) -> None:
        self.state = str(root / "state")
        self.config = root / "etc" / "config.cfg"
        self.nodes = root / "etc" / "nodes_config.cfg"
        self.dropin = root / "systemd" / "nvidia-imex.service.d" / "50-hpc-fabric.conf"
        self.config.parent.mkdir()
        self.kept = root / "state" / "imex" / "generations"

    @property
    def paths(self) -> generations.Paths:
        return generations.Paths(str(self.config), str(self.nodes), str(self.dropin))

    def write(self, nodes: str, config: str = "SERVER_PORT=31000\n") -> None:
        self.config.write_bytes(config.encode())
        self.nodes.write_bytes(nodes.encode())

    def save(self, label: str, keep: int = 5, state: str = "enabled") -> generations.Generation:
        return generations.save(self.state, label, self.paths, state, keep)

    def labels(self) -> list[str]:
        return [generation.label for generation in generations.listing(self.state)]


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    return Host(tmp_path)


def test_nothing_is_kept_yet(host: Host) -> None:
    assert generations.listing(host.state) == ()
    with pytest.raises(InputError, match=r"There is no generation 'r1' .* There are: none\."):
        generations.find(host.state, "r1")


def test_save_and_list(host: Host) -> None:
    host.write("# c\r\n10.0.0.2\r\n10.0.0.1", "B=2\nA=1\n")
    saved = host.save("run 1")
    assert generations.listing(host.state) == (saved,)
    result = saved.as_result()
    assert result["label"] == "run 1"
    assert result["nodes"] == ["10.0.0.2", "10.0.0.1"]
    assert result["unit_file_state"] == "enabled"
    assert result["absent"] == [str(host.dropin)]
    assert json.loads(json.dumps(result)) == result
    assert stat.S_IMODE(host.kept.stat().st_mode) == 0o700


def test_restore_is_byte_for_byte(host: Host) -> None:
    host.write("\ufeff# c\r\n10.0.0.2\r\n\t10.0.0.1", "A = 1 # x")
    host.nodes.chmod(0o640)
    before = (host.nodes.read_bytes(), host.config.read_bytes())
    saved = host.save("r1")
    host.write("10.0.0.9\n", "A=2\n")
    host.nodes.chmod(0o600)
    host.dropin.parent.mkdir(parents=True)
    host.dropin.write_text("[Unit]\n")
    assert set(generations.restore(host.state, "r1")) == {str(host.nodes), str(host.config), str(host.dropin)}
    assert (host.nodes.read_bytes(), host.config.read_bytes()) == before
    assert stat.S_IMODE(host.nodes.stat().st_mode) == 0o640
    assert not host.dropin.exists()
    assert generations.restore(host.state, saved.id) == ()


def test_files_that_were_absent_are_removed(host: Host) -> None:
    host.save("clean host", state="")
    host.write("10.0.0.1\n")
    assert generations.restore(host.state, "clean host") == (str(host.config), str(host.nodes))
    assert os.listdir(host.config.parent) == []


def test_files_that_went_away_come_back_with_their_folder(host: Host) -> None:
    host.write("10.0.0.1\n")
    host.save("r1")
    host.config.unlink()
    host.nodes.unlink()
    host.config.parent.rmdir()
    generations.restore(host.state, "r1")
    assert host.nodes.read_text() == "10.0.0.1\n"


@as_root
def test_owner_is_restored_though_the_content_is_the_same(host: Host) -> None:
    host.write("10.0.0.1\n")
    os.chown(host.nodes, 12, 34)
    saved = host.save("r1")
    os.chown(host.nodes, 0, 0)
    assert [change.stored.path for change in generations.changes(saved)] == [str(host.nodes)]
    generations.restore(host.state, "r1")
    assert (host.nodes.stat().st_uid, host.nodes.stat().st_gid) == (12, 34)


def test_second_save_of_a_run_keeps_the_first(host: Host) -> None:
    host.write("10.0.0.1\n")
    first = host.save("r1")
    host.write("10.0.0.2\n")
    assert host.save("r1") == first
    generations.restore(host.state, "r1")
    assert host.nodes.read_text() == "10.0.0.1\n"


def test_previous_is_the_newest_that_differs(host: Host) -> None:
    for number in (1, 2, 3):
        host.write(f"10.0.0.{number}\n")
        host.save(f"r{number}")
    assert generations.find(host.state, "previous").label == "r2"
    generations.restore(host.state, "previous")
    assert host.nodes.read_text() == "10.0.0.2\n"
    host.write("10.0.0.9\n")
    assert generations.find(host.state, "previous").label == "r3"


def test_no_previous_when_nothing_differs(host: Host) -> None:
    host.write("10.0.0.1\n")
    host.save("r1")
    with pytest.raises(InputError, match="expected one that differs from the present files"):
        generations.find(host.state, "previous")


def test_prune_drops_the_oldest(host: Host) -> None:
    for number in range(1, 8):
        host.write(f"10.0.0.{number}\n")
        host.save(f"r{number}", keep=3)
    assert host.labels() == ["r7", "r6", "r5"]
    assert len(os.listdir(host.kept)) == 3


def test_runs_that_changed_nothing_push_nothing_out(host: Host) -> None:
    host.write("10.0.0.1\n")
    host.save("r1", keep=3)
    host.write("10.0.0.2\n")
    for number in range(2, 9):
        host.save(f"r{number}", keep=3)
    assert host.labels()[0] == "r8"
    assert "r1" in host.labels()


def test_prune_spares_what_is_protected(host: Host) -> None:
    host.write("10.0.0.1\n")
    first = host.save("r1")
    for number in (2, 3):
        host.write(f"10.0.0.{number}\n")
        generations.save(host.state, f"r{number}", host.paths, "enabled", 2, {first.id})
    assert host.labels() == ["r3", "r1"]


def test_half_written_generation_is_ignored_and_cleaned(host: Host) -> None:
    host.write("10.0.0.1\n")
    host.save("r1")
    half = host.kept / f"{generations.NEW}20260101T000000.000-dead"
    half.mkdir()
    (half / "config.cfg").write_text("half")
    torn = host.kept / "20260101T000000.000-torn"
    torn.mkdir()
    (torn / generations.MANIFEST).write_text('{"version": 1, "id"')
    assert host.labels() == ["r1"]
    host.write("10.0.0.2\n")
    host.save("r2")
    assert not half.exists()
    assert not torn.exists()
    assert host.labels() == ["r2", "r1"]


def test_generation_of_a_later_version_is_left_alone(host: Host) -> None:
    host.write("10.0.0.1\n")
    saved = host.save("r1")
    manifest = pathlib.Path(saved.folder) / generations.MANIFEST
    manifest.write_text(json.dumps(dict(json.loads(manifest.read_text()), version=2)))
    assert host.labels() == []
    host.save("r2")
    assert manifest.exists()


def test_damaged_generation_is_not_restored(host: Host) -> None:
    host.write("10.0.0.1\n")
    saved = host.save("r1")
    (pathlib.Path(saved.folder) / "nodes_config.cfg").write_text("10.0.0.")
    host.write("10.0.0.2\n")
    assert host.labels() == []
    with pytest.raises(FileError, match="this generation is damaged"):
        generations.changes(saved)
    assert host.nodes.read_text() == "10.0.0.2\n"


@pytest.mark.parametrize("label", ["", " ", "a\nb", "x" * 201])
def test_label_that_is_none(host: Host, label: str) -> None:
    with pytest.raises(InputError, match="cannot be the label of a generation"):
        host.save(label)


def test_a_link_is_not_saved(host: Host) -> None:
    host.write("10.0.0.1\n")
    host.nodes.unlink()
    host.nodes.symlink_to("elsewhere")
    with pytest.raises(FileError, match="symbolic link"):
        host.save("r1")
    assert host.labels() == []


def test_state_dir_that_cannot_be_used(host: Host, tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(FileError, match="Cannot create the folder"):
        host.save("r1")


def test_kill_while_saving_leaves_whole_generations(host: Host) -> None:
    host.write("10.0.0.1\n" * 2000, "A=1\n")
    for number in range(60):
        child = os.fork()
        if not child:
            try:
                for round_ in range(1000):
                    host.save(f"r{number}-{round_}", keep=3)
            finally:
                os._exit(1)
        time.sleep(0.002 + number % 12 / 1500)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for generation in generations.listing(host.state):
            assert len(generation.nodes) == 2000
            assert generations.changes(generation) == ()
    host.save("last", keep=3)
    assert "last" in host.labels()
    assert [name for name in os.listdir(host.kept) if name.startswith(".")] == []
