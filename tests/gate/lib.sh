# shellcheck shell=bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Shared by setup.sh and run.sh; read with "." after root, venv and cache are set. Sets PATH.

: "${root:?}" "${venv:?}" "${cache:?}"
mkdir -p "$cache"
# No colours, boxes or prompts in logs, and nothing of ours in the user's ~/.ansible.
export NO_COLOR=1 ANSIBLE_NOCOLOR=1 PY_COLORS=0 ANSIBLE_HOME=$cache/ansible PIP_DISABLE_PIP_VERSION_CHECK=1
unset ANSIBLE_FORCE_COLOR FORCE_COLOR

# Real interpreters before pyenv's shims: a shim answers 127 for a version that is not selected.
pyenv_path() {
    local version dir
    for version in 3.9 3.10 3.11 3.12 3.13 3.14; do
        dir=$(printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin | sort -V | tail -n 1)
        [ -x "$dir/python" ] && printf '%s:' "$dir"
    done
    return 0
}
PATH=$venv/bin:$(pyenv_path)$PATH
export PATH

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

# skip WHAT WHY: ends a step that cannot run on this machine. Where CI=true nothing may be left out silently.
skip() {
    echo "SKIPPED: $1 because $2"
    [ "${CI:-}" != true ] || exit 1
    exit 77
}

# apt_tools COMMAND:PACKAGE..  True when all commands are there, after installing what is missing where that is possible.
apt_tools() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing Debian packages: ${missing[*]}"
        return 1
    fi
    (
        flock 9 # two steps at once must not both run apt-get
        # Package lists younger than an hour are good enough.
        if [ -z "$(find "$cache/apt-updated" -mmin -60 2>/dev/null)" ]; then
            apt-get update -qq
            touch "$cache/apt-updated"
        fi
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    ) 9>"$cache/apt.lock"
}

# find_python VERSION..: the first of these Pythons that runs and can make a virtual environment.
find_python() {
    local version
    for version in "$@"; do
        if "python$version" -c 'import ensurepip, venv' 2>/dev/null; then
            command -v "python$version"
            return 0
        fi
    done
    return 1
}

# tracked: NUL-separated files of the checkout, committed or not yet, without what .gitignore names.
tracked() {
    git -c safe.directory="$root" -C "$root" ls-files -z --cached --others --exclude-standard --deduplicate |
        while IFS= read -r -d '' file; do
            [ ! -e "$root/$file" ] || printf '%s\0' "$file"
        done
}
