# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon as a process, its peers as processes, all sockets real."""

from __future__ import annotations

import json
import re
import signal
import socket

import pytest

C, N, R, D = "CONNECTED", "NEVER_CONNECTED", "RECOVERING", "DISCONNECTED"
MAP, VERSION = "NODE_MAP_MISMATCH", "VERSION_MISMATCH"


def log_shape(text):
    """Log lines without what differs from run to run."""
    text = re.sub(r"\d+/\d+/\d{4} \d\d:\d\d:\d\d\.\d{3}", "STAMP", text)
    text = re.sub(r"\[\w{3} \d\d \d{4} \d\d:\d\d:\d\d\]", "[STAMP]", text)
    return re.sub(r"\[tid \d+\]", "[tid N]", text)


# --- start ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_domain_comes_up_in_any_order(make_hosts, helpers, order):
    hosts = make_hosts(3)
    for i in order:
        assert hosts[i].start().returncode == 0
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "UP")
    assert [host.row() for host in hosts] == [[C, C, C]] * 3


def test_a_late_peer_is_met_without_waiting_for_the_retry(make_hosts, helpers):
    hosts = make_hosts(2)
    for host in hosts:
        host.set(time_scale=100)  # the next retry is 25 minutes away
    hosts[0].start()
    helpers.wait_for(lambda: hosts[0].row() == [C, N], "own connection")
    assert hosts[0].domain()["status"] == "DEGRADED"
    hosts[1].start()
    helpers.wait_for(lambda: hosts[0].row() == [C, C], "late peer")


def test_the_retry_schedule_alone_finds_a_late_peer(make_hosts, helpers):
    hosts = make_hosts(2)
    for host in hosts:
        host.set(reconnect_on_incoming=False, time_scale=0.01)
    hosts[0].start()
    hosts[1].start()
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "UP")
    assert "Attempting connection for target node 1" in hosts[0].log


def test_start_up_log_of_570(make_hosts, helpers, fixture_text):
    hosts = make_hosts(2)
    hosts[0].write_config(BIND_INTERFACE_IP="", SERVER_PORT=50000, LOG_APPEND_TO_LOG=0)
    hosts[0].set(local_addresses=[hosts[0].address], version="570.00")
    assert hosts[0].start().returncode == 0, hosts[0].log
    want = log_shape(fixture_text("imex_log_570.00_startup.txt")).splitlines()
    got = log_shape(hosts[0].log).splitlines()[: len(want)]
    replace = {"10.136.206.47": hosts[0].address, "enP2s2f1": "lo", "/var/log/nvidia-imex.log": str(hosts[0].log_path)}
    replace["/var/run/nvidia-imex/persist.dat"] = str(hosts[0].persist_path)
    for old, new in replace.items():
        want = [line.replace(old, new) for line in want]
    # the threads' lines come in any order in the real log
    thread = "[STAMP] [INFO] [tid N] Started processing of incoming messages."
    assert [line for line in got if line != thread] == [line for line in want if line != thread]
    assert got.count(thread) == want.count(thread)


def test_start_up_on_stderr_of_580(make_hosts, helpers, fixture_text):
    host = make_hosts(1, nodes=["localhost"])[0]
    host.write_config(LOG_FILE_NAME="", STATS_FILE_NAME="", BIND_INTERFACE_IP="", SERVER_PORT=50000)
    host.write_config(LOG_APPEND_TO_LOG=0, DAEMONIZE=0)
    host.set(local_addresses=["127.9.9.9"], version="580.159.04")
    assert host.start().returncode != 0
    want = log_shape(fixture_text("imex_log_580.159.04_stderr_startup_partial.txt")).splitlines()[:-1]
    want[-1] = want[-1].replace("compute-domain-daemon-7555db58d7-0000", "localhost")
    assert log_shape(host.stderr).splitlines()[: len(want)] == want


def test_own_address_absent(make_hosts):
    host = make_hosts(1, nodes=["127.9.9.1", "127.9.9.2"])[0]
    assert host.start().returncode != 0
    assert (
        f"[ERROR] [tid {host.pid}] No matching network interface found for any IP addresses in the node "
        f"configuration file {host.nodes_path}."
    ) in host.log
    assert not host.alive()


def test_own_address_from_the_interfaces(make_hosts):
    host = make_hosts(1, nodes=["203.0.113.1", "127.0.0.1"])[0]
    host.write_config(BIND_INTERFACE_IP="")
    assert host.start().returncode == 0, host.log
    assert "Identified this node as ID 1, using bind IP of '127.0.0.1', and network interface of lo" in host.log


@pytest.mark.parametrize("content", [None, "", "# nothing\n"], ids=["missing", "empty", "comments"])
def test_nodes_file_without_nodes(make_hosts, content):
    host = make_hosts(1)[0]
    host.nodes_path.unlink()
    if content is not None:
        host.nodes_path.write_text(content)
    assert host.start().returncode != 0
    assert "[ERROR]" in host.log


def test_config_file_missing(make_hosts):
    host = make_hosts(1)[0]
    host.config_path.unlink()
    assert host.start().returncode != 0
    assert host.stderr == f"Unable to open configuration file at {host.config_path}\n"


def test_unknown_keys_are_tolerated(make_hosts):
    host = make_hosts(1)[0]
    host.write_config(IMEX_CONN_WAIT_TIMEOUT=70, NO_SUCH_KEY="x")
    assert host.start().returncode == 0


@pytest.mark.parametrize("key", ["SERVER_PORT", "IMEX_CMD_PORT"])
def test_port_in_use(make_hosts, key):
    host = make_hosts(1)[0]
    with socket.socket() as taken:
        taken.bind((host.address, host.config[key]))
        taken.listen()
        assert host.start().returncode != 0
    assert "Address already in use" in host.log


def test_port_option_overrides_the_file(make_hosts):
    host = make_hosts(1)[0]
    assert host.start("--port", "31077").returncode == 0
    socket.create_connection((host.address, 31077), timeout=5).close()


def test_driver_of_another_version(make_hosts):
    host = make_hosts(1)[0]
    host.set(version="570.172.08", driver_version="570.133.20")
    assert host.start().returncode != 0
    assert "[ERROR]" in host.log
    assert "not matching with current GPU driver version 570.133.20" in host.log


def test_a_second_daemon_on_the_host(make_up, make_hosts):
    first = make_up(1)[0]
    second = make_hosts(1)[0]
    second.set(run_dir=first.settings["run_dir"])
    assert second.start().returncode != 0
    assert "NV_ERR_IN_USE" in second.log


@pytest.mark.parametrize("version, started", [("570.148.08", False), ("570.158.01", True)])
def test_host_names_need_a_newer_version(make_hosts, version, started):
    host = make_hosts(1, nodes=["localhost"])[0]
    host.write_config(BIND_INTERFACE_IP="127.0.0.1", IMEX_CMD_BIND_INTERFACE_IP="127.0.0.1")
    host.set(version=version)
    assert (host.start().returncode == 0) == started, host.log
    assert ("Identified this node as ID 0, using bind address of 'localhost'" in host.log) == started


def test_foreground(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.write_config(DAEMONIZE=0)
    process = host.start_in_background()
    helpers.wait_for(lambda: host.state() == "READY", "READY")
    assert process.poll() is None
    assert host.pid == process.pid
    process.terminate()
    assert process.wait(timeout=5) == 0


def test_background_leaves_exactly_one_process(make_hosts):
    host = make_hosts(1)[0]
    process = host.start_in_background()
    assert process.wait(timeout=10) == 0
    assert host.alive()
    assert host.pid != process.pid
    with open(f"/proc/{host.pid}/stat") as f:
        session = int(f.read().rpartition(") ")[2].split()[3])
    assert session == host.pid
    with open(f"/proc/{host.pid}/task/{host.pid}/children") as f:
        assert f.read() == ""
    assert host.state() == "READY"  # so the parent did not return before


def test_nogpu_is_of_the_newest_versions(make_hosts):
    host = make_hosts(1)[0]
    assert host.start("--nogpu").returncode != 0
    host.set(version="595.71.05")
    assert host.start("--nogpu").returncode == 0
    assert "is running in NO GPU MODE" in host.log
    assert host.domain()["nodes"]["0"]["version"] == "NO_GPU"


# --- mismatch -------------------------------------------------------------------------------------------------------


def test_a_changed_map_is_blocked_until_all_are_stopped(make_up, helpers):
    hosts = make_up(3)
    for host in hosts:
        host.write_nodes([h.address for h in reversed(hosts)])
    # one after the other is wrong: the new one and the old ones do not talk any more
    hosts[0].stop()
    hosts[0].start()
    helpers.wait_for(lambda: MAP in hosts[0].row(), "mismatch")
    assert "Node configuration mismatch" in hosts[0].log
    for host in hosts[1:]:
        host.stop()
        host.start()
    helpers.wait_for(lambda: hosts[0].domain()["nodes"]["2"]["connections"]["0"]["status"] == MAP, "sticky")
    table = hosts[0].ctl("-N").stdout
    assert "!M!" in table
    assert "Domain State: DEGRADED" in table
    # all together is right
    for host in hosts:
        host.stop()
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: hosts[0].domain()["status"] == "UP", "UP")


def test_config_and_nodes_are_read_at_the_start_only(make_up, helpers):
    hosts = make_up(2)
    for host in hosts:
        host.write_nodes([hosts[0].address])
        host.send_signal(signal.SIGHUP)
        host.send_signal(signal.SIGUSR1)
    helpers.wait_for(lambda: "SIGUSR1" in hosts[0].log and hosts[0].row() == [C, C], "reconnected")
    # the list is the local file's, the row is the daemon's
    nodes = hosts[0].domain()["nodes"]
    assert list(nodes) == ["0"]
    assert sorted(nodes["0"]["connections"]) == ["0", "1"]


def test_peers_of_another_version(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].set(version="570.133.20")
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: hosts[0].row() == [C, VERSION], "mismatch")
    assert "!V!" in hosts[0].ctl("-N").stdout
    hosts[1].stop()
    hosts[1].set(version="570.172.08")
    hosts[1].start()
    helpers.wait_for(lambda: hosts[0].row() == [C, C], "connected")


def test_peers_with_another_authentication_setting(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[1].write_config(IMEX_ENABLE_AUTH_ENCRYPTION=1)
    for host in hosts:
        host.start()
    helpers.wait_for(lambda: "Authentication failed with node 1" in hosts[0].log, "refusal")
    assert hosts[0].row() == [C, N]


# --- loss and recovery ----------------------------------------------------------------------------------------------


def test_clean_stop(make_up, helpers):
    hosts = make_up(2)
    hosts[1].stop()
    helpers.wait_for(lambda: hosts[0].row() == [C, R], "recovering")
    assert f"Received notification of shutdown from node 1 - {hosts[1].address}" in hosts[0].log
    assert f"Node disconnect event detected for node 1 with address {hosts[1].address}" in hosts[0].log
    nodes = hosts[0].domain()["nodes"]
    assert nodes["1"]["status"] == "UNAVAILABLE"
    assert {c["status"] for c in nodes["1"]["connections"].values()} == {"INVALID"}
    assert hosts[1].persist_path.read_text().count("\n") == 1
    hosts[1].start()
    helpers.wait_for(lambda: hosts[0].row() == [C, C], "back")
    assert "is a new instance" in hosts[0].log


def test_kill(make_up, helpers):
    hosts = make_up(2)
    hosts[1].stop(signal.SIGKILL)
    helpers.wait_for(lambda: hosts[0].row() == [C, R], "recovering")
    assert "Received notification of shutdown" not in hosts[0].log
    assert "Connection lost to node 1" in hosts[0].log


def test_grace_time_ends_in_disconnected(make_hosts, helpers):
    hosts = make_hosts(2)
    for host in hosts:
        host.write_config(IMEX_NODE_DISCONNECTED_GRACE_TIME=2)
        host.start()
    helpers.wait_for(lambda: hosts[0].row() == [C, C], "connected")
    hosts[1].stop()
    helpers.wait_for(lambda: hosts[0].row() == [C, D], "disconnected")
    assert re.search(r"^ +0 +C +D$", hosts[0].ctl("-N").stdout, re.M)


def test_recovery_after_an_unclean_end(make_up, helpers):
    hosts = make_up(3)
    hosts[0].set(importers=[hosts[1].address, 2])
    helpers.wait_for(lambda: hosts[0].persist_path.read_text().count("\n") == 3, "importers on disk")
    assert f"Node 2: {hosts[2].address}" in hosts[0].persist_path.read_text()
    hosts[0].stop(signal.SIGKILL)
    hosts[0].set(importers=None)
    hosts[1].stop()
    starting = hosts[0].start_in_background()
    helpers.wait_for(lambda: hosts[0].state() == "WAITING_FOR_RECOVERY", "waiting")
    assert starting.poll() is None  # this is what makes systemctl start hang
    hosts[1].start()
    assert starting.wait(timeout=10) == 0
    assert hosts[0].state() == "READY"
    assert "All previous importers have recovered" in hosts[0].log


@pytest.mark.parametrize("why", ["quorum NONE", "other map"])
def test_no_recovery(make_hosts, why):
    hosts = make_hosts(2)
    hosts[0].start()
    hosts[0].stop(signal.SIGKILL)
    key = hosts[0].persist_path.read_text()
    hosts[0].persist_path.write_text(f"{key}Node 1: {hosts[1].address}\n")
    if why == "quorum NONE":
        hosts[0].write_config(IMEX_WAIT_FOR_QUORUM="NONE")
    else:
        hosts[0].write_nodes([hosts[1].address, hosts[0].address])
    assert hosts[0].start().returncode == 0
    assert hosts[0].state() == "READY"


def test_full_quorum_waits_for_everybody(make_hosts, helpers):
    hosts = make_hosts(2)
    hosts[0].write_config(IMEX_WAIT_FOR_QUORUM="FULL")
    starting = hosts[0].start_in_background()
    helpers.wait_for(lambda: hosts[0].state() == "WAITING_FOR_PEERS", "waiting")
    hosts[1].start()
    assert starting.wait(timeout=10) == 0


# --- signals and logs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_orderly_shutdown(make_up, number):
    host = make_up(1)[0]
    host.stop(number)
    assert (host.dir / "mainpid.exit").read_text() == "0\n"
    assert "shutting down" in host.log
    assert (host.dir / "nvidia-imex-verbose.log").exists()


def test_hup_writes_the_verbose_log_and_nothing_else(make_up, helpers):
    host = make_up(1)[0]
    verbose = host.dir / "nvidia-imex-verbose.log"
    assert not verbose.exists()
    host.send_signal(signal.SIGHUP)
    helpers.wait_for(lambda: verbose.exists() and "Identified this node" in verbose.read_text(), "verbose log")
    assert host.state() == "READY"


def test_usr1_reconnects_at_most_once_in_five_seconds(make_up, helpers):
    hosts = make_up(2, time_scale=10)
    hosts[0].send_signal(signal.SIGUSR1)
    helpers.wait_for(lambda: "Number of times connected: 2" in hosts[0].log, "reconnected")
    hosts[0].send_signal(signal.SIGUSR1)
    hosts[0].send_signal(signal.SIGHUP)  # handled after it
    helpers.wait_for((hosts[0].dir / "nvidia-imex-verbose.log").exists, "later signal")
    assert hosts[0].log.count("Received SIGUSR1") == 1
    helpers.wait_for(lambda: hosts[0].row() == [C, C], "connected")
    assert "Connection lost" not in hosts[0].log + hosts[1].log


@pytest.mark.parametrize("level, kept", [(4, {"INFO", "ERROR"}), (2, {"ERROR"}), (0, set())])
def test_log_level(make_hosts, level, kept):
    host = make_hosts(1, nodes=["127.9.9.9"])[0]
    host.write_config(LOG_LEVEL=level)
    host.start()
    assert set(re.findall(r"\] \[([A-Z]+)\] \[tid", host.log)) == kept


@pytest.mark.parametrize("append, count", [(0, 1), (1, 2)])
def test_append_to_log(make_hosts, append, count):
    host = make_hosts(1)[0]
    host.write_config(LOG_APPEND_TO_LOG=append)
    for _turn in range(2):
        host.start()
        host.stop()
    assert host.log.count("IMEX Log initializing at") == count


def test_rotation(make_hosts):
    host = make_hosts(1)[0]
    host.set(log_megabyte=1500)
    host.write_config(LOG_FILE_MAX_SIZE=1, LOG_MAX_ROTATE_COUNT=2)
    for _turn in range(3):
        host.start()
        host.stop()
    assert sorted(p.name for p in host.dir.glob("nvidia-imex.log*")) == [
        "nvidia-imex.log",
        "nvidia-imex.log.1",
        "nvidia-imex.log.2",
    ]


# --- statistics -----------------------------------------------------------------------------------------------------


def records(text):
    parts = re.split(r"^Performance statistics for last \d+ seconds  : ", text, flags=re.M)
    return [json.loads(part) for part in parts[1:]]


def test_statistics_as_documented(make_up, helpers, fixture_text):
    """The sample's values through the simulator's writer: the bytes must be those of the sample."""
    sample = fixture_text("stats_record.txt")
    host = make_up(1, stats_interval=0.1, statistics=records(sample)[0])[0]
    helpers.wait_for(lambda: host.stats_path.read_text().count("\n}\n") >= 2, "two records")
    first = host.stats_path.read_text().split("\n}\n")[0] + "\n}\n"
    assert first == sample.replace("last 30 seconds", "last 1 seconds")


def test_idle_statistics(make_up, helpers):
    host = make_up(1, stats_interval=0.1, heartbeat_interval=0)[0]
    helpers.wait_for(lambda: host.stats_path.read_text().count("\n}\n"), "a record")
    record = records(host.stats_path.read_text())[0]
    assert list(record) == ["QueueStats", "IncomingMessages", "OutgoingMessages"]
    assert record["IncomingMessages"] == {}


def test_heartbeats_are_counted(make_up, helpers):
    hosts = make_up(2, stats_interval=0.3, heartbeat_interval=0.05)
    helpers.wait_for(
        lambda: any("Heartbeat" in r["IncomingMessages"] for r in records(hosts[0].stats_path.read_text())), "beats"
    )


def test_error_fields_as_documented(make_up, helpers, fixture_text):
    want = json.loads("{" + fixture_text("stats_error_fields_fragment.txt") + "}")
    host = make_up(2, stats_interval=0.2, error_fields=True)[0]
    host.set(
        inject_errors=[
            {
                "operation": "import",
                "code": 3,
                "node_id": 1,
                "count": 20,
                "description": "Import failed: PERMISSION_DENIED",
                "driver_error": "Requested DMA is in use [NV_ERR_DMA_IN_USE]",
            },
            {"operation": "unimport", "code": 1, "count": 20, "per_node": False},
        ]
    )
    helpers.wait_for(lambda: "Import failed" in host.stats_path.read_text().rpartition("\n}\n")[0], "record")
    all_records = records(host.stats_path.read_text().rpartition("\n}\n")[0] + "\n}\n")
    record = next(r for r in all_records if r["error_details_last_window"])
    assert record["error_counters"] == want["error_counters"]
    assert json.dumps(record["error_counters"], indent=1) == json.dumps(want["error_counters"], indent=1)
    detail = record["error_details_last_window"][0]
    assert list(detail) == list(want["error_details_last_window"][0])
    for key in ("category", "import_error_type", "node_id", "description", "driver_error", "event_id"):
        assert detail[key] == want["error_details_last_window"][0][key]
    # the details are of one window, the counters are not
    count = len(all_records)
    helpers.wait_for(lambda: host.stats_path.read_text().count("\n}\n") > count + 1, "later record")
    later = records(host.stats_path.read_text().rpartition("\n}\n")[0] + "\n}\n")[-1]
    assert later["error_details_last_window"] == []
    assert later["error_counters"] == want["error_counters"]


def test_counters_start_over_with_the_daemon(make_up, helpers):
    hosts = make_up(2, stats_interval=0.1, error_fields=True)
    hosts[1].stop(signal.SIGKILL)
    helpers.wait_for(lambda: '"total_connection_errors": "1"' in hosts[0].stats_path.read_text(), "lost connection")
    hosts[0].stop()
    hosts[0].write_config(LOG_APPEND_TO_LOG=0)
    hosts[0].start()
    helpers.wait_for(lambda: hosts[0].stats_path.read_text().count("\n}\n"), "a record")
    assert records(hosts[0].stats_path.read_text())[0]["error_counters"]["total"]["total_connection_errors"] == "0"


def test_statistics_mixed_into_the_log(make_hosts, helpers):
    host = make_hosts(1)[0]
    host.write_config(STATS_FILE_NAME=host.log_path)
    host.set(stats_interval=0.1)
    host.start()
    helpers.wait_for(lambda: "Performance statistics" in host.log, "a record")
    assert host.log.startswith("IMEX Log initializing")
