#!/usr/bin/env bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# "make setup": a virtual environment with the pinned tools, and the link that gives this checkout its collection name.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/.venv
cache=$root/.cache
. "$root/tests/gate/lib.sh"

# The newest ansible-core needs Python 3.12; on 3.11 requirements-dev.txt takes the last one that runs there.
wanted=(3.12 3.13 3.14 3.11)

if [ -n "${PYTHON:-}" ]; then
    python=$PYTHON
    "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' ||
        die "PYTHON=$PYTHON is not a Python of 3.11 or newer that can make a virtual environment"
elif ! python=$(PATH=${PATH#"$venv/bin:"} find_python "${wanted[@]}"); then
    apt_tools "a-python-with-venv:python3-venv" || true # that name is no command, so the package is always asked for
    python=$(PATH=${PATH#"$venv/bin:"} find_python "${wanted[@]}") ||
        die "no Python 3.11 or newer with the venv module was found. Install one (Debian: python3-venv), or name it: make setup PYTHON=/path/to/python3"
fi

# A venv that was moved, or made by another Python, is made again.
version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
if [ "$("$venv/bin/python" -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null)" != "$version" ] ||
    ! "$venv/bin/pip" --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
if ! "$venv/bin/pip" install --quiet --requirement "$root/requirements-dev.txt" >"$cache/setup.log" 2>&1; then
    cat "$cache/setup.log" >&2
    die "pip could not install requirements-dev.txt with $python, see above"
fi

mkdir -p "$root/.collections/ansible_collections/hpc"
ln -sfn ../../.. "$root/.collections/ansible_collections/hpc/fabric"
touch "$venv/.ready"
echo "ready: Python $version, $("$venv/bin/ansible" --version | sed -n 1p), in .venv"
