# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi against published fabric blocks."""

from __future__ import annotations

import json
import subprocess
from xml.etree import ElementTree

import pytest


@pytest.fixture
def smi(tmp_path, helpers):
    """smi(settings, *arguments): run nvidia-smi with these settings."""

    def call(values, *arguments, timeout=10):
        path = tmp_path / "settings.json"
        path.write_text(json.dumps(values))
        return helpers.run("nvidia-smi", *arguments, env={"IMEX_SIMULATOR_CONFIG": str(path)}, timeout=timeout)

    return call


@pytest.mark.parametrize(
    "sample, values",
    [
        (
            "nvidia_smi_q_fabric_gb200_healthy.txt",
            {"fabric": {"clique_id": 1, "cluster_uuid": "b2daed23-0000-0000-0000-000000000000"}},
        ),
        ("nvidia_smi_q_fabric_in_progress.txt", {"fabric": "F2"}),
        ("nvidia_smi_q_fabric_na.txt", {"fabric": "F3", "version": "550.54.15"}),
    ],
)
def test_fabric_block(smi, fixture_text, sample, values):
    done = smi(values, "-q")
    assert done.returncode == 0
    assert done.stdout.count(fixture_text(sample)) == 4


def test_xml(smi, fixture_text):
    text = smi({"fabric": "F3", "version": "550.54.15"}, "-q", "-x").stdout
    assert fixture_text("nvidia_smi_x_fabric_v1.xml") in text
    assert len(ElementTree.fromstring(text).findall("gpu/fabric")) == 4


@pytest.mark.parametrize(
    "variant, want",
    [
        ("F1", "Completed, Success"),
        ("F2", "In Progress, Success"),
        ("F3", "N/A, N/A"),
        ("F4", "Completed, Insufficient Resources"),
        ("F5", "Completed, Success"),
        ("F6", "Completed, Success"),
    ],
)
def test_query_fabric(smi, variant, want):
    lines = smi({"fabric": variant}, "--query-gpu=fabric.state,fabric.status", "--format=csv").stdout.splitlines()
    assert lines[0] == "fabric.state, fabric.status"
    assert set(lines[1:]) == {want}


def test_gpus_that_differ(smi):
    text = smi({"fabric": {"per_gpu": [{}, {"clique_id": 7}]}}, "-q").stdout
    assert text.count("CliqueId                          : 32766\n") == 3
    assert text.count("CliqueId                          : 7\n") == 1


@pytest.mark.parametrize("version, rows", [("550.54.15", 0), ("580.65.06", 0), ("580.173.02", 4)])
def test_partition_row(smi, version, rows):
    assert smi({"version": version}, "-q").stdout.count("        Partition Assigned                : N/A\n") == rows


def test_processes(smi):
    arguments = ("--query-compute-apps=pid,process_name", "--format=csv,noheader")
    assert smi({}, *arguments).stdout == ""
    processes = [{"pid": 4711, "name": "/usr/bin/python3"}, {"pid": 4712, "name": "nvbandwidth", "gpu": 1}]
    assert smi({"gpu_processes": processes}, *arguments).stdout == "4711, /usr/bin/python3\n4712, nvbandwidth\n"


def test_driver_version(smi):
    arguments = ("--query-gpu=driver_version", "--format=csv,noheader")
    assert smi({"driver_version": "570.133.20"}, *arguments).stdout == "570.133.20\n" * 4


def test_no_driver(smi):
    done = smi({"driver_loaded": False}, "-q")
    assert done.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in done.stdout


def test_wrong_field(smi):
    assert smi({}, "--query-gpu=colour", "--format=csv").returncode == 2


def test_smi_faults(smi):
    done = smi({"faults": {"smi_exit": {"code": 4, "text": "Unknown Error\n"}}}, "-q")
    assert (done.returncode, done.stdout) == (4, "Unknown Error\n")
    with pytest.raises(subprocess.TimeoutExpired):
        smi({"faults": {"smi_hang": True}}, "-q", timeout=0.5)
