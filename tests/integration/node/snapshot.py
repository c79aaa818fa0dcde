#!/usr/bin/env python3
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints as JSON everything that a rollout may write on a host: path -> [kind, mode, owner, group, mtime, content].

snapshot.py [ROOT]: of the running host, or of the file system of one whose power is off. Content is the sha256 of a file and
the target of a link. mtime tells a file that was written again with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys

PLACES = (
    "/etc/nvidia-imex",
    "/etc/systemd/system",
    "/etc/modprobe.d",
    "/var/lib/hpc-fabric",
    "/run/hpc-fabric",
)


def describe(path):
    found = os.lstat(path)
    content = ""
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
    kind = stat.S_IFMT(found.st_mode)
    mtime = 0 if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns
    return [kind, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, mtime, content]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else ""
    seen = {}
    for place in PLACES:
        if os.path.lexists(root + place):
            seen[place] = describe(root + place)
        for folder, folders, names in os.walk(root + place):
            for name in folders + names:
                path = os.path.join(folder, name)
                seen[path[len(root) :]] = describe(path)
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
