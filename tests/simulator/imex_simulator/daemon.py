# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon: a NodeModel with sockets, files and a clock. ``main`` is nvidia-imex; cluster.py runs many in one process."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import sys
import time
import uuid

from imex_simulator import addresses, logs, model, rules, settings

PID_FILE_ENVIRONMENT = "SYSTEMCTL_MAINPID_FILE"
_LINE_LIMIT = 65536


class StartError(Exception):
    """The daemon cannot start; everything that there is to say was logged."""

    def __init__(self, status=rules.START_FAILED):
        super().__init__(status)
        self.status = status


def encode(*words):
    return ("\t".join(words) + "\n").encode()


class _Lines(asyncio.Protocol):
    """A connection that carries lines of tab-separated words."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.transport = None
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while self.transport is not None:
            line, end, rest = self.buffer.partition(b"\n")
            if not end:
                if len(line) > _LINE_LIMIT:
                    self.close()
                return
            self.buffer = rest
            self.line(line.decode("utf-8", "replace").split("\t"))

    def line(self, words):
        raise NotImplementedError

    def send(self, *words):
        if self.transport is not None:
            self.transport.write(encode(*words))

    def close(self):
        if self.transport is not None:
            self.transport.close()

    def abort(self):
        if self.transport is not None:
            self.transport.abort()


class Incoming(_Lines):
    """A peer's connection to this daemon."""

    peer_address = None

    def connection_made(self, transport):
        super().connection_made(transport)
        keep_alive(transport, self.daemon.time_scale)
        self.daemon.incoming.add(self)

    def connection_lost(self, exc):
        self.transport = None
        self.daemon.incoming.discard(self)

    def line(self, words):
        if words[0] == "HELLO" and len(words) == 6:
            hello = model.Hello(*words[1:])
            self.peer_address = hello.address
            self.daemon.said_hello(self, hello)
        elif words[0] == "BYE":
            self.daemon.said_bye(self.peer_address)
        elif words[0] == "BEAT":
            self.daemon.beats_in += 1
        else:
            self.close()


class Outgoing(_Lines):
    """The daemon's own connection to one node."""

    def __init__(self, daemon, peer):
        super().__init__(daemon)
        self.peer = peer
        self.welcome = False

    def connection_made(self, transport):
        super().connection_made(transport)
        keep_alive(transport, self.daemon.time_scale)
        self.send("HELLO", *self.daemon.own_hello(self.peer))

    def connection_lost(self, exc):
        self.transport = None
        self.daemon.link_ended(self)

    def line(self, words):
        if words[0] == "WELCOME" and len(words) == 7 and not self.welcome:
            self.welcome = True
            self.daemon.was_welcomed(self, words[1], model.Hello(*words[2:]))
        elif words[0] == "BYE":
            self.daemon.said_bye(self.daemon.model.addresses[self.peer])
        else:
            self.close()


class Command(_Lines):
    """The command service: one request, one answer, end."""

    def line(self, words):
        self.daemon.answer(self, words[0])
        self.close()

    def connection_made(self, transport):
        super().connection_made(transport)
        self.daemon.commands.add(self)

    def connection_lost(self, exc):
        self.transport = None
        self.daemon.commands.discard(self)


def keep_alive(transport, time_scale):
    """Let the kernel find out that a peer fell silent (a cut cable sends no FIN), without a wake-up here."""
    sock = transport.get_extra_info("socket")
    total = max(3.0, rules.SILENT_PEER_SECONDS * time_scale)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(total / 2)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(total / 6)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(total * 1000))


class Daemon:
    """One running nvidia-imex.

    ``prepare`` opens everything and listens, ``run`` connects and brings the node to READY, ``stop`` ends it in order,
    ``kill`` as SIGKILL would. All in one event loop.
    """

    def __init__(self, config_path, port=None, nogpu=False):
        self.config_path = config_path
        self.nogpu = nogpu
        self.settings_path = settings.find(config_path)
        self.settings_seen = settings_stamp(self.settings_path)
        self.settings = settings.load(self.settings_path)
        with open(config_path, encoding="utf-8", errors="replace") as f:
            self.config = rules.parse_config(f.read())
        self.port = int(self.config["SERVER_PORT"]) if port is None else port
        self.time_scale = float(self.settings.time_scale)
        self.version = self.settings.fault("wrong_version") or self.settings.version
        self.rules = rules.VersionRules(self.settings.version)
        self.run_dir = self.settings.run_dir or rules.RUN_DIR
        self.persist_path = os.path.join(self.run_dir, rules.PERSIST_NAME)
        self.instance = uuid.uuid4().hex
        self.log = None
        self.model = None
        self.listener = self.command_listener = self.unix_listener = None
        self.incoming, self.commands, self.tasks = set(), set(), set()
        self.links = {}
        self.timers = {}
        self.lock = None
        self.beats_in = self.beats_out = 0
        self.errors_applied = 0
        self.torn = False
        self.last_reconnect = None
        self.awaiting = None
        self.stopping = False
        self.ready = False

    # --- start --------------------------------------------------------------------------------------------------------

    async def prepare(self):
        """Everything up to the open listener. Raises StartError."""
        self.loop = asyncio.get_running_loop()
        self.log = logs.MainLog(self.config, self.rules, self.settings.log_megabyte)
        self.log.banner(self.settings.version, self.port, self.nogpu)
        forced = self.settings.fault("exit_at_start")
        if forced:
            forced = forced if isinstance(forced, dict) else {"code": int(forced)}
            self.log.write("ERROR", forced.get("text", "Initialization failed"))
            raise StartError(int(forced.get("code", rules.START_FAILED)))
        nodes = self.read_nodes()
        identity = addresses.own_id(nodes, self.config["BIND_INTERFACE_IP"], self.settings.local_addresses)
        if identity is None:
            path = self.config["IMEX_NODE_CONFIG_FILE"]
            self.log.write("ERROR", rules.NO_OWN_ADDRESS.format(path=path, addresses=", ".join(nodes)))
            raise StartError
        own_id, address, interface = identity
        text = rules.IDENTIFIED_BY_IP if rules.is_address(nodes[own_id]) else rules.IDENTIFIED_BY_NAME
        bind = address if rules.is_address(nodes[own_id]) else nodes[own_id]
        self.log.write("INFO", text.format(id=own_id, address=bind, interface=interface))
        auth = self.config["IMEX_ENABLE_AUTH_ENCRYPTION"]
        if auth == "1":
            auth = self.config["IMEX_AUTH_ENCRYPTION_MODE"]
            if auth not in ("SSL_TLS", "GSS_AUTH_ENCRYPT", "GSS_AUTH_ONLY"):  # observed: prevents the start
                self.log.write("ERROR", f"Unexpected value '{auth}' of IMEX_AUTH_ENCRYPTION_MODE")
                raise StartError
        version = "NO_GPU" if self.nogpu else self.version
        grace = float(self.config["IMEX_NODE_DISCONNECTED_GRACE_TIME"] or -1)
        self.model = model.NodeModel(
            nodes, own_id, version, auth, self.instance, self.port, grace=grace, time_scale=self.time_scale
        )
        self.awaited_importers()
        if not self.nogpu:
            self.check_driver()
            self.lock_session()
        if self.settings.fault("hang_start"):
            await asyncio.Event().wait()
        for i in range(3):
            self.log.write("INFO", rules.PROCESSING, tid=os.getpid() + 1 + i)
        await self.open_listener(address)
        await self.open_commands()

    def read_nodes(self):
        path = self.config["IMEX_NODE_CONFIG_FILE"]
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                nodes = rules.parse_nodes(f.read())
        except OSError as e:
            self.log.write("ERROR", rules.NO_NODES_CONFIG.format(path=path))
            raise StartError from e
        if not nodes:
            self.log.write("ERROR", rules.EMPTY_NODES.format(path=path))
            raise StartError
        for entry in nodes:
            if not rules.is_address(entry):
                if not self.rules.host_names:
                    self.log.write("ERROR", rules.NAMES_NOT_SUPPORTED.format(entry=entry, path=path))
                    raise StartError
                self.log.write("INFO", rules.HOST_NAME_ENTRY.format(entry=entry))
        return nodes

    def check_driver(self):
        # observed: the daemon compares its version with the loaded driver and aborts
        if self.settings.driver_version != self.settings.version:
            text = rules.VERSION_DIFFERS.format(version=self.settings.version, driver=self.settings.driver_version)
            self.log.write("ERROR", text)
            raise StartError
        self.log.write("INFO", rules.VERSION_MATCHED)

    def lock_session(self):
        """observed: one daemon per host kernel, a second gets NV_ERR_IN_USE. inferred: here a lock in the run directory."""
        try:
            os.makedirs(self.run_dir, exist_ok=True)
            self.lock = open(os.path.join(self.run_dir, rules.SESSION_LOCK_NAME), "w")  # noqa: SIM115
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            self.log.write("ERROR", rules.SESSION_IN_USE)
            raise StartError from e
        except OSError as e:
            self.log.write("ERROR", f"Cannot use {self.run_dir}: {e.strerror}")
            raise StartError from e

    def awaited_importers(self):
        """observed: persist.dat holds a key derived from the nodes file and one line per importer; another key voids it."""
        try:
            with open(self.persist_path, encoding="utf-8") as f:
                lines = f.read().splitlines()
        except OSError:
            self.log.write("INFO", rules.NO_PERSIST_FILE.format(path=self.persist_path))
            return
        if not lines or lines[0] != self.model.digest or self.config["IMEX_WAIT_FOR_QUORUM"] == "NONE":
            return
        for line in lines[1:]:
            address = line.partition(": ")[2]
            if address in self.model.ids and self.model.ids[address] != self.model.own_id:
                self.model.awaited.add(self.model.ids[address])

    def write_persist(self, importers):
        """inferred: the exact form; observed is "Node #: ip"."""
        lines = [self.model.digest]
        for who in importers:
            node_id = self.model.ids.get(who) if isinstance(who, str) and not who.isdigit() else int(who)
            if node_id is not None and node_id < len(self.model.addresses):
                lines.append(f"Node {node_id}: {self.model.addresses[node_id]}")
        try:
            os.makedirs(self.run_dir, exist_ok=True)
            temporary = self.persist_path + ".tmp"
            with open(temporary, "w", encoding="utf-8") as f:
                f.write("\n".join(lines) + "\n")
            os.replace(temporary, self.persist_path)
        except OSError as e:
            self.log.write("WARNING", f"Failed to write {self.persist_path}: {e.strerror}")

    async def open_listener(self, address=None):
        if address is not None:
            self.bind_address = address
        if self.settings.fault("peer_port_closed"):
            return
        self.listener = await self.listen(Incoming, self.bind_address, self.port, "gRPC server")

    async def open_commands(self):
        c = self.config
        if c["IMEX_CMD_ENABLED"] != "1" or self.settings.fault("cmd_port_closed"):
            return
        host = c["IMEX_CMD_BIND_INTERFACE_IP"]
        path = c["IMEX_CMD_UNIX_DOMAIN_PATH"]
        port = int(c["IMEX_CMD_PORT"])
        self.command_listener = await self.listen(Command, host, port, "command service")
        if path:
            try:
                os.unlink(path)
            except OSError:
                pass
            try:
                self.unix_listener = await self.loop.create_unix_server(lambda: Command(self), path)
            except OSError as e:
                self.log.write(
                    "ERROR", rules.CANNOT_BIND.format(service="command service", address="unix", port=path, reason=e)
                )
                raise StartError from e

    async def listen(self, protocol, address, port, service):
        """inferred: an empty address means all IPv4 interfaces (570 may listen on [::])."""
        try:
            return await self.loop.create_server(
                lambda: protocol(self), address or "0.0.0.0", port, reuse_address=True, backlog=512
            )
        except OSError as e:
            reason = os.strerror(e.errno) if e.errno else str(e)
            text = rules.CANNOT_BIND.format(service=service, address=address or "0.0.0.0", port=port, reason=reason)
            self.log.write("ERROR", text)
            raise StartError from e

    async def run(self):
        """Connect, wait for what there is to wait for, become READY."""
        count = len(self.model.addresses)
        self.log.write("INFO", rules.CREATING_CHANNELS.format(count=count))
        self.log.write("INFO", rules.PROCESSING, tid=os.getpid() + 4)
        self.connect_due()
        if self.settings.settings_poll > 0:
            self.every("settings", self.settings.settings_poll, self.watch_settings)
        quorum = self.config["IMEX_WAIT_FOR_QUORUM"]
        if quorum == "FULL":  # inferred: as in the branches before 570
            self.model.state = rules.WAITING_FOR_PEERS
            self.log.write("INFO", rules.WAITING_PEERS)
            await self.wait_until(self.model.all_connected)
        else:
            self.log.write("INFO", rules.NO_FULL_QUORUM)
        if self.model.awaited:
            self.model.state = rules.WAITING_FOR_RECOVERY
            awaited = ", ".join(self.model.addresses[i] for i in sorted(self.model.awaited))
            self.log.write("INFO", rules.WAITING_RECOVERY.format(addresses=awaited))
            await self.wait_until(self.model.recovered)
            self.log.write("INFO", rules.RECOVERED)
        self.model.state = rules.INIT_GPU
        if not self.nogpu:
            self.log.write("INFO", rules.GPU_SUBSCRIBED)
        seconds = self.settings.fault("init_seconds")
        if seconds:
            await asyncio.sleep(float(seconds))
        if self.settings.fault("never_ready"):
            await asyncio.Event().wait()
        self.model.state = rules.READY
        self.write_persist(self.settings.importers)
        self.inject_errors()
        interval = rules.STATS_INTERVAL if self.settings.stats_interval is None else float(self.settings.stats_interval)
        if interval > 0:
            self.every("stats", interval, self.write_stats)
        beat = self.settings.heartbeat_interval
        beat = rules.HEARTBEAT_INTERVAL * self.time_scale if beat is None else float(beat)
        if beat > 0:
            self.every("heartbeat", max(0.05, beat), self.send_heartbeats)
        self.arm_crash()
        self.ready = True

    async def wait_until(self, condition):
        """Sleep until ``condition()`` holds; looked at after each connection."""
        while not condition():
            self.awaiting = self.loop.create_future()
            await self.awaiting
            self.awaiting = None

    # --- timers -------------------------------------------------------------------------------------------------------

    def every(self, name, seconds, function):
        def again():
            self.timers[name] = self.loop.call_later(seconds, again)
            function()

        self.timers[name] = self.loop.call_later(seconds, again)

    def reschedule(self):
        """One timer for the next retry or the next end of a grace time."""
        old = self.timers.pop("due", None)
        if old:
            old.cancel()
        due = self.model.next_due()
        if due is not None and not self.stopping:
            self.timers["due"] = self.loop.call_at(due, self.connect_due)

    def connect_due(self):
        if self.stopping:
            return
        now = self.loop.time()
        self.apply(self.model.tick(now))
        chosen, effects = self.model.due(now)
        self.apply(effects)
        for peer in chosen:
            self.spawn(self.connect(peer))
        self.reschedule()

    def spawn(self, coroutine):
        task = self.loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # --- connections --------------------------------------------------------------------------------------------------

    def isolated(self, address):
        """Fault: links from and to these addresses are cut (``true``: all but the own)."""
        cut = self.settings.fault("isolate")
        if not cut or address == self.model.addresses[self.model.own_id]:
            return False
        return cut is True or address in cut

    async def connect(self, peer):
        address = self.model.addresses[peer]
        link = Outgoing(self, peer)
        self.links[peer] = link
        try:
            if self.isolated(address):
                raise ConnectionRefusedError("isolated")
            source = None if address == "0.0.0.0" or ":" in address else self.source_address()
            await asyncio.wait_for(
                self.loop.create_connection(lambda: link, address, self.port, local_addr=source), timeout=10
            )
        except (OSError, asyncio.TimeoutError) as e:
            self.log.debug(f"connection to node {peer} failed: {e}")
            if self.links.get(peer) is link:
                del self.links[peer]
                self.model.connect_failed(peer, self.loop.time())
                self.reschedule()

    def source_address(self):
        """Connections come from the own address, so that a firewall rule or a cut by address meets them."""
        return (self.bind_address, 0) if self.bind_address.startswith("127.") else None

    def own_hello(self, peer):
        hello = self.model.hello()
        if self.settings.fault("node_map_mismatch") and peer != self.model.own_id:
            hello = hello._replace(digest="0" * 64)
        return hello

    def said_hello(self, link, theirs):
        if self.isolated(theirs.address) or self.stopping:
            link.abort()
            return
        now, wall = self.loop.time(), time.time()
        verdict, effects = self.model.judge(theirs, now, wall, self.settings.reconnect_on_incoming)
        own = self.own_hello(self.model.ids.get(theirs.address))
        if verdict == model.ACCEPTED and own.digest != theirs.digest and theirs.address != own.address:
            verdict = model.BAD_MAP
        link.send("WELCOME", verdict, *own)
        self.apply(effects)
        self.reschedule()

    def was_welcomed(self, link, verdict, theirs):
        if self.links.get(link.peer) is not link:
            link.close()
            return
        if verdict != model.ACCEPTED:
            del self.links[link.peer]
            link.close()
        self.apply(self.model.welcomed(link.peer, verdict, theirs, self.loop.time(), time.time()))
        self.reschedule()
        if self.awaiting is not None and not self.awaiting.done():
            self.awaiting.set_result(None)

    def said_bye(self, address):
        peer = self.model.ids.get(address)
        if peer is not None and peer != self.model.own_id:
            self.apply(self.model.peer_shut_down(peer, self.loop.time()))
            self.reschedule()

    def link_ended(self, link):
        if self.links.get(link.peer) is not link or self.stopping:
            return
        del self.links[link.peer]
        if link.welcome:
            self.apply(self.model.lost(link.peer, self.loop.time(), time.time()))
        else:
            self.model.connect_failed(link.peer, self.loop.time())
        self.reschedule()

    def apply(self, effects):
        reconnect = False
        for effect in effects:
            if isinstance(effect, model.Log):
                self.log.write(effect.level, effect.text)
            elif isinstance(effect, model.Close):
                link = self.links.pop(effect.peer, None)
                if link is not None:
                    link.close()
            elif isinstance(effect, model.Reconnect):
                reconnect = True
        if reconnect:
            self.loop.call_soon(self.connect_due)

    def send_heartbeats(self):
        for link in self.links.values():
            if link.welcome:
                link.send("BEAT")
                self.beats_out += 1

    # --- command service ----------------------------------------------------------------------------------------------

    def reported_state(self):
        return self.settings.fault("report_state") or self.model.state

    def answer(self, link, request):
        write = link.transport.write
        if request == "STATE":
            write(encode(self.reported_state()))
        elif request == "STATUS":
            host_name = self.settings.hostname or socket.gethostname()
            words = self.settings.fault("report_connections") or {}
            parts = [
                encode("state", self.reported_state()),
                encode("version", self.model.version),
                encode("hostname", host_name),
            ]
            parts += [encode("peer", str(i), address, words.get(str(i), word)) for i, address, word in self.model.row()]
            write(b"".join(parts) + b"end\n")
        elif request == "ERRORS":
            write((json.dumps({"error_counters": self.model.errors.as_record()}, indent=1) + "\n").encode())
        elif request.startswith("EVENTS "):
            for event in self.model.errors.events[int(request[7:] or 0) :]:
                write(f"{event.number}\t{json.dumps(model.event_record(event))}\n".encode())

    # --- settings while running ---------------------------------------------------------------------------------------

    def watch_settings(self):
        seen = settings_stamp(self.settings_path)
        if seen == self.settings_seen:
            return
        self.settings_seen = seen
        old = self.settings
        try:
            self.settings = settings.load(self.settings_path)
        except settings.SettingsError as e:
            self.log.write("WARNING", f"simulator settings: {e}")
            return
        if self.settings.importers != old.importers and self.model.state == rules.READY:
            self.write_persist(self.settings.importers)
        if self.model.state == rules.READY:
            self.inject_errors()
        if self.settings.fault("crash_after") != old.fault("crash_after"):
            self.arm_crash()
        self.spawn(self.apply_port_faults())
        if self.settings.fault("isolate") != old.fault("isolate"):
            self.apply_isolation()

    async def apply_port_faults(self):
        closed = bool(self.settings.fault("cmd_port_closed"))
        try:
            if closed and self.command_listener is not None:
                self.command_listener.close()
                self.command_listener = None
                if self.unix_listener is not None:
                    self.unix_listener.close()
                    self.unix_listener = None
            elif not closed and self.command_listener is None:
                await self.open_commands()
            closed = bool(self.settings.fault("peer_port_closed"))
            if closed and self.listener is not None:
                self.listener.close()
                self.listener = None
            elif not closed and self.listener is None:
                await self.open_listener()
        except StartError:
            pass  # logged; the port was taken meanwhile

    def apply_isolation(self):
        for link in list(self.incoming):
            if link.peer_address is not None and self.isolated(link.peer_address):
                link.abort()
        for peer, link in list(self.links.items()):
            if self.isolated(self.model.addresses[peer]):
                link.abort()
        for peer, state in enumerate(self.model.peers):
            if state.due is not None and not self.isolated(self.model.addresses[peer]):
                state.due = min(state.due, self.loop.time())
        self.connect_due()

    def inject_errors(self):
        """Entries of ``inject_errors`` beyond those already counted; a shorter list starts over."""
        entries = self.settings.inject_errors
        if len(entries) < self.errors_applied:
            self.errors_applied = 0
        for entry in entries[self.errors_applied :]:
            self.model.errors.add(
                entry.get("operation", "import"),
                int(entry.get("code", 1)),
                int(entry.get("node_id", 0)),
                time.time(),
                count=int(entry.get("count", 1)),
                description=entry.get("description", ""),
                driver_error=entry.get("driver_error", ""),
                per_node=entry.get("per_node", True),
            )
        self.errors_applied = len(entries)

    def arm_crash(self):
        timer = self.timers.pop("crash", None)
        if timer:
            timer.cancel()
        seconds = self.settings.fault("crash_after")
        if seconds is not None and self.model.state == rules.READY:
            self.timers["crash"] = self.loop.call_later(float(seconds), self.crash)

    def crash(self):
        """As SIGKILL would; a process of its own dies, a cluster node is cut off."""
        os.kill(os.getpid(), signal.SIGKILL)

    # --- statistics ---------------------------------------------------------------------------------------------------

    def write_stats(self):
        interval = rules.STATS_INTERVAL if self.settings.stats_interval is None else float(self.settings.stats_interval)
        incoming = {"Heartbeat": logs.message_stats(self.beats_in, 0.01)} if self.beats_in else {}
        self.beats_in = self.beats_out = 0
        wanted = self.settings.error_fields
        errors = None
        if self.rules.error_fields if wanted is None else wanted:
            errors = self.model.errors.as_record(), self.model.errors.take_window()
        seconds = max(1, round(interval))
        text = logs.stats_record(seconds, incoming, {}, self.settings.statistics, errors)
        if self.settings.fault("torn_record"):
            text = text[: len(text) * 3 // 5]
            self.torn = True
        elif self.torn:  # what follows a torn record starts on a line of its own
            text = "\n" + text
            self.torn = False
        self.log.stats.write(text)

    # --- signals and end ----------------------------------------------------------------------------------------------

    def reconnect(self):
        """SIGUSR1. observed: credentials reloaded, peers told, outgoing connections restarted, at most once in 5 s."""
        now = self.loop.time()
        least = rules.RECONNECT_MIN_INTERVAL * self.time_scale
        if self.last_reconnect is not None and now - self.last_reconnect < least:
            return
        self.last_reconnect = now
        self.log.write("INFO", "Received SIGUSR1, restarting all outgoing connections")
        self.apply(self.model.reconnect_all(now))

    async def stop(self, why="SIGTERM"):
        """Orderly shutdown: peers are told, persist.dat keeps only its key."""
        if self.stopping:
            return
        self.stopping = True
        if self.log is not None:
            self.log.write("INFO", rules.SHUTDOWN.format(signal=why))
        was_ready = self.ready
        if self.model is not None:
            self.model.state = rules.SHUTTING_DOWN
            slow = self.settings.fault("slow_stop")
            if slow:
                await asyncio.sleep(float(slow))
            for link in [*self.links.values(), *self.incoming]:
                link.send("BYE")
        await self.close(abort=False)
        if was_ready:
            self.write_persist([])
        if self.log is not None:
            self.log.dump_verbose()
            self.log.close()

    async def kill(self):
        """End without a word to anybody, as SIGKILL would."""
        self.stopping = True
        await self.close(abort=True)
        if self.log is not None:
            self.log.close()

    async def close(self, abort):
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()
        for listener in (self.listener, self.command_listener, self.unix_listener):
            if listener is not None:
                listener.close()
        if self.unix_listener is not None:
            try:
                os.unlink(self.config["IMEX_CMD_UNIX_DOMAIN_PATH"])
            except OSError:
                pass
        for link in [*self.links.values(), *self.incoming, *self.commands]:
            if abort:
                link.abort()
            else:
                link.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.sleep(0)
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def settings_stamp(path):
    """Changes whenever the settings file does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# --- the program ------------------------------------------------------------------------------------------------------


async def _serve(daemon, on_ready):
    loop = asyncio.get_running_loop()
    stop = loop.create_future()

    def ask_stop(name):
        if daemon.settings.fault("ignore_sigterm"):
            return
        if not stop.done():
            stop.set_result(name)

    for name in ("SIGTERM", "SIGINT", "SIGQUIT"):
        loop.add_signal_handler(getattr(signal, name), ask_stop, name)
    loop.add_signal_handler(signal.SIGHUP, lambda: daemon.log and daemon.log.dump_verbose())
    loop.add_signal_handler(signal.SIGUSR1, lambda: daemon.ready and daemon.reconnect())

    async def start():
        await daemon.prepare()
        await daemon.run()
        if not daemon.settings.fault("never_return"):
            on_ready()

    starting = loop.create_task(start())
    await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is not None:
        try:
            starting.result()
        except StartError as e:
            await daemon.close(abort=True)
            return e.status
    name = await stop
    starting.cancel()
    await daemon.stop(name)
    return 0


def _tell_service_manager(suffix, value):
    """The stand-in for systemctl cannot ask the kernel for the processes of a unit, so it is told (see bin/systemctl)."""
    path = os.environ.get(PID_FILE_ENVIRONMENT)
    if path:
        with open(path + suffix + ".tmp", "w", encoding="ascii") as f:
            f.write(f"{value}\n")
        os.replace(path + suffix + ".tmp", path + suffix)


def _usage(program):
    # inferred: the real text is not published; the options are
    return (
        f"Usage: {program} [-c <config file>] [-p|--port <port>] [--nogpu] [--version] [--help]\n"
        f"  -c <path>        configuration file, default {rules.CONFIG_PATH}\n"
        "  -p, --port <n>   use this port instead of SERVER_PORT\n"
        "  --nogpu          run without a GPU driver\n"
        "  --version        print the version\n"
        "  --help           print this text\n"
    )


def _parse(argv):
    """(config path, port, nogpu, action) or None for a wrong command line."""
    path, port, nogpu, action = rules.CONFIG_PATH, None, False, "run"
    words = iter(argv)
    for word in words:
        try:
            if word == "-c":
                path = next(words)
            elif word in ("-p", "--port"):
                port = int(next(words))
            elif word in ("--nogpu", "-nogpu"):
                nogpu = True
            elif word in ("--version", "--help"):
                action = word[2:]
            else:
                return None
        except (StopIteration, ValueError):
            return None
    return path, port, nogpu, action


def _serve_child(daemon, pipe):
    """The whole life of the daemon in the forked child (or in the foreground, ``pipe`` None)."""
    reported = []

    def report(status):
        if pipe is not None and not reported:
            os.write(pipe, b"%d\n" % status)
            os.close(pipe)
        reported.append(status)

    def on_ready():
        if pipe is not None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            if not daemon.log.file.on_stderr and not daemon.log.stats.on_stderr:
                os.dup2(null, 2)
            os.close(null)
        report(0)

    _tell_service_manager("", os.getpid())
    status = asyncio.run(_serve(daemon, on_ready))
    _tell_service_manager(".exit", status)
    report(status)
    return status


def main(argv):
    parsed = _parse(argv)
    if parsed is None:
        sys.stderr.write(_usage("nvidia-imex"))
        return 1
    path, port, nogpu, action = parsed
    if action == "help":
        sys.stdout.write(_usage("nvidia-imex"))
        return 0
    try:
        conf = settings.load(settings.find(path))
        if action == "version":
            print(rules.VERSION_LINE.format(version=conf.version))
            return 0
        if nogpu and not rules.VersionRules(conf.version).nogpu:
            sys.stderr.write(_usage("nvidia-imex"))
            return 1
        daemon = Daemon(path, port, nogpu)
    except settings.SettingsError as e:
        sys.stderr.write(f"nvidia-imex (simulator): {e}\n")
        return 1
    except OSError:
        sys.stderr.write(rules.NO_CONFIG.format(path=path) + "\n")
        return rules.START_FAILED
    except ValueError as e:
        sys.stderr.write(f"Invalid value in {path}: {e}\n")
        return rules.START_FAILED
    if daemon.config["DAEMONIZE"] == "0":
        return _serve_child(daemon, None)
    reader, writer = os.pipe()
    if os.fork():
        # observed: Type=forking, and the start hangs while the daemon waits: the parent waits for the initialisation
        os.close(writer)
        with os.fdopen(reader) as f:
            line = f.readline()
        return int(line) if line else rules.START_FAILED
    os.close(reader)
    os.setsid()
    status = 1
    try:
        status = _serve_child(daemon, writer)
    finally:
        os._exit(status)
