# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives keys of config.cfg their values, and leaves every other byte."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError
from .config_file import KEY, LINE, ConfigChange, ConfigFile, Edited, key_class, parse


def refuse_unclear(found: ConfigFile, path: str) -> None:
    """Raise InputError for a file of which nobody can say what the daemon makes of it."""
    faults = [
        f"{key} is set {len(numbers)} times, in lines {', '.join(map(str, numbers))}: leave one"
        for key, numbers in found.duplicates.items()
    ]
    if found.problems:
        faults.append(
            f"{', '.join(found.problems)}: neither KEY=VALUE nor a # comment (a half-written file?), correct or remove it"
        )
    if found.duplicates or found.problems:
        raise InputError(f"{path} cannot be used, nothing was written: {'; '.join(faults)}.")


def edit(text: str, wanted: t.Mapping[str, str], path: str) -> Edited:
    """Give keys their values and keep every other byte: comments, blanks around "=", line ends, a missing final newline.

    A key that is not in the file is appended once, with the line ends that the file has. wanted: values by normalise().
    Raises InputError where the file has a key twice or a line that is neither KEY=VALUE nor a comment.
    """
    refuse_unclear(parse(text, path), path)
    bom = text[: len(text) - len(text.lstrip("\ufeff"))]
    lines = text[len(bom) :].split("\n")
    missing = dict(wanted)
    changes: list[ConfigChange] = []
    for index, line in enumerate(lines):
        match = None if line.lstrip().startswith("#") else re.fullmatch(LINE, line)
        if match is None or match.group(2) not in missing:
            continue
        key, before = match.group(2), match.group(3)
        after = missing.pop(key)
        if after != before:
            changes.append(ConfigChange(key, before, after, key_class(key)))
            lines[index] = match.group(1) + after + match.group(4)
    body = bom + "\n".join(lines)
    if missing:
        end = "\r\n" if body.count("\r\n") * 2 > body.count("\n") else "\n"
        if body[len(bom) :] and not body.endswith("\n"):
            body += end
        body += "".join(f"{key}={value}{end}" for key, value in missing.items())
        changes += [ConfigChange(key, None, value, key_class(key)) for key, value in missing.items()]
    order = list(wanted)
    return Edited(body, tuple(sorted(changes, key=lambda change: order.index(change.key))))


def normalise(wanted: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Values as YAML gives them (true, 50000, null, text) to the text of config.cfg. Raises InputError."""
    from .config_rules import KNOWN

    result: dict[str, str] = {}
    faults: list[str] = []
    for key, raw in wanted.items():
        key = str(key)
        if not re.fullmatch(KEY, key):
            faults.append(f"{key!r} is no name of a key (letters, digits and _)")
            continue
        if key not in KNOWN and key.upper() in KNOWN:
            faults.append(f"{key} is no key of config.cfg, its name is {key.upper()}")
            continue
        if raw is None:
            text = ""
        elif isinstance(raw, bool):
            text = "1" if raw else "0"
        elif isinstance(raw, (str, int)):
            text = str(raw).strip(" \t")
        elif isinstance(raw, float) and raw.is_integer():
            text = str(int(raw))
        else:
            kind = (
                "list"
                if isinstance(raw, (list, tuple))
                else "dictionary"
                if isinstance(raw, dict)
                else type(raw).__name__
            )
            faults.append(f"{key}: {raw!r} is a {kind}, expected one text or number")
            continue
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            faults.append(f"{key}: {text!r} holds a line break or another control character")
        elif re.search(r"(^|[ \t])#", text):
            faults.append(f"{key}: {text!r} holds a # that would begin a comment")
        result[key] = text
    if faults:
        raise InputError(f"config cannot be used, nothing was written: {'; '.join(faults)}.")
    return result
