# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-imex-ctl: asks the command service of one daemon (-q) or of every node of the local nodes file (-N, -n).

Started very often, so it goes without ``socket`` (which costs as much as the interpreter's own start) and without ``json``.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import sys
import time

from imex_simulator import rules, settings

_ANSWER_LIMIT = 1 << 22


class _UsageError(Exception):
    pass


class _ExitError(Exception):
    def __init__(self, status, text="", stream=None):
        super().__init__(text)
        self.status, self.text, self.stream = status, text, stream


class _Query:
    """One request to one command service, driven by poll()."""

    __slots__ = ("answer", "error", "failed", "pending", "sock")

    def __init__(self, target, request):
        """``target``: (family, sockaddr), or an OSError when the name has no address."""
        self.answer = b""
        self.failed = None
        self.pending = request
        self.sock = None
        if isinstance(target, OSError):
            self.failed = target
            return
        self.sock = _socket.socket(target[0], _socket.SOCK_STREAM)
        self.sock.setblocking(False)
        try:
            self.sock.connect(target[1])
        except BlockingIOError:
            pass
        except OSError as e:
            self.fail(e)

    def fail(self, error):
        self.failed = error
        self.close()

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def ready(self, mask):
        try:
            if self.pending is not None:
                code = self.sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                self.sock.send(self.pending)
                self.pending = None
                return
            data = self.sock.recv(65536)
            self.answer += data
            if not data or len(self.answer) > _ANSWER_LIMIT:
                self.close()
        except BlockingIOError:
            pass
        except OSError as e:
            self.fail(e)


def _run(queries, connect_timeout, answer_timeout):
    """Drive all queries at once; a query that is too slow gets an ETIMEDOUT."""
    poller = select.poll()
    by_fd = {}
    for query in queries:
        if query.sock is not None:
            by_fd[query.sock.fileno()] = query
            poller.register(query.sock.fileno(), select.POLLOUT)
    start = time.monotonic()
    while by_fd:
        waiting = any(q.pending is not None for q in by_fd.values())
        left = start + (connect_timeout if waiting else answer_timeout) - time.monotonic()
        events = poller.poll(max(0.0, left) * 1000) if left > 0 else []
        for fd, mask in events:
            query = by_fd[fd]
            query.ready(mask)
            if query.sock is None:
                poller.unregister(fd)
                del by_fd[fd]
            elif query.pending is None:
                poller.modify(fd, select.POLLIN)
        if not events and left <= 0:
            for fd, query in list(by_fd.items()):
                if query.pending is not None or not waiting:
                    poller.unregister(fd)
                    query.fail(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
                    del by_fd[fd]


def _target(host, port):
    if rules.is_address(host):
        return (_socket.AF_INET6 if ":" in host else _socket.AF_INET), (host, port)
    try:
        entry = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
    except OSError as e:
        return e
    return entry[0], entry[4]


def _parse_answer(answer):
    """Fields of a STATUS answer, or None when it is not whole: (state, version, host name, [(id, host, word)])."""
    lines = answer.decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or lines[-2] != "end":
        return None
    fields, row = {}, []
    for line in lines[:-2]:
        words = line.split("\t")
        if words[0] == "peer" and len(words) == 4:
            row.append((int(words[1]), words[2], words[3]))
        elif len(words) == 2:
            fields[words[0]] = words[1]
    return fields.get("state", ""), fields.get("version", ""), fields.get("hostname", ""), row


def _quote(text):
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text)


def _shuffled(ids):
    """Ids in a random order, as a protobuf map has (string hashes differ from process to process)."""
    return sorted(ids, key=lambda i: hash(f"node {i}"))


class Control:
    def __init__(self, options):
        self.options = options
        self.config_path = options.get("c") or rules.CONFIG_PATH
        self.settings = settings.load(settings.find(self.config_path))
        self.rules = rules.VersionRules(self.settings.version)
        self.config = None
        self.last = None

    def read_config(self):
        if self.config is None:
            try:
                with open(self.config_path, encoding="utf-8", errors="replace") as f:
                    self.config = rules.parse_config(f.read())
            except OSError as e:
                text = rules.NO_CONFIG.format(path=self.config_path) + "\n" + self.rules.usage
                raise _ExitError(rules.CTL_USAGE_STATUS, text) from e
        return self.config

    def read_nodes(self):
        path = self.read_config()["IMEX_NODE_CONFIG_FILE"]
        text = rules.NO_NODES_CONFIG.format(path=path) + "\n"
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                nodes = rules.parse_nodes(f.read())
        except OSError as e:
            raise _ExitError(rules.CTL_NODES_FILE_STATUS, text, sys.stderr) from e
        if not nodes:  # inferred: a file without nodes is as good as none
            raise _ExitError(rules.CTL_NODES_FILE_STATUS, text, sys.stderr)
        return nodes

    # --- the local daemon ---------------------------------------------------------------------------------------------

    def local_target(self):
        if "i" in self.options:
            host, port = self.options["i"]
            return _target(host, port), f"ipv4:{host}:{port}"
        path = self.options.get("u")
        if not path:
            config = self.read_config()
            host = config["IMEX_CMD_BIND_INTERFACE_IP"]
            path = config["IMEX_CMD_UNIX_DOMAIN_PATH"]
            if host or not path:  # inferred: TCP first, the unix socket where there is no TCP address
                host = host or "127.0.0.1"
                port = _port(config["IMEX_CMD_PORT"])
                return _target(host, port), ("ipv6:[" + host + "]" if ":" in host else f"ipv4:{host}") + f":{port}"
        return (_socket.AF_UNIX, path), f"unix:{path}"

    def ask_local(self, request):
        target, name = self.local_target()
        query = _Query(target, request)
        _run([query], self.settings.ctl_connect_timeout, self.settings.ctl_answer_timeout)
        if query.failed is None and not query.answer:
            query.failed = OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if query.failed is not None:
            if self.settings.query_unavailable == "word":  # inferred: NVIDIA/DCGM knows this word, no sample has it
                raise _ExitError(0, rules.UNAVAILABLE + "\n")
            reason = query.failed.strerror or str(query.failed)
            text = rules.QUERY_FAILED.format(target=name, reason=reason) + "\n"
            raise _ExitError(rules.CTL_UNREACHABLE_STATUS, text, sys.stderr)
        return query.answer.decode("utf-8", "replace")

    def query(self):
        return self.ask_local(b"STATE\n")

    def errors(self):
        # inferred: the documentation names the command and says nothing of its output
        return self.ask_local(b"ERRORS\n")

    def follow_errors(self):
        # inferred: as errors(); one JSON object of error_details_last_window's shape a line, until the daemon ends
        seen = 0
        while True:
            text = self.ask_local(b"EVENTS %d\n" % seen)
            for line in text.splitlines():
                number, _tab, event = line.partition("\t")
                seen = int(number)
                _write(event + "\n")
            time.sleep(0.2)

    def subscribe(self):
        # observed: prints state changes and "Finishing subscription", -t milliseconds end it. inferred: the rest
        timeout = self.options.get("t")
        end = None if timeout is None else time.monotonic() + timeout / 1000
        last = None
        while end is None or time.monotonic() < end:
            try:
                state = self.ask_local(b"STATE\n")
            except _ExitError:
                if last is None:
                    raise
                break
            if state != last:
                _write(state)
                last = state
            time.sleep(0.05 if end is None else min(0.05, max(0.0, end - time.monotonic())))
        return "Finishing subscription\n"

    # --- the domain ---------------------------------------------------------------------------------------------------

    def listing(self):
        config = self.read_config()
        nodes = self.read_nodes()
        port = _port(config["IMEX_CMD_PORT"])
        queries = [_Query(_target(host, port), b"STATUS\n") for host in nodes]
        _run(queries, self.settings.ctl_connect_timeout, self.settings.ctl_answer_timeout)
        answers = [None if q.failed else _parse_answer(q.answer) for q in queries]
        rows = {i: (a[0], {peer: word for peer, _h, word in a[3]}) for i, a in enumerate(answers) if a}
        state = rules.domain_state(rows, range(len(nodes)))
        now = time.time()
        stamp = rules.short_stamp(time.localtime(now), int(now % 1 * 1000))
        previous, self.last = self.last, (answers, state)
        if "j" in self.options:
            return self.as_json(nodes, answers, previous and previous[0], stamp, state)
        return self.as_table(nodes, answers, rows, stamp, state)

    def as_table(self, nodes, answers, rows, stamp, state):
        r = self.rules
        own = None
        if r.own_mark:
            from imex_simulator import addresses

            own = addresses.own_id(nodes, self.config["BIND_INTERFACE_IP"], self.settings.local_addresses)
        out = [r.legend, stamp, "Nodes:"]
        for i, host in enumerate(nodes):
            answer = answers[i]
            status, version, name = answer[:3] if answer else (rules.UNAVAILABLE, "", "N/A")
            if answer is None and r.own_mark:
                name = self.name_of(host)
            is_local = own is not None and own[0] == i
            out.append(r.node_line(i, host, status, version, is_local, name if "H" in self.options else None))
        ids = range(len(nodes))
        out += ["", r.matrix_header(ids)]
        for i in ids:
            row = rows[i][1] if i in rows else {}
            # inferred: a pair that the node's own daemon does not know is shown as invalid
            words = [row.get(j, rules.INVALID) for j in ids]
            out.append(r.matrix_row(i, [rules.CELLS.get(word, word) for word in words]))
        if r.blank_before_state:
            out.append("")
        out.append(f"Domain State: {state}\n")
        return "\n".join(out)

    def name_of(self, host):
        # observed: 580.173.02 prints the name of an unreachable node as well. inferred: it comes from the resolver
        if rules.is_address(host):
            try:
                return _socket.getnameinfo((host, 0), _socket.NI_NAMEREQD)[0].split(".")[0]
            except OSError:
                return "N/A"
        return host

    def as_json(self, nodes, answers, previous, stamp, state):
        with_key = "H" in self.options or self.rules.host_name_key
        out = ["{", ' "nodes": {']
        order = _shuffled(range(len(nodes)))
        for position, i in enumerate(order):
            answer, before = answers[i], previous[i] if previous else None
            if answer:
                status, version, name, row = answer
            else:
                # observed: an unreachable node lists every node of the local file as INVALID, version "", hostName N/A
                status, version, name = rules.UNAVAILABLE, "", "N/A"
                row = [(j, host, rules.INVALID) for j, host in enumerate(nodes)]
            out += [f'  "{i}": {{', f'   "status": {_quote(status)},', f'   "host": {_quote(nodes[i])},']
            out.append('   "connections": {')
            words = {j: word for j, _host, word in before[3]} if before else {}
            cells = []
            hosts = {j: (host, word) for j, host, word in row}
            for j in _shuffled(hosts):
                host, word = hosts[j]
                changed = _changed(word, words.get(j) if previous else None, previous, word == rules.CONNECTED)
                cells.append(
                    f'    "{j}": {{\n     "host": {_quote(host)},\n     "status": {_quote(word)},\n'
                    f'     "changed": {changed}\n    }}'
                )
            out.append(",\n".join(cells))
            out.append("   },")
            old = (before[0] if before else rules.UNAVAILABLE) if previous else None
            out.append(f'   "changed": {_changed(status, old, previous, status == rules.READY)},')
            # observed: 570.172.08 has no hostName; 580.30 prints it empty without -H. inferred: its place, last
            out.append(f'   "version": {_quote(version)}' + ("," if with_key else ""))
            if with_key:
                out.append(f'   "hostName": {_quote(name if "H" in self.options else "")}')
            out.append("  }" + ("," if position + 1 < len(order) else ""))
        out += [" },", f' "timestamp": "{stamp}",', f' "status": "{state}"', "}\n"]
        return "\n".join(out)


def _changed(now, before, previous, first):
    """observed: true for READY and CONNECTED, else false. inferred: against the listing before, with -n."""
    return "true" if (now != before if previous else first) else "false"


def _port(text):
    return int(text) if text.isdigit() else 0


def _write(text, stream=None):
    stream = stream or sys.stdout
    stream.write(text)
    stream.flush()


def _parse(argv, options):
    """Fill ``options`` by letter. Raises _UsageError for what no version has."""
    words = iter(argv)
    for word in words:
        try:
            if word in ("-c", "-u"):
                options[word[1]] = next(words)
            elif word == "-i":
                options["i"] = next(words), int(next(words))
            elif word == "-t":
                options["t"] = int(next(words))
            elif word in ("--get_error_counters", "--subscribe_error_events"):
                options[word[2:]] = True
            elif len(word) > 1 and word[0] == "-" and set(word[1:]) <= set("qNnjHsh"):
                for letter in word[1:]:  # inferred: letters can be joined
                    options[letter] = True
            else:
                raise _UsageError
        except (StopIteration, ValueError) as e:
            raise _UsageError from e


def _allowed(options, r, conf):
    """inferred: an option that the version does not have is answered with the usage text."""
    if len({"c", "i", "u"} & set(options)) > 1 or "h" in options:
        return False
    if ("i" in options and not r.option_i) or ("u" in options and not r.option_u):
        return False
    if "s" in options and not r.option_s:
        return False
    if ("get_error_counters" in options or "subscribe_error_events" in options) and not (
        r.error_commands if conf.error_commands is None else conf.error_commands
    ):
        return False
    actions = {"q", "N", "n", "s", "get_error_counters", "subscribe_error_events"} & set(options)
    if not actions and "H" in options and r.bare_host_option:
        options["N"] = True
        actions = {"N"}
    if len(actions) != 1:
        return False
    return not (actions & {"N", "n"} and ("i" in options or "u" in options))


def _monitor(control):
    # inferred: the framing of -n is not published; listings follow one another, a blank line between two
    pause = control.settings.monitor_interval or rules.MONITOR_INTERVAL
    while True:
        _write(control.listing())
        time.sleep(pause)
        _write("\n")


def _spoil(text, conf):
    """Faults that change what is printed."""
    lines = conf.fault("ctl_leading_log_lines")
    if lines:
        if not isinstance(lines, list):
            stamp = rules.log_stamp(time.localtime())
            one = rules.LOG_LINE.format(stamp=stamp, level="INFO", tid=os.getpid(), text="gRPC channel is ready")
            lines = [one] * int(lines)
        text = "".join(line + "\n" for line in lines) + text
    cut = conf.fault("ctl_truncated")
    if cut:
        text = text[: len(text) // 2 if cut is True else int(cut)]
    rubbish = conf.fault("ctl_rubbish")
    if rubbish:
        text = rubbish if isinstance(rubbish, str) else "\x00\x7fELF <garbage> }{][ \x1b[31m\n"
    return text


def main(argv):
    options = {}
    try:
        _parse(argv, options)
    except _UsageError:
        options["h"] = True
    try:
        control = Control(options)
        conf = control.settings
        if not _allowed(options, control.rules, conf):
            raise _ExitError(rules.CTL_USAGE_STATUS, control.rules.usage)
        delay = conf.fault("ctl_delay")
        if delay:
            time.sleep(float(delay))
        hang = conf.fault("ctl_hang")
        if hang:
            time.sleep(1e8 if hang is True else float(hang))
        forced = conf.fault("ctl_exit")
        if forced:
            forced = forced if isinstance(forced, dict) else {"code": int(forced)}
            raise _ExitError(int(forced.get("code", 1)), str(forced.get("text", "")), sys.stderr)
        if "n" in options:
            _monitor(control)
        if "s" in options:
            text = control.subscribe()
        elif "q" in options:
            text = control.query()
        elif "N" in options:
            text = control.listing()
        elif "get_error_counters" in options:
            text = control.errors()
        else:
            control.follow_errors()
            return 0
        _write(_spoil(text, conf))
        return 0
    except _ExitError as e:
        _write(e.text, e.stream)
        return e.status
    except settings.SettingsError as e:
        _write(f"nvidia-imex-ctl (simulator): {e}\n", sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        sys.stdout = None
        return 130
