# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seam between modules and the core: file attributes, backups, the lock. Gets the AnsibleModule, imports none."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import typing as t

from .errors import InputError

LOCK_TIMEOUT = 60.0
# Octal, or symbolic as u=rw,go=r.
CHANGE = "[ugoa]*[-+=](?:[rwxXst]*|[ugo])"
MODE = f"(?:0o)?[0-7]{{1,5}}|{CHANGE}(?:,{CHANGE})*"


def local_addresses(params: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """As the option says, else as the host says."""
    if params["local_addresses"] is not None:
        return tuple(params["local_addresses"])
    from .imex.addresses import local_addresses as ask

    return ask(params["proc_root"])


def lock(module: t.Any) -> t.ContextManager[None]:
    """The lock for reading, judging and writing; none in check mode, which must leave no trace."""
    if module.check_mode:
        return contextlib.nullcontext()
    from .imex import host_writes

    return host_writes.lock(module.params["run_dir"], module.params["config_path"], LOCK_TIMEOUT)


def check_attributes(params: t.Mapping[str, t.Any]) -> None:
    """Raise InputError for an owner, group or mode that cannot be given to a file, before anything is written."""
    for option, database, look_up in (("owner", "user", pwd.getpwnam), ("group", "group", grp.getgrnam)):
        word = params[option]
        if word is None or word.isdigit():
            continue
        try:
            look_up(word)
        except KeyError as exc:
            text = f"{option} is {word!r}, but this host has no such {database}; nothing was written."
            raise InputError(text) from exc
    mode = params["mode"]
    if isinstance(mode, str) and not re.fullmatch(MODE, mode):
        raise InputError(f"mode is {mode!r}, expected something like 0644 or u=rw,go=r; nothing was written.")


def set_attributes(module: t.Any, paths: t.Iterable[str], diffs: list[dict[str, t.Any]]) -> bool:
    """Give files the owner, mode and the like of the usual file options; True when that changes one.

    In check mode a file that does not exist yet counts as one that would get them.
    """
    changed = False
    for path in paths:
        arguments = module.load_file_common_arguments(module.params, path=path)
        if module.check_mode and not os.path.lexists(path):
            changed = changed or any(arguments.get(name) is not None for name in ("owner", "group", "mode"))
            continue
        diff: dict[str, t.Any] = {}
        if module.set_fs_attributes_if_different(arguments, False, diff):
            changed = True
            if diff:
                diffs.append(dict(diff, before_header=f"{path} (attributes)", after_header=f"{path} (attributes)"))
    return changed


def back_up(module: t.Any, paths: t.Iterable[str]) -> list[str]:
    """Copies with a timestamp beside those of the files that exist; their paths."""
    return [str(module.backup_local(path)) for path in paths if os.path.exists(path)]


def leave(module: t.Any, result: dict[str, t.Any]) -> None:
    """End the module with a result; its warnings go the way that Ansible has for them."""
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    module.exit_json(**result)
