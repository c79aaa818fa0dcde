# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of role imex, read for every host of the inventory and checked."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import missing_required_lib
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import config_edit, node_map

from .records import (
    ABSENT,
    HERE,
    IDLE,
    KUBERNETES,
    MAINTENANCE,
    MEMBER,
    OUTSIDE,
    UNMANAGED,
    HostSettings,
    Reason,
    Shared,
    enumerate_some,
)

try:
    import netaddr
except ImportError:
    HAS_NETADDR = False
else:
    HAS_NETADDR = True

# One value for all hosts makes no sense for these: it would put every host into one domain, or into maintenance.
PER_HOST = ("imex_domain", "imex_address", "imex_member_state", "imex_managed_by")
# All that is read; those without a role default are unset where nobody sets them.
NAMES = (
    *PER_HOST,
    "imex_network",
    "imex_domain_from_fabric",
    "imex_deployment",
    "imex_order",
    "imex_config",
    "imex_quorum",
    "imex_required_nodes",
    "imex_max_removed",
    "imex_allow_active_jobs",
    "imex_allow_stale_members",
    "imex_forget_addresses",
    "imex_rollback",
    "imex_package",
    "imex_unit_dropin",
    "imex_create_config",
    "imex_driver_path",
    "imex_start_timeout",
    "imex_stop_timeout",
    "imex_control_timeout",
    "imex_probe_timeout",
    "imex_wait_timeout",
    "imex_keep_generations",
    "imex_owner",
    "imex_group",
    "imex_allow_hostnames",
    "imex_allow_loopback_addresses",
    "imex_allow_documentation_addresses",
)
# Both ends of a connection must share these; all other keys are a host's own business.
WIRE_KEYS = (
    "SERVER_PORT",
    "IMEX_CMD_PORT",
    "IMEX_ENABLE_AUTH_ENCRYPTION",
    "IMEX_AUTH_ENCRYPTION_MODE",
    "IMEX_GSS_SERVICE_NAME",
)
# The least that makes sense: a limit of nothing kills every daemon at its stop, or takes every answer for a late one.
LEAST = {
    "imex_start_timeout": 1,
    "imex_stop_timeout": 1,
    "imex_control_timeout": 1,
    "imex_probe_timeout": 0.1,
    "imex_wait_timeout": 0,
    "imex_keep_generations": 1,
}
CHOICES = {
    "imex_deployment": ("nvlink_domain", "nvlink_partition", "job", "unmanaged"),
    "imex_member_state": ("active", "maintenance", "absent"),
    "imex_managed_by": ("host", "kubernetes"),
    "imex_order": ("keep", "address", "given"),
}
FALLBACK = {"imex_owner": "root", "imex_group": "root", "imex_max_removed": 1, "imex_probe_timeout": 2}

# The value of a variable that cannot be read; the problem is noted already.
BROKEN = object()

# Gives the value of a variable for one host, None where it is not set; raises when it cannot be templated.
Get = t.Callable[[str], t.Any]


class Reader:
    """Reads one host's variables. What is wrong is collected, with the name of the variable and what to do."""

    def __init__(self, host: str, get: Get) -> None:
        self.host = host
        self.get = get
        self.problems: list[Reason] = []

    def problem(self, code: str, message: str) -> None:
        self.problems.append(Reason(code, f"{self.host}: {message}", (self.host,)))

    def raw(self, name: str) -> t.Any:
        try:
            value = self.get(name)
        except Exception as exc:  # a template can raise anything
            self.problem("unreadable_variable", f"{name} cannot be templated for this host: {exc}")
            return BROKEN
        if "{{" in str(value):
            self.problem(
                "unreadable_variable",
                f"{name} still holds a template, {value!r}: what the plan reads of other hosts must be a plain value, "
                "or a template without hostvars",
            )
            return BROKEN
        return FALLBACK.get(name) if value is None else value

    def text(self, name: str) -> str:
        value = self.raw(name)
        word = "" if value is None or value is BROKEN else str(value).strip()
        choices = CHOICES.get(name)
        if choices and word not in choices and value is not BROKEN:
            self.problem("bad_variable", f"{name} is {word!r}, expected one of {', '.join(choices)}")
        return choices[0] if choices and word not in choices else word

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if value is None or value is BROKEN:
            return False
        try:
            return bool(boolean(value))
        except TypeError:
            self.problem("bad_variable", f"{name} is {value!r}, expected true or false")
            return False

    def number(self, name: str, kind: t.Any = int) -> t.Any:
        value = self.raw(name)
        if value is BROKEN:
            return 0
        try:
            number = kind(value)
        except (TypeError, ValueError):
            number = None
        if number is None or isinstance(value, bool) or number < 0:
            self.problem("bad_variable", f"{name} is {value!r}, expected a number that is not negative")
            return 0
        return number

    def words(self, name: str) -> tuple[str, ...]:
        value = self.raw(name)
        if value is None or value is BROKEN or value == "":
            return ()
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, (list, tuple)):
            self.problem("bad_variable", f"{name} is {value!r}, expected a list")
            return ()
        return tuple(str(word).strip() for word in value)

    def mapping(self, name: str) -> dict[str, t.Any]:
        value = self.raw(name)
        if value is None or value is BROKEN or value == "":
            return {}
        if not isinstance(value, t.Mapping):
            self.problem("bad_variable", f"{name} is {value!r}, expected a dictionary")
            return {}
        return dict(value)


def read(host: str, presence: str, get: Get) -> HostSettings | None:
    """What the plan needs of one host; None for a host that has nothing to do with it.

    Raises InputError when the host's domain cannot be read: it could be a member of any.
    """
    reader = Reader(host, get)
    domain = reader.text("imex_domain") or None
    if reader.problems:
        raise InputError(
            f"{reader.problems[0].message}. As long as it is not known which domain {host} belongs to, no domain can be planned."
        )
    if domain is None and presence == OUTSIDE:
        # Only so that its address can be given a name where a daemon still holds it.
        known = address_of(Reader(host, get))
        return HostSettings(host, presence, UNMANAGED, None, known, None, {}) if known else None
    if reader.flag("imex_domain_from_fabric"):
        reader.problem(
            "not_built",
            "imex_domain_from_fabric is not built in this release: unset it, and set imex_domain in the inventory",
        )
    kind = _kind(reader, domain)
    if kind == UNMANAGED:
        return HostSettings(host, presence, kind, domain, address_of(Reader(host, get)), None, {})
    if kind in (MEMBER, MAINTENANCE) and domain is None:
        reader.problem(
            "no_domain",
            "imex_domain is not set, so it is not known whose member this host is. Set it in the inventory, "
            "or imex_deployment to job or unmanaged",
        )
    for name, least in LEAST.items():
        if reader.number(name, float) < least and not any(name in problem.message for problem in reader.problems):
            reader.problem("bad_variable", f"{name} is {reader.raw(name)}, expected at least {least}")
    config = _config(reader)
    shared = _shared(reader, config)
    # Who leaves needs no address; known, it gives the one a name that daemons still hold.
    address = address_of(reader if kind in (MEMBER, MAINTENANCE) else Reader(host, get))
    planned = _planned(reader, kind, config)
    return HostSettings(host, presence, kind, domain, address, shared, planned, tuple(reader.problems))


def _kind(reader: Reader, domain: str | None) -> str:
    state = reader.text("imex_member_state")
    deployment = reader.text("imex_deployment")
    if deployment == "unmanaged":
        return UNMANAGED
    if state == "maintenance":
        return MAINTENANCE if domain is not None and deployment != "job" else UNMANAGED
    if reader.text("imex_managed_by") == "kubernetes":
        return KUBERNETES
    if deployment == "job":
        return IDLE
    return ABSENT if state == "absent" else MEMBER


def _config(reader: Reader) -> dict[str, str]:
    try:
        values = config_edit.normalise(reader.mapping("imex_config"))
    except InputError as exc:
        reader.problem("bad_variable", f"imex_config: {exc}")
        return {}
    if values.get("IMEX_CMD_ENABLED") == "0":
        reader.problem(
            "command_service_off",
            "imex_config sets IMEX_CMD_ENABLED to 0: without the daemon's command service nobody can prove quorum. Set it to 1",
        )
    return values


def _shared(reader: Reader, config: dict[str, str]) -> Shared:
    package = reader.mapping("imex_package")
    name, version = str(package.get("name") or ""), str(package.get("version") or "")
    if package and not (name and version):
        reader.problem("bad_variable", f"imex_package is {package!r}, expected name and version")
    return Shared(
        deployment=reader.text("imex_deployment"),
        order=reader.text("imex_order"),
        quorum=reader.text("imex_quorum") or "all",
        required_nodes=reader.words("imex_required_nodes"),
        max_removed=reader.number("imex_max_removed"),
        allow_active_jobs=reader.flag("imex_allow_active_jobs"),
        allow_stale_members=reader.flag("imex_allow_stale_members"),
        forget_addresses=tuple(node_map.canonical(word) for word in reader.words("imex_forget_addresses")),
        rollback=reader.flag("imex_rollback"),
        package=f"{name}={version}" if name and version else "",
        allow_hostnames=reader.flag("imex_allow_hostnames"),
        allow_loopback_addresses=reader.flag("imex_allow_loopback_addresses"),
        allow_documentation_addresses=reader.flag("imex_allow_documentation_addresses"),
        wire=tuple(f"{key}={config[key]}" for key in WIRE_KEYS if key in config),
    )


def _planned(reader: Reader, kind: str, config: dict[str, str]) -> dict[str, t.Any]:
    """The option "planned" of imex_status, still without the node list."""
    unit: dict[str, t.Any] = {
        "enabled": kind == MEMBER,
        "masked": kind == KUBERNETES,
        "start_timeout": reader.number("imex_start_timeout", float),
        "driver_path": reader.text("imex_driver_path"),
    }
    if kind in (MEMBER, IDLE):
        unit["dropin"] = reader.flag("imex_unit_dropin")
    planned: dict[str, t.Any] = {
        "nodes": [],
        "state": "present" if kind == MEMBER else "empty",
        "order": "given",
        "config": config if kind in (MEMBER, IDLE) else {},
        "create_config": reader.flag("imex_create_config"),
        "require_local_address": True,
        "start_timeout": unit["start_timeout"],
        "owner": reader.text("imex_owner"),
        "group": reader.text("imex_group"),
        "mode": "0644",
        "unit": unit,
    }
    for option in ("allow_hostnames", "allow_loopback_addresses", "allow_documentation_addresses"):
        planned[option] = reader.flag(f"imex_{option}")
    package = reader.mapping("imex_package")
    if kind == MEMBER and package.get("name") and package.get("version"):
        planned["package"] = {"name": str(package["name"]), "version": str(package["version"])}
    return planned


def address_of(reader: Reader) -> str | None:
    """The member's address: imex_address, else the one address of the host that lies in imex_network."""
    given = reader.text("imex_address")
    if given:
        return node_map.canonical(given)
    network = reader.text("imex_network")
    if not network:
        return None
    facts = reader.get("ansible_facts") or {}
    found = [*(facts.get("all_ipv4_addresses") or ()), *(facts.get("all_ipv6_addresses") or ())]
    # Where the host was not asked, the address that Ansible uses is one of its own at least.
    candidates = found or [word for word in (reader.get("ansible_host"),) if word]
    try:
        matching = choose(candidates, network)
    except InputError as exc:
        reader.problem("bad_variable", f"imex_network: {exc}")
        return None
    if len(matching) > 1:
        reader.problem(
            "ambiguous_address",
            f"{enumerate_some(matching)} all lie in imex_network {network}: set imex_address, or a narrower network",
        )
    elif not matching:
        seen = (
            f"none of {enumerate_some(map(str, candidates))} lies"
            if candidates
            else "no address of the host is known to lie"
        )
        reader.problem("no_address", f"{seen} in imex_network {network}: gather facts of the host, or set imex_address")
    return matching[0] if len(matching) == 1 else None


def choose(candidates: t.Iterable[t.Any], network: str) -> list[str]:
    """The candidates that lie in network (CIDR), canonical, each once. Raises InputError."""
    if not HAS_NETADDR:
        raise InputError(missing_required_lib("netaddr", reason="to choose an address by its network"))
    try:
        wanted = netaddr.IPNetwork(str(network))
    except (netaddr.AddrFormatError, ValueError) as exc:
        raise InputError(f"{network!r} is no network like 10.0.0.0/24 ({exc})") from exc
    matching = (
        node_map.canonical(str(word))
        for word in candidates
        if node_map.is_address(str(word)) and netaddr.IPAddress(node_map.canonical(str(word))) in wanted
    )
    return list(dict.fromkeys(matching))


def contacted(settings: HostSettings) -> bool:
    """True for a host that this play can ask, and may."""
    return settings.presence == HERE and settings.kind in (MEMBER, ABSENT, IDLE, KUBERNETES) and not settings.problems
