# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-imex-ctl as a program: options, exit status, texts."""

from __future__ import annotations

import json
import re
import socket
import subprocess

import pytest


def test_ready(make_up):
    host = make_up(1)[0]
    done = host.ctl("-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "READY\n", "")


def test_domain_down(make_hosts):
    host = make_hosts(2)[0]
    done = host.ctl("-N", "-j")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["status"] == "DOWN"
    assert {node["status"] for node in answer["nodes"].values()} == {"UNAVAILABLE"}
    assert {node["version"] for node in answer["nodes"].values()} == {""}
    assert host.ctl("-N").stdout.endswith("Domain State: DOWN\n")


def test_query_unreachable(make_hosts):
    host = make_hosts(1)[0]
    done = host.ctl("-q")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Query Status returned error code: 14 - failed to connect to all addresses; last error: UNKNOWN: "
    )
    host.set(query_unavailable="word")
    assert host.ctl("-q").stdout == "UNAVAILABLE\n"


def test_config_missing(make_hosts):
    host = make_hosts(1)[0]
    host.config_path.unlink()
    done = host.ctl("-q")
    assert done.returncode == 1
    assert done.stdout.startswith(f"Unable to open configuration file at {host.config_path}\nUsage: nvidia-imex-ctl ")


@pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
def test_nodes_file_unreadable(make_hosts, content):
    host = make_hosts(1)[0]
    host.nodes_path.unlink()
    if content is not None:
        host.nodes_path.write_text(content)
    done = host.ctl("-N")
    assert done.returncode == 255
    assert done.stderr.startswith("Failed to read node configuration file")


@pytest.mark.parametrize(
    "version, first",
    [
        ("570.172.08", "Usage: nvidia-imex-ctl [-i <IP> <PORT>|-u <unix domain socket path>|-c "),
        ("595.91.07", "Usage: nvidia-imex-ctl [-c <nvidia-imex config.cfg path>] <-n|-N|-q> [-j][-H]\n"),
    ],
)
@pytest.mark.parametrize("arguments", [("-h",), ("-x",), ("-q", "-N"), ("--get_error_counters",), ("-t", "x")])
def test_usage(make_hosts, version, first, arguments):
    host = make_hosts(1)[0]
    host.set(version=version, error_commands=False)
    done = host.ctl(*arguments)
    assert done.returncode == 1
    assert done.stdout.startswith(first)


def test_first_line_of_595(make_hosts, fixture_text):
    host = make_hosts(1)[0]
    host.set(version="595.91.07")
    assert host.ctl("-h").stdout.splitlines()[0] == fixture_text("ctl_help_595_firstline.txt").strip()


@pytest.mark.parametrize("version, status", [("570.148.08", 0), ("580.95.05", 1)])
def test_option_i_is_gone_in_580(make_up, helpers, version, status):
    host = make_up(1, version=version)[0]
    arguments = ("-i", host.address, host.config["IMEX_CMD_PORT"], "-q")
    environment = {"IMEX_SIMULATOR_CONFIG": str(host.settings_path)}
    done = helpers.run("nvidia-imex-ctl", *arguments, env=environment)
    assert done.returncode == status
    assert (done.stdout == "READY\n") == (status == 0)


def test_unix_socket(make_hosts, helpers):
    host = make_hosts(1)[0]
    path = host.dir / "command.sock"
    host.write_config(IMEX_CMD_UNIX_DOMAIN_PATH=path)
    host.start()
    environment = {"IMEX_SIMULATOR_CONFIG": str(host.settings_path)}
    assert helpers.run("nvidia-imex-ctl", "-u", path, "-q", env=environment).stdout == "READY\n"
    host.stop()
    assert not path.exists()


def test_command_service_off(make_hosts):
    host = make_hosts(1)[0]
    host.write_config(IMEX_CMD_ENABLED=0)
    host.start()
    assert host.ctl("-q").returncode == 1
    assert host.domain()["status"] == "DOWN"


def test_command_service_on_loopback_only_hides_a_node_from_the_others(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].write_config(IMEX_CMD_BIND_INTERFACE_IP="127.0.0.1", IMEX_CMD_PORT=31006)
    for host in hosts:
        host.start()
    assert hosts[1].state() == "READY"
    nodes = hosts[0].domain()["nodes"]
    assert nodes["1"]["status"] == "UNAVAILABLE"
    helpers.wait_for(lambda: hosts[0].row() == ["CONNECTED"] * 2, "own row")


def test_host_names(make_up):
    hosts = make_up(2, version="580.95.05")
    hosts[0].set(hostname="gb-01")
    table = hosts[0].ctl("-N", "-H").stdout
    assert re.search(rf"^Node #0   \* {hosts[0].address} \* +- READY +- Version: 580.95.05 +- Hostname: ", table, re.M)
    assert re.search(rf"^Node #1   - {hosts[1].address} ", table, re.M)
    assert hosts[0].ctl("-H").stdout.splitlines()[0] == table.splitlines()[0]
    assert hosts[0].domain()["nodes"]["0"]["hostName"] == ""


def test_old_table(make_up):
    host = make_up(1, version="570.86.15")[0]
    assert re.search(rf"^Node #0   - {host.address:<15} - READY$", host.ctl("-N").stdout, re.M)


def test_monitor_repeats_until_it_is_ended(make_up, helpers):
    host = make_up(1, monitor_interval=0.05)[0]
    process = subprocess.Popen(
        helpers.command("nvidia-imex-ctl", "-c", host.config_path, "-n", "-j"), stdout=subprocess.PIPE, text=True
    )
    try:
        text = ""
        while text.count('\n "status": "UP"\n}\n') < 3:
            line = process.stdout.readline()
            assert line, text
            text += line
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    reports = [json.loads(part + "\n}") for part in text.split("\n}\n") if part.strip()]
    assert [r["nodes"]["0"]["changed"] for r in reports[:2]] == [True, False]


def test_subscribe(make_up):
    host = make_up(1)[0]
    done = host.ctl("-s", "-t", "100")
    assert done.stdout == "READY\nFinishing subscription\n"


def test_error_counters_on_demand(make_up):
    host = make_up(1, version="595.91.07", inject_errors=[{"operation": "import", "code": 3, "count": 2}])[0]
    counters = json.loads(host.ctl("--get_error_counters").stdout)["error_counters"]
    assert counters["total"]["import_errors"]["3"] == "2"


def test_error_events_are_followed(make_up, helpers):
    host = make_up(1, version="595.91.07", inject_errors=[{"description": "first"}])[0]
    process = subprocess.Popen(
        helpers.command("nvidia-imex-ctl", "-c", host.config_path, "--subscribe_error_events"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert json.loads(process.stdout.readline())["description"] == "first"
        host.set(inject_errors=[{"description": "first"}, {"description": "second", "operation": "connection"}])
        event = json.loads(process.stdout.readline())
        assert (event["description"], event["category"]) == ("second", "CONNECTION_ERROR")
        host.stop()
        assert process.wait(timeout=5) == 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_silent_nodes_do_not_add_up(make_up):
    """All nodes are asked at once: many silent ones cost one connect timeout together."""
    host = make_up(1)[0]
    host.set(ctl_connect_timeout=1.5)
    silent = [f"{host.address.rpartition('.')[0]}.{i}" for i in range(100, 108)]
    host.write_nodes([host.address, *silent])
    sockets = []
    try:
        for address in silent:  # a full backlog answers no further SYN
            listener = socket.socket()
            sockets.append(listener)
            listener.bind((address, host.config["IMEX_CMD_PORT"]))
            listener.listen(0)
            for _turn in range(2):
                filler = socket.socket()
                sockets.append(filler)
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
        done = host.ctl("-N", "-j", timeout=6)  # 8 x 1.5 s would not fit
    finally:
        for each in sockets:
            each.close()
    nodes = json.loads(done.stdout)["nodes"]
    assert nodes["0"]["status"] == "READY"
    assert {nodes[str(i)]["status"] for i in range(1, 9)} == {"UNAVAILABLE"}
