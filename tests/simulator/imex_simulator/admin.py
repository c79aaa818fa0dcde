# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""imex-simulator: install the programs, build packages of them, run a cluster, switch faults."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from imex_simulator import rules, settings

PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "usr/lib/imex-simulator"

# observed: the keys, their order and their shipped values. The comments are this project's.
CONFIG_COMMENTS = {
    "LOG_LEVEL": "How much is logged: 0 nothing, 1 CRITICAL, 2 ERROR, 3 WARNING, 4 INFO, each with those before it.\nDefault: 4",
    "LOG_FILE_NAME": "The main log, a path of at most 256 characters. Empty or not to be opened: standard error.\n"
    "Default: /var/log/nvidia-imex.log",
    "STATS_FILE_NAME": "The statistics log. The name given to LOG_FILE_NAME puts both into one file.\n"
    "Default: /var/log/nvidia-imex-stats.log",
    "LOG_APPEND_TO_LOG": "What a start does with an old log: 0 overwrites it, 1 appends to it. Default: 1",
    "LOG_FILE_MAX_SIZE": "Largest size of one log file in MB. Default: 1024",
    "LOG_MAX_ROTATE_COUNT": "How many full log files are kept. With 0 logging ends when the file is full.",
    "LOG_USE_SYSLOG": "1 logs to syslog instead of the file. Default: 0",
    "DAEMONIZE": "1 runs in the background (Type=forking), 0 in the foreground (Type=simple). Default: 1",
    "BIND_INTERFACE_IP": "The address to listen on for peers, IPv4 or IPv6. Empty: the address of this host that stands in\n"
    "the node file.",
    "SERVER_PORT": "The port for peers, the same on every node; 0 to 65535. Default: 50000",
    "IMEX_NODE_CONFIG_FILE": "The file with the addresses of all nodes of the domain, one a line.\n"
    "Default: /etc/nvidia-imex/nodes_config.cfg",
    "NETWORK_INTERFACE": "Only for an IPv6 link-local address that several interfaces have: which one is meant.",
    "IMEX_WAIT_FOR_QUORUM": "What a start waits for. NONE: nothing. RECOVERY: after an unclean end, the nodes that had memory of\n"
    "this one imported. Default: RECOVERY",
    "IMEX_ENABLE_AUTH_ENCRYPTION": "1 turns authentication and encryption on. Default: 0",
    "IMEX_AUTH_ENCRYPTION_MODE": "SSL_TLS, GSS_AUTH_ENCRYPT or GSS_AUTH_ONLY. Default: SSL_TLS",
    "IMEX_AUTH_SOURCE": "How the next six values are read. FILE: as paths. ENV_PATH: as names of environment variables that\n"
    "hold paths. ENV_VAL: as names of environment variables that hold the contents.",
    "IMEX_SERVER_KEY": "Key, certificate and authority of the server side, then of the client side.",
    "IMEX_SECURITY_TARGET_OVERRIDE": "The host name to look for in certificates, as nodes are addressed by IP.",
    "IMEX_GSS_SERVICE_NAME": "Service part of the Kerberos principal. Default: host",
    "IMEX_GSS_TIMEOUT_SEC": "How long to try to authenticate, in seconds; -1 for ever. Default: -1",
    "IMEX_GSS_RETRY_INTERVAL_SEC": "Seconds between two tries. Default: 5",
    "IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC": "Life of a security context in seconds; -1: that of the credential. Default: -1",
    "IMEX_GSS_SHUTDOWN_ON_FAILURE": "After a failure of authentication: 1 ends the daemon, 0 gives that node up. Default: 1",
    "IMEX_CMD_ENABLED": "1 offers the command service that nvidia-imex-ctl talks to.",
    "IMEX_CMD_BIND_INTERFACE_IP": "Address of the command service. Empty: every interface.",
    "IMEX_CMD_PORT": "Port of the command service.",
    "IMEX_CMD_UNIX_DOMAIN_PATH": "Unix socket of the command service, when there is to be one.",
    "IMEX_NODE_DISCONNECTED_GRACE_TIME": "Seconds before the imports and exports of a lost node are cleaned up. -1: never, 0: at once.\n"
    "A node that comes back as a new instance is cleaned up in any case. Default: -1",
}


def stock_config(title=rules.CONFIG_PATH):
    """The config.cfg that a package ships."""
    out = [
        f"# {title}: settings of the IMEX daemon (simulator).",
        "# KEY=VALUE, no blanks around the sign; read once, at start.",
        "",
    ]
    for key, value in rules.CONFIG_DEFAULTS:
        comment = CONFIG_COMMENTS.get(key)
        if comment:
            if out[-1]:
                out.append("")
            out += ["# " + line for line in comment.splitlines()]
        out.append(f"{key}={value}")
    return "\n".join(out) + "\n"


# observed: settings of the vendor's unit (aws-parallelcluster-cookbook's copy)
UNIT = """\
[Unit]
Description=NVIDIA IMEX service
After=network-online.target
Requires=network-online.target

[Service]
Environment="KRB5_CLIENT_KTNAME=/etc/krb5.keytab"
User=root
PrivateTmp=false
Type=forking
TimeoutStartSec=infinity

ExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg

LimitCORE=infinity

Restart=on-failure
RestartSec=1s

[Install]
WantedBy=multi-user.target
"""

# observed: some packages enable and start the unit (aicr PR #2520, linux-system-roles/hpc PR #85).
# deb-systemd-invoke asks policy-rc.d. inferred: a failed start does not fail the installation.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v deb-systemd-helper >/dev/null; then
        deb-systemd-helper unmask nvidia-imex.service >/dev/null || true
        if deb-systemd-helper --quiet was-enabled nvidia-imex.service; then
            deb-systemd-helper enable nvidia-imex.service >/dev/null || true
        else
            deb-systemd-helper update-state nvidia-imex.service >/dev/null || true
        fi
    fi
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        if [ -n "$2" ]; then action=restart; else action=start; fi
        # the unit may wait for ever (TimeoutStartSec=infinity): a package must not
        timeout 20 deb-systemd-invoke $action nvidia-imex.service >/dev/null || true
    fi
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then
    deb-systemd-invoke stop nvidia-imex.service >/dev/null || true
fi
# or else dpkg leaves the directory behind
rm -rf /usr/lib/imex-simulator/imex_simulator/__pycache__
"""
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge nvidia-imex.service >/dev/null || true
fi
"""


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def install(root, version, programs=("nvidia-imex", "nvidia-imex-ctl", "nvidia-smi", "imex-simulator")):
    """Put the programs, the stock config.cfg and the unit under ``root``. No nodes_config.cfg, as no package has one."""
    here = os.path.dirname(PACKAGE_DIR)
    source = os.path.join(here, "bin")
    if not os.path.isdir(source):  # run from an installed copy
        source = os.path.join(os.path.dirname(os.path.dirname(here)), "bin")
    for program in programs:
        target = os.path.join(root, "usr/bin", program)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(source, program), target)
        os.chmod(target, 0o755)
    library = os.path.join(root, LIBRARY, "imex_simulator")
    os.makedirs(library, exist_ok=True)
    for name in sorted(os.listdir(PACKAGE_DIR)):
        if name.endswith(".py"):
            shutil.copyfile(os.path.join(PACKAGE_DIR, name), os.path.join(library, name))
            os.chmod(os.path.join(library, name), 0o644)
    write(os.path.join(root, LIBRARY, "version"), version + "\n")
    config = os.path.join(root, "etc/nvidia-imex/config.cfg")
    if not os.path.exists(config):
        write(config, stock_config())
    systemd = "lib/systemd/system" if os.path.isdir(os.path.join(root, "lib/systemd")) else "usr/lib/systemd/system"
    if not os.path.isdir(os.path.join(root, systemd)) and not os.path.lexists(os.path.join(root, "lib")):
        systemd = "lib/systemd/system"
    write(os.path.join(root, systemd, "nvidia-imex.service"), UNIT)
    os.makedirs(os.path.join(root, "var/log"), exist_ok=True)


def build_deb(version, name, out, provides="nvidia-imex"):
    """Build ``name``_``version``_all.deb in ``out``; the path."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"{name}_{version}_all.deb")
    with tempfile.TemporaryDirectory() as tree:
        os.chmod(tree, 0o755)
        install(tree, version.partition("-")[0], ("nvidia-imex", "nvidia-imex-ctl", "imex-simulator"))
        os.rmdir(os.path.join(tree, "var/log"))
        os.rmdir(os.path.join(tree, "var"))
        write(
            os.path.join(tree, "usr/share/doc", name, "copyright"),
            "GPL-3.0-or-later, hpc.fabric contributors. A simulator.\n",
        )
        relations = "" if name == provides else f"Provides: {provides}\nConflicts: {provides}\nReplaces: {provides}\n"
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nSection: utils\nPriority: optional\n"
            "Maintainer: hpc.fabric contributors <root@localhost>\n"
            f"Depends: python3 (>= 3.9), init-system-helpers\n{relations}"
            "Description: simulator of the NVIDIA IMEX daemon, for tests\n"
            " Programs that behave like the IMEX daemon and its control tool, without a GPU.\n"
        )
        write(os.path.join(tree, "DEBIAN/control"), control)
        write(os.path.join(tree, "DEBIAN/conffiles"), "/etc/nvidia-imex/config.cfg\n")
        for script, text in (("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)):
            write(os.path.join(tree, "DEBIAN", script), text, 0o755)
        subprocess.run(
            ["dpkg-deb", "-Zgzip", "--root-owner-group", "-b", tree, path], check=True, stdout=subprocess.DEVNULL
        )
    return path


def write_repository(directory):
    """Packages index of a directory of .deb files, for ``deb [trusted=yes] file:DIR ./``."""
    stanzas = []
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".deb"):
            continue
        path = os.path.join(directory, name)
        control = subprocess.run(["dpkg-deb", "-f", path], check=True, capture_output=True, text=True).stdout
        with open(path, "rb") as f:
            data = f.read()
        stanzas.append(
            f"{control.rstrip()}\nFilename: ./{name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    temporary = os.path.join(directory, "Packages.tmp")
    write(temporary, "\n".join(stanzas))
    os.replace(temporary, os.path.join(directory, "Packages"))
    return len(stanzas)


def change_settings(path, change):
    """Read, change, check and replace a settings file."""
    values = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            values = json.load(f)
    change(values)
    settings.Settings(values, path)
    settings.save(path, values)


def parse_assignments(words):
    """NAME=VALUE words; VALUE is JSON where it can be, else text. ``off`` stands for None (remove)."""
    pairs = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise settings.SettingsError(f"{word}: expected NAME=VALUE")
        try:
            pairs[name] = None if text == "off" else json.loads(text)
        except ValueError:
            pairs[name] = text
    return pairs


def _assign(target, pairs):
    for name, value in pairs.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value


def parser():
    top = argparse.ArgumentParser(
        prog="imex-simulator", description="simulator of NVIDIA IMEX: installation and faults"
    )
    verbs = top.add_subparsers(dest="verb", required=True)
    p = verbs.add_parser("install", help="install the programs under a root directory")
    p.add_argument("--root", default="/")
    p.add_argument("--version", default=settings.FALLBACK_VERSION)
    p = verbs.add_parser("deb", help="build a Debian package")
    p.add_argument("--version", required=True, help="for example 570.172.08-1")
    p.add_argument("--name", default="nvidia-imex", help="for example nvidia-imex-570")
    p.add_argument("--out", default=".")
    p = verbs.add_parser("repo", help="write the Packages index of a directory of packages")
    p.add_argument("directory")
    p = verbs.add_parser("cluster", help="run many nodes in this process until SIGTERM")
    p.add_argument("--spec", required=True)
    for verb, what in (("fault", "a fault"), ("set", "a setting")):
        p = verbs.add_parser(verb, help=f"change {what}: NAME=VALUE, VALUE off removes it")
        p.add_argument("--settings", default=None, help="settings file; default: the one in force")
        p.add_argument("--clear", action="store_true", help="remove all others first")
        p.add_argument("assignments", nargs="*")
    p = verbs.add_parser("inject-error", help="count an error in the daemon's statistics")
    p.add_argument("--settings", default=None)
    p.add_argument("--operation", choices=("import", "unimport", "connection"), default="import")
    p.add_argument("--code", type=int, default=1)
    p.add_argument("--node", type=int, default=0)
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--description", default="")
    p.add_argument("--driver-error", default="")
    p.add_argument("--total-only", action="store_true", help="not under per_node")
    p = verbs.add_parser("stock-config", help="print the config.cfg that a package ships")
    return top


def main(argv):
    args = parser().parse_args(argv)
    try:
        if args.verb == "install":
            install(args.root, args.version)
        elif args.verb == "deb":
            print(build_deb(args.version, args.name, args.out))
        elif args.verb == "repo":
            print(f"{write_repository(args.directory)} packages")
        elif args.verb == "cluster":
            from imex_simulator import cluster

            with open(args.spec, encoding="utf-8") as f:
                spec = json.load(f)
            try:
                cluster.run(spec)
            except cluster.SpecError as e:
                raise settings.SettingsError(f"{args.spec}: {e}") from e
        elif args.verb == "stock-config":
            sys.stdout.write(stock_config())
        else:
            path = args.settings or settings.find()
            if args.verb == "inject-error":
                entry = {"operation": args.operation, "code": args.code, "node_id": args.node, "count": args.count}
                entry.update(description=args.description, driver_error=args.driver_error, per_node=not args.total_only)
                change_settings(path, lambda values: values.setdefault("inject_errors", []).append(entry))
            else:
                pairs = parse_assignments(args.assignments)

                def change(values):
                    target = values.setdefault("faults", {}) if args.verb == "fault" else values
                    if args.clear:
                        target.clear()
                    _assign(target, pairs)

                change_settings(path, change)
    except (settings.SettingsError, OSError, ValueError, subprocess.CalledProcessError) as e:
        print(f"imex-simulator: {e}", file=sys.stderr)
        return 1
    return 0
