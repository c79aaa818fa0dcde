# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA IMEX does, as far as it is known: words, texts, formats, timers, differences between versions.

The only place for such facts. Every rule says where it comes from: ``observed: <source>`` is published output, documentation
or vendor code; ``inferred: <why>`` is this simulator's choice where nothing is published. A client must not rely on the latter.

Imported by the control tool at every call, so it imports nothing.
"""

from __future__ import annotations

# --- files and ports ---------------------------------------------------------------------------------------------------

# observed: vendor unit file, dpkg -L of the 570.86.15 package
CONFIG_PATH = "/etc/nvidia-imex/config.cfg"
# observed: shipped config.cfg
NODES_CONFIG_PATH = "/etc/nvidia-imex/nodes_config.cfg"
LOG_PATH = "/var/log/nvidia-imex.log"
STATS_PATH = "/var/log/nvidia-imex-stats.log"
# observed: AWS ParallelCluster documentation
VERBOSE_LOG_PATH = "/var/log/nvidia-imex-verbose.log"
# observed: start-up log of 570.00 names /var/run/nvidia-imex/persist.dat
RUN_DIR = "/var/run/nvidia-imex"
PERSIST_NAME = "persist.dat"
# inferred: something must stop a second daemon on one host; the real one is a driver session, not a file
SESSION_LOCK_NAME = "imex-session.lock"

# observed: shipped config.cfg of 570 and newer, in its order; values as shipped
CONFIG_DEFAULTS = (
    ("LOG_LEVEL", "4"),
    ("LOG_FILE_NAME", LOG_PATH),
    ("STATS_FILE_NAME", STATS_PATH),
    ("LOG_APPEND_TO_LOG", "1"),
    ("LOG_FILE_MAX_SIZE", "1024"),
    ("LOG_MAX_ROTATE_COUNT", "3"),
    ("LOG_USE_SYSLOG", "0"),
    ("DAEMONIZE", "1"),
    ("BIND_INTERFACE_IP", ""),
    ("SERVER_PORT", "50000"),
    ("IMEX_NODE_CONFIG_FILE", NODES_CONFIG_PATH),
    ("NETWORK_INTERFACE", ""),
    ("IMEX_WAIT_FOR_QUORUM", "RECOVERY"),
    ("IMEX_ENABLE_AUTH_ENCRYPTION", "0"),
    ("IMEX_AUTH_ENCRYPTION_MODE", "SSL_TLS"),
    ("IMEX_AUTH_SOURCE", ""),
    ("IMEX_SERVER_KEY", ""),
    ("IMEX_SERVER_CERT", ""),
    ("IMEX_SERVER_CERT_AUTH", ""),
    ("IMEX_CLIENT_KEY", ""),
    ("IMEX_CLIENT_CERT", ""),
    ("IMEX_CLIENT_CERT_AUTH", ""),
    ("IMEX_SECURITY_TARGET_OVERRIDE", ""),
    ("IMEX_GSS_SERVICE_NAME", "host"),
    ("IMEX_GSS_TIMEOUT_SEC", "-1"),
    ("IMEX_GSS_RETRY_INTERVAL_SEC", "5"),
    ("IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC", "-1"),
    ("IMEX_GSS_SHUTDOWN_ON_FAILURE", "1"),
    ("IMEX_CMD_ENABLED", "1"),
    ("IMEX_CMD_BIND_INTERFACE_IP", ""),
    ("IMEX_CMD_PORT", "50005"),
    ("IMEX_CMD_UNIX_DOMAIN_PATH", ""),
    ("IMEX_NODE_DISCONNECTED_GRACE_TIME", "-1"),
)

# --- words -------------------------------------------------------------------------------------------------------------

# observed: NVIDIA/DCGM DcgmImexManager.h
INITIALIZING = "INITIALIZING"
STARTING_AUTH_SERVER = "STARTING_AUTH_SERVER"
WAITING_FOR_PEERS = "WAITING_FOR_PEERS"
WAITING_FOR_RECOVERY = "WAITING_FOR_RECOVERY"
INIT_GPU = "INIT_GPU"
READY = "READY"
SHUTTING_DOWN = "SHUTTING_DOWN"
UNAVAILABLE = "UNAVAILABLE"

# observed: JSON of 570.172.08 (CONNECTED, INVALID), third-party live reports (NEVER_CONNECTED, RECOVERING)
CONNECTED = "CONNECTED"
INVALID = "INVALID"
NEVER_CONNECTED = "NEVER_CONNECTED"
RECOVERING = "RECOVERING"
# inferred: JSON names of the table cells D, A, !V! and !M! are not published
DISCONNECTED = "DISCONNECTED"
AUTHENTICATING = "AUTHENTICATING"
VERSION_MISMATCH = "VERSION_MISMATCH"
NODE_MAP_MISMATCH = "NODE_MAP_MISMATCH"

# observed: legend of the text table
CELLS = {
    INVALID: "I",
    NEVER_CONNECTED: "N",
    RECOVERING: "R",
    DISCONNECTED: "D",
    AUTHENTICATING: "A",
    VERSION_MISMATCH: "!V!",
    NODE_MAP_MISMATCH: "!M!",
    CONNECTED: "C",
}

# observed: NVIDIA/DCGM and samples
UP = "UP"
DEGRADED = "DEGRADED"
DOWN = "DOWN"

# observed: newest metrics page; the numbers are the keys of error_counters
IMPORT_ERROR_NAMES = {
    1: "IET_NOT_FOUND",
    2: "IET_TIMEOUT",
    3: "IET_PERMISSION_ERROR",
    4: "IET_INTERNAL_ERROR",
}
CONNECTION_ERROR_NAMES = {
    1: "CET_AUTHENTICATION_ERROR",
    2: "CET_VERSION_MISMATCH",
    3: "CET_NODES_MISMATCH",
    4: "CET_CONNECTION_LOST",
}
CET_AUTHENTICATION_ERROR, CET_VERSION_MISMATCH, CET_NODES_MISMATCH, CET_CONNECTION_LOST = 1, 2, 3, 4
# observed: metrics page for IMPORT_ERROR. inferred: the other two, by the same pattern
ERROR_CATEGORIES = {"import": "IMPORT_ERROR", "unimport": "UNIMPORT_ERROR", "connection": "CONNECTION_ERROR"}
# observed: metrics page for import_error_type, used for unimport too. inferred: connection_error_type
ERROR_TYPE_FIELDS = {
    "import": "import_error_type",
    "unimport": "import_error_type",
    "connection": "connection_error_type",
}


def error_name(operation, code):
    """Enum name of an error code. inferred: an unknown code appears as its number, as protobuf JSON does."""
    names = CONNECTION_ERROR_NAMES if operation == "connection" else IMPORT_ERROR_NAMES
    return names.get(code, code)


# --- timers (seconds, before the time_scale setting) ----------------------------------------------------------------------

# observed: NVIDIA/k8s-test-infra README (595). inferred: the last one repeats
RETRY_DELAYS = (15.0, 31.0, 62.0, 125.0)
# observed: guide, chapter on signals: SIGUSR1 acts at most once in 5 s
RECONNECT_MIN_INTERVAL = 5.0
# inferred: about what the published Heartbeat count of a small domain needs
HEARTBEAT_INTERVAL = 5.0
# inferred: how long a silent peer keeps its link, by TCP keepalive
SILENT_PEER_SECONDS = 10.0
# observed: metrics page, "30 seconds by default"
STATS_INTERVAL = 30.0
# inferred: pause between two listings of ctl -n
MONITOR_INTERVAL = 1.0

# --- start-up and exit ------------------------------------------------------------------------------------------------------

# inferred: any start failure; only "not 0" is known
START_FAILED = 1
# observed: 580.95.05, nvidia-imex-ctl, nodes file unreadable
CTL_NODES_FILE_STATUS = 255
# observed: 570, -q with the command service unreachable
CTL_UNREACHABLE_STATUS = 1
# observed: 595.91.07, -h. inferred: also for a wrong option and a missing config file (known: not 0)
CTL_USAGE_STATUS = 1

# observed: nvidia-imex 570.148.08 --version
VERSION_LINE = "IMEX version is: {version}"
# observed: 570.148.08 (said by the control tool). inferred: the daemon says the same
NO_CONFIG = "Unable to open configuration file at {path}"
# observed: prefix matched by NVIDIA/DCGM. inferred: what follows it
NO_NODES_CONFIG = "Failed to read node configuration file {path}"
# observed: first words and code, bottlerocket-kernel-kit and dra-driver #328. inferred: the tail after "last error"
QUERY_FAILED = (
    "Query Status returned error code: 14 - failed to connect to all addresses; last error: UNKNOWN: {target}: "
    "Failed to connect to remote host: {reason}"
)

# --- log texts --------------------------------------------------------------------------------------------------------------

LOG_LEVELS = {"CRITICAL": 1, "ERROR": 2, "WARNING": 3, "INFO": 4}  # observed: shipped config.cfg
# observed: start-up logs of 570.00 and 580.159.04
LOG_FIRST_LINE = "IMEX Log initializing at: {stamp}"
LOG_LINE = "[{stamp}] [{level}] [tid {tid}] {text}"
# observed: stderr of 580.159.04
LOG_FALLBACK = (
    "WARNING: failed to open IMEX log file  errno = {reason}",
    "INFO: using stderr for IMEX logging",
    "WARNING: failed to chmod IMEX log file  errno = {reason}",
)
# observed: 570.00
IDENTIFIED_BY_IP = "Identified this node as ID {id}, using bind IP of '{address}', and network interface of {interface}"
# observed: 590.48.01
IDENTIFIED_BY_NAME = "Identified this node as ID {id}, using bind address of '{address}'"
# observed: 580.159.04
HOST_NAME_ENTRY = "Treating node config entry '{entry}' as a host name."
# observed: dra-driver #289, PR 298
NO_OWN_ADDRESS = (
    "No matching network interface found for any IP addresses in the node configuration file {path}. "
    "Addresses in the file: {addresses}"  # inferred: the rest of the sentence
)
# observed: 570.00
NO_PERSIST_FILE = "nvidia-imex persistence file {path} does not exist.  Assuming no previous importers."
VERSION_MATCHED = "NvGpu Library version matched with GPU Driver version"
PROCESSING = "Started processing of incoming messages."
CREATING_CHANNELS = "Creating gRPC channels to all peers (nPeers = {count})."
NO_FULL_QUORUM = "IMEX_WAIT_FOR_QUORUM != FULL, continuing initialization without waiting for connections to all nodes."
GPU_SUBSCRIBED = "GPU event successfully subscribed"
# observed: first and last words in a support case. inferred: "is"
VERSION_DIFFERS = "NvGpu Library version {version} is not matching with current GPU driver version {driver}"
# observed: dra-driver #524 ("Failed to allocate Imex session ... NV_ERR_IN_USE"). inferred: the words between
SESSION_IN_USE = "Failed to allocate Imex session, status: NV_ERR_IN_USE"
# observed: "Address already in use" in dra-driver #654. inferred: the rest
CANNOT_BIND = "Failed to bind {service} to {address}:{port}: {reason}"
# observed: 570.124.06 / 590.48.01
ESTABLISHED_IP = "Connection established to node {id} with ip address {address}. Number of times connected: {count}"
ESTABLISHED = "Connection established to node {id} with address {address}"
# observed: dra-driver #1050
ATTEMPTING = "Attempting connection for target node {id} - {address}:{port}, attempt #{attempt}"
# observed: dra-driver #1447
PEER_SHUTDOWN = "Received notification of shutdown from node {id} - {address}"
PEER_DISCONNECTED = "Node disconnect event detected for node {id} with address {address}"
# observed: a user's report ("Connection lost to node 17: IP:50000")
PEER_LOST = "Connection lost to node {id}: {address}:{port}"
# observed: "Node configuration mismatch" in a user's report. inferred: the rest
MAP_DIFFERS = "Node configuration mismatch with node {id} - {address}, communication disabled."
# inferred: texts of events that are known, with words that are not
VERSION_DIFFERS_PEER = (
    "Version mismatch with node {id} - {address}: {theirs} instead of {ours}, communication disabled."
)
AUTH_DIFFERS = "Authentication failed with node {id} - {address}"
NEW_INSTANCE = "Node {id} with address {address} is a new instance, cleaning up its imports and exports"
GRACE_OVER = "Grace time for node {id} with address {address} ended, cleaning up its imports and exports"
WAITING_RECOVERY = "Waiting for recovery of previous importers: {addresses}"
RECOVERED = "All previous importers have recovered"
WAITING_PEERS = "IMEX_WAIT_FOR_QUORUM is FULL, waiting for connections to all nodes."
SHUTDOWN = "Received signal {signal}, shutting down"
NAMES_NOT_SUPPORTED = "Invalid IP address '{entry}' in node configuration file {path}"
EMPTY_NODES = "No nodes found in node configuration file {path}"

# observed: metrics page
STATS_HEADER = "Performance statistics for last {seconds} seconds  : "

# --- text table ---------------------------------------------------------------------------------------------------------------

# observed: 570.86 and 570.172 ("triggreed" is theirs)
_LEGEND_HEAD = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
D - Disconnected - Connection was lost, and clean up has been triggreed.
A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.
"""
_LEGEND_MISMATCH = """!V! - Version mismatch, communication disabled.
!M! - Node map mismatch, communication disabled.
"""
_LEGEND_TAIL = """C - Connected - Ready for operation
"""

# observed: guide (570) up to -j. inferred: the lines of -q, -s and -t, which no stored copy has whole
_USAGE_570 = """\
Usage: nvidia-imex-ctl [-i <IP> <PORT>|-u <unix domain socket path>|-c <nvidia-imex config.cfg path>] <-n|-N|-q|-s|-d|-m> [-t <timeout>]
Where:
       -i <IP> <PORT>: Connect to the IMEX daemon's control service at the specified ip address and port.
       -u <unix domain socket path>: Connect to the IMEX daemon's control service at the specified unix domain socket path.
       -c <nvidia-imex config path>: Path to nvidia-imex configuration file.  Default value is /etc/nvidia-imex/config.cfg
NOTE:  If none of -i, -u, -c are provided, -c is assumed with default value.
       -n: Continuously monitor the entire IMEX domain status.  Requires config file (default or via -c)
       -N: Gets the full status of the entire IMEX domain.  Requires config file (default or via -c)
       -H: Show hostname alongside node IP, only works with -n/-N
       -t: Timeout (in milliseconds) for the -s command to terminate.  Unspecified means it will run until IMEX terminates.
       -j: Output of the -n/-N command will be in JSON, rather than formatted.
       -q: Query the status of the local IMEX daemon.
       -s: Subscribe to status changes of the local IMEX daemon.
NOTE: only one of -i, -u, or -c can be specified.
"""
# inferred: 580 is not published; the 595 line plus the unix socket
_USAGE_580 = """\
Usage: nvidia-imex-ctl [-u <unix domain socket path>|-c <nvidia-imex config.cfg path>] <-n|-N|-q> [-j][-H]
"""
# observed: 595.91.07, first line
_USAGE_595 = """\
Usage: nvidia-imex-ctl [-c <nvidia-imex config.cfg path>] <-n|-N|-q> [-j][-H]
"""


def parse_version(text):
    """``570.172.08`` -> (570, 172, 8); words that are no number count as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


class VersionRules:
    """What depends on the IMEX version."""

    def __init__(self, version):
        number = parse_version(version)
        self.version = version
        # observed: 570.86 has no !V!/!M! legend and no version column, 570.172 has. inferred: the border between them
        self.mismatch_cells = number >= (570, 124)
        # observed: 570.86 / 570.172
        self.cell_width = 4 if self.mismatch_cells else 3
        self.version_column = self.mismatch_cells
        self.blank_before_state = self.mismatch_cells
        # observed: 580.95.09 marks the own node with '*' and pads hosts to 18. inferred: from 580.0 on
        self.own_mark = number >= (580,)
        self.host_width = 18 if self.own_mark else 15
        # observed: 580.30 prints hostName "" without -H, 570.172.08 has no such key
        self.host_name_key = number >= (580,)
        # observed: k8s-dra-driver-gpu uses -i below 580 only
        self.option_i = number < (580,)
        # inferred: not in the usage of 595; 580 unknown
        self.option_u = number < (590,)
        self.option_s = number < (580,)
        # observed: an agent runs -H alone with 580.95.09
        self.bare_host_option = number >= (580,)
        # inferred: newest documentation only, first version unknown
        self.error_fields = number >= (590,)
        self.error_commands = number >= (590,)
        # observed: 590.48.01 and 595; 570/580 unknown
        self.nogpu = number >= (590,)
        # observed: release notes, 570.158.01
        self.host_names = number >= (570, 158, 1)
        # observed: banners of 570.00 and 580.159.04
        self.banner_blank_lines = number < (580,)
        self.banner_colon = number >= (580,)
        self.banner_auth = number >= (580,)
        # observed: 570.124.06 / 590.48.01. inferred: 580 as 590
        self.established = ESTABLISHED if number >= (580,) else ESTABLISHED_IP
        self.usage = _USAGE_570 if number < (580,) else _USAGE_580 if number < (590,) else _USAGE_595

    @property
    def legend(self):
        return _LEGEND_HEAD + (_LEGEND_MISMATCH if self.mismatch_cells else "") + _LEGEND_TAIL

    def node_line(self, node_id, host, state, version, is_local, host_name):
        """One line under ``Nodes:``; host_name None without -H.

        observed: samples of 570.86, 570.172, 580.173.02 (with -H) and 580.95.09 (the mark).
        inferred: 580 without -H leaves the version unpadded; 570 with -H appends the same column as 580.
        """
        mark = "-"
        if self.own_mark and is_local:
            mark, host = "*", host + " *"
        line = f"Node #{node_id:<3d} {mark} {host:<{self.host_width}s} - "
        if not self.version_column:
            line += state
        elif host_name is None:
            line += f"{state:<20s} - Version: {version}"
        else:
            line += f"{state:<20s} - Version: {version:<15s}"
        return line if host_name is None else line + f" - Hostname: {host_name}"

    def matrix_header(self, ids):
        # observed: both 570 samples, without blanks at the end of the line
        return (" Nodes From\\To  " + "".join(f"{i:<{self.cell_width}d}" for i in ids)).rstrip()

    def matrix_row(self, node_id, cells):
        # observed: both 570 samples. inferred: an unknown word is shown as it is
        return (f"{node_id:8d}        " + "".join(f"{c:<{self.cell_width}s}" for c in cells)).rstrip()


def domain_state(rows, ids):
    """UP, DEGRADED or DOWN from {id: (state, {id: word})} of the nodes that answered.

    observed: UP, one node absent -> DEGRADED, nobody answers -> DOWN. inferred: the exact rule.
    """
    if not rows:
        return DOWN
    for node_id in ids:
        row = rows.get(node_id)
        if row is None or row[0] != READY or any(row[1].get(other) != CONNECTED for other in ids):
            return DEGRADED
    return UP


# --- small shared forms ---------------------------------------------------------------------------------------------------------


def parse_nodes(text):
    """Addresses of a nodes file in id order.

    observed: one address a line, ``#`` lines are accepted, nine equal lines gave one node (duplicates collapse).
    inferred: blank lines, blanks around an address, CR and a byte order mark are ignored.
    """
    found = {}
    for line in text.lstrip("\ufeff").splitlines():
        entry = line.strip()
        if entry and not entry.startswith("#"):
            found.setdefault(entry)
    return list(found)


def parse_config(text):
    """KEY=VALUE lines. inferred: the last of two equal keys counts, unknown keys and other lines are passed over."""
    values = dict(CONFIG_DEFAULTS)
    for line in text.lstrip("\ufeff").splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.lstrip().startswith("#"):
            values[key.strip()] = value.strip()
    return values


def is_address(entry):
    """True for an IPv4 or IPv6 literal; everything else is a host name."""
    if ":" in entry:
        return True
    parts = entry.split(".")
    return len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts)


def short_stamp(t, millis):
    """``8/8/2025 17:38:02.641`` from a struct_time. observed: samples; local time [inferred]."""
    return f"{t.tm_mon}/{t.tm_mday}/{t.tm_year} {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}.{millis:03d}"


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def log_stamp(t):
    """``Mar 25 2025 10:41:54``. observed: samples; the day has two digits ("Sep 01")."""
    return f"{MONTHS[t.tm_mon - 1]} {t.tm_mday:02d} {t.tm_year} {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}"
