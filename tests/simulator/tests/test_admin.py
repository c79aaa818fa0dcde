# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installation, packages, and the switching of faults."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from imex_simulator import rules

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
FILES = {
    "./etc/nvidia-imex/config.cfg",
    "./lib/systemd/system/nvidia-imex.service",
    "./usr/bin/nvidia-imex",
    "./usr/bin/nvidia-imex-ctl",
}


def test_install(tmp_path, helpers):
    assert helpers.run("imex-simulator", "install", "--root", tmp_path, "--version", "570.148.08").returncode == 0
    for name in FILES:
        assert (tmp_path / name).exists(), name
    assert not (tmp_path / "etc/nvidia-imex/nodes_config.cfg").exists()
    text = subprocess.run(
        [tmp_path / "usr/bin/nvidia-imex", "--version"], capture_output=True, text=True, check=True, env={}
    ).stdout
    assert text == "IMEX version is: 570.148.08\n"
    assert (
        "570.148.08"
        in subprocess.run(
            [tmp_path / "usr/bin/nvidia-smi", "-q"], capture_output=True, text=True, check=True, env={}
        ).stdout
    )
    unit = (tmp_path / "lib/systemd/system/nvidia-imex.service").read_text()
    for line in ("Type=forking", "TimeoutStartSec=infinity", "Restart=on-failure", "RestartSec=1s"):
        assert f"\n{line}\n" in unit
    assert "ExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg\n" in unit


def test_install_keeps_a_changed_config(tmp_path, helpers):
    helpers.run("imex-simulator", "install", "--root", tmp_path)
    config = tmp_path / "etc/nvidia-imex/config.cfg"
    config.write_text("SERVER_PORT=40000\n")
    helpers.run("imex-simulator", "install", "--root", tmp_path)
    assert config.read_text() == "SERVER_PORT=40000\n"


def test_stock_config_has_every_key_once(helpers):
    text = helpers.run("imex-simulator", "stock-config").stdout
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines == [f"{key}={value}" for key, value in rules.CONFIG_DEFAULTS]
    assert max(len(line) for line in text.splitlines()) <= 120


@needs_dpkg
def test_deb_and_repository(tmp_path, helpers):
    for name, version in (
        ("nvidia-imex-570", "570.172.08-1"),
        ("nvidia-imex-570", "570.181-1"),
        ("nvidia-imex", "580.95.05-1"),
    ):
        done = helpers.run("imex-simulator", "deb", "--name", name, "--version", version, "--out", tmp_path)
        assert done.returncode == 0, done.stderr
    deb = tmp_path / "nvidia-imex-570_570.172.08-1_all.deb"
    listing = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    assert {line.split()[5] for line in listing.splitlines()} >= FILES
    assert {line.split()[1] for line in listing.splitlines()} == {"root/root"}
    assert "nodes_config.cfg" not in listing
    control = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, check=True).stdout
    for field in ("Provides", "Conflicts", "Replaces"):
        assert f"\n{field}: nvidia-imex\n" in control
    subprocess.run(["dpkg-deb", "-e", deb, tmp_path / "control"], check=True)
    assert (tmp_path / "control" / "conffiles").read_text() == "/etc/nvidia-imex/config.cfg\n"
    for script in ("postinst", "prerm", "postrm"):
        assert os.access(tmp_path / "control" / script, os.X_OK)
        subprocess.run(["sh", "-n", tmp_path / "control" / script], check=True)
    subprocess.run(["dpkg-deb", "-x", deb, tmp_path / "root"], check=True)
    version = subprocess.run(
        [tmp_path / "root/usr/bin/nvidia-imex", "--version"], capture_output=True, text=True, check=True, env={}
    ).stdout
    assert version == "IMEX version is: 570.172.08\n"
    assert helpers.run("imex-simulator", "repo", tmp_path).stdout == "3 packages\n"
    packages = (tmp_path / "Packages").read_text()
    assert packages.count("\nSHA256: ") == 3
    assert f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\n" in packages


def test_fault_set_and_inject(tmp_path, helpers):
    path = tmp_path / "s.json"

    def call(*arguments):
        return helpers.run("imex-simulator", *arguments, "--settings", path)

    assert call("set", "version=580.95.05", "time_scale=0.5").returncode == 0
    assert call("fault", "ctl_hang=true", "crash_after=2").returncode == 0
    assert call("fault", "crash_after=off").returncode == 0
    assert call("inject-error", "--code", "3", "--node", "1", "--count", "2").returncode == 0
    values = json.loads(path.read_text())
    assert values["version"] == "580.95.05"
    assert values["time_scale"] == 0.5
    assert values["faults"] == {"ctl_hang": True}
    assert values["inject_errors"][0]["count"] == 2
    before = path.read_text()
    done = call("fault", "no_such=1")
    assert done.returncode == 1
    assert "no_such" in done.stderr
    assert path.read_text() == before
    assert call("fault", "--clear").returncode == 0
    assert json.loads(path.read_text())["faults"] == {}
