# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The package is installed between stop and start, from a local repository, with a daemon that its own scripts try to start."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.hpc.fabric.tests.integration import bed as beds

NAME = "nvidia-imex-570"
OLD, NEW = "570.148.08", "570.172.08"
SYSFS = "/run/test-sys"


@pytest.fixture(scope="session")
def repository(four_hosts):
    """Two versions of the package, in a repository that all hosts see."""
    folder = four_hosts.share / "repo"
    tool = four_hosts.share / "simulator" / "bin" / "imex-simulator"
    for version in (OLD, NEW):
        command = [str(tool), "deb", f"--version={version}-1", f"--name={NAME}", f"--out={folder}"]
        subprocess.run(command, check=True, capture_output=True)
    subprocess.run([str(tool), "repo", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def packaged(site, repository):
    """Hosts that know the repository, with the driver NEW loaded."""

    def prepare(node):
        node.write("/etc/apt/sources.list.d/test.list", "deb [trusted=yes] file:/srv/share/repo ./\n")
        driver(node, NEW)

    site.bed.each(prepare)
    return site


def driver(node, version):
    node.shell(f"mkdir -p {SYSFS}/module/nvidia; echo {version} >{SYSFS}/module/nvidia/version")


def plan(site, version, **more):
    site.inventory(
        {"rack1": site.bed.nodes},
        imex_package={"name": NAME, "version": f"{version}-1"},
        imex_sysfs_root=SYSFS,
        **more,
    )


def installed(node):
    return node.run("dpkg-query", "-W", "-f", "${db:Status-Want} ${db:Status-Status} ${Version}", NAME, check=False)


def versions(node):
    return {entry["version"] for entry in node.listing()["nodes"].values()}


def test_running_domain_gets_the_package_between_stop_and_start(packaged):
    site, bed = packaged, packaged.bed
    bed.by_hand(bed.nodes)
    assert versions(bed["node1"]) == {beds.VERSION}
    plan(site, NEW)
    predicted = site.check()
    assert predicted.rc == 0
    assert installed(bed["node1"]) == ""
    before = bed["node1"].read(beds.CONFIG)
    run = site.rollout()
    assert run.rc == 0
    assert run.decided() == predicted.decided() == "coordinated"
    assert "package" in run.codes()
    assert {installed(node) for node in bed.nodes} == {f"hold installed {NEW}-1"}
    # The package's own script starts the unit if nothing keeps it from that: no start came before the last stop.
    assert beds.all_together(bed.clocks().values())
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert versions(bed["node1"]) == {NEW}
    assert bed["node1"].read(beds.CONFIG) == before
    again = site.rollout()
    assert again.rc == 0
    assert again.changed == {}


def test_first_rollout_on_hosts_without_anything_installs_it(packaged):
    site, bed = packaged, packaged.bed
    bed.each(
        lambda node: node.shell(
            "rm -r /etc/nvidia-imex /usr/bin/nvidia-imex /usr/bin/nvidia-imex-ctl /usr/lib/imex-simulator;"
            " rm /usr/lib/systemd/system/nvidia-imex.service; systemctl daemon-reload"
        )
    )
    plan(site, NEW)
    predicted = site.check()
    assert predicted.rc == 0
    journal = ("journalctl", "-u", beds.UNIT, "-o", "cat", "--no-pager")
    cursor = bed["node1"].run(*journal, "-n", "1", "--show-cursor").rpartition("-- cursor: ")[2].strip()
    run = site.rollout()
    assert run.rc == 0
    assert {installed(node) for node in bed.nodes} == {f"hold installed {NEW}-1"}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    # Its own script starts the unit where it may; then there would be two starts.
    said = bed["node1"].run(*journal, *([f"--after-cursor={cursor}"] if cursor else []))
    assert said.count("Starting nvidia-imex.service") == 1


def test_version_that_is_not_the_drivers_is_refused_before_anything_stops(packaged):
    site, bed = packaged, packaged.bed
    bed.by_hand(bed.nodes)
    driver(bed["node3"], OLD)
    plan(site, NEW)
    before = bed.snapshots(), bed.starts()
    run = site.rollout()
    assert run.rc != 0
    assert run.codes() == {"package_differs_from_driver"}
    for word in ("node3", OLD, NEW):
        assert word in run.message("node1")
    assert (bed.snapshots(), bed.starts()) == before
    assert installed(bed["node1"]) == ""


def test_package_that_does_not_exist_puts_the_domain_back(packaged):
    site, bed = packaged, packaged.bed
    bed.by_hand(bed.nodes)
    bed.each(lambda node: driver(node, "570.999.99"))
    plan(site, "570.999.99")
    run = site.rollout()
    assert run.rc != 0
    assert "570.999.99" in run.message("node1")
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert versions(bed["node1"]) == {beds.VERSION}


def test_upgrade_that_cannot_be_proved_goes_back_to_the_previous_package(packaged):
    site, bed = packaged, packaged.bed
    bed.each(lambda node: driver(node, OLD))
    plan(site, OLD)
    assert site.rollout().rc == 0
    assert versions(bed["node1"]) == {OLD}
    bed.each(lambda node: driver(node, NEW))
    # The new program does not start on one host (and only the new one).
    sick = bed["node3"]
    sick.fail_when(NEW, path="/usr/lib/imex-simulator/version", exit_at_start={"code": 1, "text": "Not this version"})
    plan(site, NEW, imex_wait_timeout=8)
    run = site.rollout()
    assert run.rc != 0
    assert "node3" in run.message("node1")
    assert {installed(node) for node in bed.nodes} == {f"hold installed {OLD}-1"}
    assert all(bed.is_up(node, bed.nodes) for node in bed.nodes)
    assert versions(bed["node1"]) == {OLD}
