#!/usr/bin/env bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The quality gate: each step checks one thing, in a copy of the checkout of its own, and keeps a log.
#   run.sh              all steps of "make test", two at a time
#   run.sh --full       these, and every supported ansible-core and newer hosts
#   run.sh STEP..       these steps, one after the other, with their output as it comes
#   run.sh --list       names of the steps
# Every step runs, also after one failed; the exit status is 1 when any did. A step that finds nothing to check fails.
# What needs root or a package that cannot be had says SKIPPED, which is a failure where CI=true.
# Logs: .cache/gate/STEP.log
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/.venv
cache=$root/.cache
. "$root/tests/gate/lib.sh"
self=$root/tests/gate/run.sh
logs=$cache/gate

# Two lanes for two cores. Whatever listens on the loopback's fixed ports is in lane b, so that no two meet.
lane_a=(format ruff yamllint shellcheck mypy ansible-lint docs-lint changelog build sanity molecule)
lane_b=(pytest units core-2.18 integration demo)
full_a=(sanity-2.18 molecule-trixie molecule-rack)
full_b=(integration-full units-2.18 core-2.19 core-2.20 docs)

# The last release of each supported core series, with the Pythons that run it.
declare -A core_version=([2.18]=2.18.19 [2.19]=2.19.14 [2.20]=2.20.10)
declare -A core_pythons=([2.18]="3.11 3.12 3.13" [2.19]="3.11 3.12 3.13" [2.20]="3.12 3.13 3.14")
targets=(3.9 3.10 3.11 3.12 3.13) # Pythons of nodes that we promise to work with

# --- what steps share ------------------------------------------------------------------------------------------------

# use_copy: go to a copy of the checkout at a path that ansible-test accepts (a link does not count). Sets top.
use_copy() {
    top=$(mktemp -d "${TMPDIR:-/tmp}/hpc-fabric-gate.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$top'" EXIT
    copy=$top/ansible_collections/hpc/fabric
    mkdir -p "$copy"
    tracked | (cd "$root" && xargs -0 cp --parents --no-dereference --preserve=mode -t "$copy")
    export ANSIBLE_COLLECTIONS_PATH=$top PYTHONPATH=$top
    cd "$copy"
}

# files PATTERN: tracked files whose path matches; none is a failure, since a check of nothing proves nothing.
files() {
    local found
    found=$(tracked | tr '\0' '\n' | grep -E "$1") || die "no file matches $1: this step has nothing to check"
    printf '%s\n' "$found"
}

# Lets ansible-test make virtual environments without its download, see get_pip_shim.py. A real get-pip.py is kept.
provide_get_pip() {
    local code version target
    code=$(python -c 'import ansible_test, os; print(os.path.dirname(ansible_test.__file__))')
    version=$(sed -n "s/^ *pip='\([0-9.]*\)',.*/\1/p" "$code/_internal/python_requirements.py" | head -n 1)
    [ -n "$version" ] || die "cannot see in $code which get-pip.py this ansible-test wants"
    target=$HOME/.ansible/test/cache/get_pip_${version//./_}.py
    if [ ! -e "$target" ]; then
        mkdir -p "${target%/*}"
        cp "$root/tests/gate/get_pip_shim.py" "$target.$$"
        mv "$target.$$" "$target"
    fi
}

# use_core SERIES: put an environment with this ansible-core first on PATH.
use_core() {
    local series=$1 version=${core_version[$1]} python env=$cache/core-$1
    # shellcheck disable=SC2086
    python=$(find_python ${core_pythons[$series]}) ||
        skip "ansible-core $series" "none of Python ${core_pythons[$series]} is here"
    if [ "$(cat "$env/.ready" 2>/dev/null)" != "$version $python" ]; then
        rm -rf "$env"
        "$python" -m venv "$env"
        "$env/bin/pip" install --quiet "ansible-core==$version" pytest -r "$root/tests/unit/requirements.txt"
        echo "$version $python" >"$env/.ready"
    fi
    PATH=$env/bin:$PATH
    ansible --version | sed -n 1p
}

# document_plugins DIR: every plugin and role of the collection in DIR, and none is without documentation.
document_plugins() {
    local kind pattern wanted shown count=0
    # An action plugin is documented as the module of the same name.
    for kind in module filter callback role; do
        case $kind in
        module) pattern="$1/plugins/modules/*.py" ;;
        role) pattern="$1/roles/*/tasks" ;;
        *) pattern="$1/plugins/$kind/*.py" ;;
        esac
        wanted=$({ compgen -G "$pattern" || true; } | sed 's|/tasks$||; s|.*/||; s|\.py$||; /^__init__$/d; s|^|hpc.fabric.|' | sort)
        [ -n "$wanted" ] || continue
        # shellcheck disable=SC2086
        shown=$(ansible-doc --type "$kind" --json $wanted) || die "ansible-doc cannot document one of $kind" $wanted
        shown=$(python -c 'import json, sys; print(*json.load(sys.stdin), sep="\n")' <<<"$shown" | sort)
        [ "$shown" = "$wanted" ] || die "no documentation for $kind $(comm -13 <(echo "$shown") <(echo "$wanted") | tr '\n' ' ')"
        count=$((count + $(wc -l <<<"$wanted")))
    done
    echo "documented: $count plugins and roles"
    [ "$count" -gt 0 ] || die "there is no plugin and no role in $1"
}

# check_playbooks DIR: syntax of every playbook of the collection, with an inventory that has a domain.
check_playbooks() {
    local playbook count=0
    for playbook in "$1"/playbooks/*.yml; do
        [ -e "$playbook" ] || die "there is no playbook in $1/playbooks"
        playbook=${playbook##*/}
        ansible-playbook --inventory "$root/molecule/inventory" --syntax-check "hpc.fabric.${playbook%.yml}"
        count=$((count + 1))
    done
    echo "syntax checked: $count playbooks"
}

need_testbed() {
    [ "$(id -u)" = 0 ] || skip "hosts with their own systemd" "only root can make them"
    command -v mmdebstrap >/dev/null || command -v apt-get >/dev/null ||
        skip "hosts with their own systemd" "they are Debian hosts and this machine has no apt-get"
}

# --- the steps -------------------------------------------------------------------------------------------------------

step_format() { use_copy; ruff format --check --diff .; }
step_ruff() { use_copy; ruff check .; }
step_yamllint() { use_copy; yamllint --strict .; }

step_shellcheck() {
    apt_tools shellcheck:shellcheck || skip "shellcheck" "the Debian package shellcheck is missing"
    use_copy
    # Programs carry no suffix, so the first line tells.
    mapfile -t scripts < <(tracked | xargs -0 awk 'FNR == 1 && (/^#!.*[ \/](ba|da)?sh( |$)/ || /^# shellcheck shell=/) { print FILENAME }')
    [ ${#scripts[@]} -gt 0 ] || die "no shell script was found"
    shellcheck --external-sources --source-path=SCRIPTDIR "${scripts[@]}"
    echo "checked: ${#scripts[@]} scripts"
}

step_mypy() {
    use_copy
    files '^plugins/.*\.py$' >/dev/null
    cd "$top"
    mypy --config-file ansible_collections/hpc/fabric/.mypy.ini --cache-dir "$cache/mypy" \
        ansible_collections/hpc/fabric/plugins ansible_collections/hpc/fabric/tests/unit
}

step_ansible-lint() {
    use_copy
    files '^(roles|playbooks)/.*\.yml$' >/dev/null
    ansible-lint --offline --strict
}

step_docs-lint() {
    use_copy
    files '^plugins/modules/.*\.py$' >/dev/null
    antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=all --skip-rstcheck .
}

step_changelog() { use_copy; files '^changelogs/(fragments|changelog)' >/dev/null; antsibull-changelog lint; }

step_sanity() {
    apt_tools shellcheck:shellcheck || skip "ansible-test sanity" "the Debian package shellcheck is missing"
    provide_get_pip
    use_copy
    ansible-test sanity --venv --color no
}

step_units() {
    local python found=
    provide_get_pip
    use_copy
    for python in "${targets[@]}"; do
        if ! find_python "$python" >/dev/null; then
            echo "NOTE: no unit tests on Python $python, which is not here"
            continue
        fi
        found=1
        ansible-test units --venv --color no --python "$python"
    done
    [ -n "$found" ] || die "none of Python ${targets[*]} is here"
}

step_pytest() {
    use_copy
    local paths=(tests/unit)
    [ -d tests/simulator/tests ] || die "there are no tests of the simulator (tests/simulator/tests)"
    paths+=(tests/simulator/tests)
    python -m pytest -q "${paths[@]}"
}

# pytest_on_beds ARGUMENT..: the tests make test beds of their own and take them down; this is for when they are killed.
pytest_on_beds() {
    local pid
    python -m pytest -q "$@" &
    pid=$!
    # shellcheck disable=SC2064
    trap "end_beds $pid; rm -rf '$top'" EXIT
    wait "$pid"
}
# shellcheck disable=SC2317 # called by trap
end_beds() {
    local state
    for state in /run/imex-it-*-"$1"; do
        [ ! -e "$state" ] || TESTBED_STATE=$state "$root/tests/testbed/testbed" down
    done
}

step_integration() {
    local ran=
    use_copy
    if [ -d tests/integration/targets ]; then
        ran=1
        provide_get_pip
        ansible-test integration --venv --color no
    fi
    if compgen -G 'tests/integration/**/test_*.py' >/dev/null || compgen -G 'tests/integration/test_*.py' >/dev/null; then
        ran=1
        pytest_on_beds tests/integration
    fi
    [ -n "$ran" ] || die "there is no integration test (tests/integration)"
}

# What is too long for every run.
step_integration-full() {
    use_copy
    pytest_on_beds tests/integration -m full
}

step_build() {
    local file
    use_copy
    # From the checkout itself, with all that lies in it: build_ignore must hold.
    ansible-galaxy collection build --force --output-path "$top/built" "$root"
    file=$(echo "$top"/built/hpc-fabric-*.tar.gz)
    tar -tzf "$file" | grep -vE '/$|^(MANIFEST|FILES)\.json$' | sort >"$top/packed"
    tracked | tr '\0' '\n' | sort >"$top/tracked"
    if [ -n "$(comm -23 "$top/packed" "$top/tracked")" ]; then
        comm -23 "$top/packed" "$top/tracked" | head -n 20
        die "the artefact holds files that are not part of the project, see above; galaxy.yml must ignore them"
    fi
    # As a user has it: from the artefact, in an empty folder, with no checkout in sight.
    mkdir "$top/empty"
    cd "$top/empty"
    export ANSIBLE_COLLECTIONS_PATH=$top/empty PYTHONPATH=
    ansible-galaxy collection install --offline --collections-path "$top/empty" "$file"
    document_plugins "$top/empty/ansible_collections/hpc/fabric"
    check_playbooks "$top/empty/ansible_collections/hpc/fabric"
    mkdir -p "$root/dist"
    mv "$file" "$root/dist/"
    echo "built: dist/${file##*/}, $(wc -l <"$top/packed") files"
}

# The oldest core, quickly: every unit test, all documentation, the syntax of all playbooks.
smoke_core() {
    use_core "$1"
    use_copy
    python -m pytest -q tests/unit
    document_plugins .
    check_playbooks .
}
step_core-2.18() { smoke_core 2.18; }
step_core-2.19() { smoke_core 2.19; }
step_core-2.20() { smoke_core 2.20; }

step_sanity-2.18() {
    apt_tools shellcheck:shellcheck || skip "ansible-test sanity" "the Debian package shellcheck is missing"
    use_core 2.18
    provide_get_pip
    use_copy
    ansible-test sanity --venv --color no
}
step_units-2.18() { use_core 2.18; step_units; }

step_demo() {
    [ -x "$root/tests/demo/run" ] || die "there is no demo (tests/demo/run)"
    make -C "$root" --no-print-directory demo
}

# run_molecule [ARGUMENT..], default: all scenarios. In the checkout: molecule wants galaxy.yml in its folder, and keeps what it makes below .cache.
run_molecule() {
    need_testbed
    cd "$root"
    [ $# -gt 0 ] || compgen -G 'molecule/*/molecule.yml' >/dev/null || die "there is no Molecule scenario"
    # shellcheck disable=SC2064
    trap "'$root/tests/testbed/testbed' down" EXIT
    tests/testbed/testbed down
    tests/testbed/build-rootfs.sh # first, so that what it says is seen
    ANSIBLE_COLLECTIONS_PATH=$root/.collections molecule test "${@:---all}"
}
step_molecule() { run_molecule; }
step_molecule-trixie() { export TESTBED_SUITE=trixie; run_molecule; }
# The compute trays of a whole rack: 18 hosts.
step_molecule-rack() {
    export TESTBED_INVENTORY=inventory-rack
    run_molecule --scenario-name smoke
}

# HTML, without any network but pip's.
step_docs() {
    local env=$cache/docs-venv out=$cache/docs
    use_copy
    files '^plugins/modules/.*\.py$' >/dev/null
    rm -rf "$out"
    mkdir -p "$out"
    chmod 755 "$out" # antsibull-docs refuses a folder that others may write to
    antsibull-docs sphinx-init --use-current --squash-hierarchy --lenient --dest-dir "$out" hpc.fabric
    if ! cmp -s "$out/requirements.txt" "$env/requirements.txt"; then
        rm -rf "$env"
        python -m venv "$env"
        "$env/bin/pip" install --quiet -r "$out/requirements.txt" -r "$root/requirements.txt"
        cp "$out/requirements.txt" "$env/"
    fi
    # Links to other projects' documentation would be looked up on the internet.
    printf '\nintersphinx_mapping = {}\nnitpicky = False\nsuppress_warnings = ["ref.ref"]\n' >>"$out/conf.py"
    (cd "$out" && PATH=$env/bin:$PATH ./build.sh)
    [ -s "$out/build/html/index.html" ] || die "no HTML was made, see above"
    echo "documentation: ${out#"$root"/}/build/html/index.html"
}

# --- running them ----------------------------------------------------------------------------------------------------

# closing_lines LOG: what pytest said last, so that a reader and a CI sees how many tests ran; and what was skipped.
closing_lines() {
    grep -E '^(=+ )?[0-9]+ (passed|failed|skipped|error)|^(SKIPPED|NOTE): |^(documented|checked|syntax checked|built): ' "$1" |
        sed 's/^=* *//; s/ *=*$//; s/^/            /' || true
}

# run_step STEP: in a process group of its own and with a limit; prints one line when it ends.
run_step() {
    local step=$1 start=$SECONDS rc=0 word
    timeout -k 30 "${GATE_STEP_TIMEOUT:-2700}" bash "$self" --one "$step" >"$logs/$step.log" 2>&1 </dev/null &
    running=$!
    wait "$running" || rc=$?
    running=
    case $rc in
    0) word=ok ;;
    77) word=SKIPPED ;;
    *) word=FAILED ;;
    esac
    {
        # A step's output matters when it failed; then whole, so that a CI's log is enough.
        [ "$word" != FAILED ] || sed "s/^/$step: /" "$logs/$step.log"
        [ "$rc" != 124 ] || echo "$step: ended after its limit of ${GATE_STEP_TIMEOUT:-2700} s"
        printf '%-8s %4ds %s\n' "$word" "$((SECONDS - start))" "$step"
        closing_lines "$logs/$step.log"
    } >"$logs/$step.out"
    cat "$logs/$step.out"
    [ "$word" != FAILED ] || echo "$step" >>"$logs/failed"
}

run_lane() {
    local step running=
    trap '[ -z "$running" ] || { kill "$running"; wait "$running"; }; exit 143' TERM
    for step in "$@"; do run_step "$step"; done
}

run_all() {
    local a b
    exec 8>"$cache/gate.lock"
    flock -n 8 || die "another gate runs in this checkout"
    rm -rf "$logs"
    mkdir -p "$logs"
    : >"$logs/failed"
    run_lane "${lane_a[@]}" & a=$!
    run_lane "${lane_b[@]}" & b=$!
    # shellcheck disable=SC2064
    trap "kill $a $b 2>/dev/null; wait; exit 130" INT TERM
    wait "$a" "$b"
    if [ -s "$logs/failed" ]; then
        echo "gate: FAILED after ${SECONDS}s: $(sort "$logs/failed" | tr '\n' ' ')(logs: .cache/gate)"
        exit 1
    fi
    echo "gate: ok after ${SECONDS}s"
}

[ -x "$venv/bin/ansible" ] || die "there is no .venv yet; run 'make setup' first"
case ${1:-} in
--list) printf '%s\n' "${lane_a[@]}" "${lane_b[@]}" "${full_a[@]}" "${full_b[@]}" ;;
--one)
    declare -F "step_$2" >/dev/null || die "there is no step '$2'; run.sh --list names them"
    "step_$2"
    ;;
--full)
    lane_a+=("${full_a[@]}")
    lane_b+=("${full_b[@]}")
    run_all
    ;;
"") run_all ;;
*)
    status=0
    for step; do
        start=$SECONDS rc=0
        bash "$self" --one "$step" || rc=$?
        case $rc in
        0) echo "ok       $((SECONDS - start))s $step" ;;
        77) echo "SKIPPED  $((SECONDS - start))s $step" ;;
        *) echo "FAILED   $((SECONDS - start))s $step"; status=1 ;;
        esac
    done
    exit "$status"
    ;;
esac
