#!/usr/bin/env bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Real Slurm on the test bed's systemd hosts: node1 is controller and compute node, slurmd runs as a unit everywhere.
#   slurm-on-testbed.sh up [N]     a test bed with Slurm's packages (TESTBED_SUITE, default trixie), and Slurm on it
#   slurm-on-testbed.sh            Slurm on the test bed that is up and has the packages
# Returns when every node is idle. trixie has Slurm 24.11, sid 26.05 (job directories named after the SLUID), bookworm
# 22.05. All nodes share the root file system's munge key.
# env: those of testbed, EXTRA (lines for slurm.conf), CGROUP (lines for cgroup.conf)
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
t=$here/testbed
state=${TESTBED_STATE:-/run/imex-testbed}

if [ "${1:-}" = up ]; then
    # An unconfigured slurmd never gets ready, and a host would never be "running".
    TESTBED_SUITE=${TESTBED_SUITE:-trixie} TESTBED_EXTRA=slurmctld,slurmd,slurm-client,munge${TESTBED_EXTRA:+,$TESTBED_EXTRA} \
        TESTBED_DISABLE="slurmd slurmctld" "$t" up "${2:-4}"
elif [ $# -gt 0 ]; then
    sed -n '6,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi

n=$(cat "$state/count")
conf="ClusterName=testbed
SlurmctldHost=node1
SlurmUser=slurm
MailProg=/bin/true
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
PrologFlags=Alloc,Contain
PrologEpilogTimeout=60
${EXTRA:-}
NodeName=node[1-$n] CPUs=4 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
cgroup_conf="CgroupPlugin=cgroup/v2
${CGROUP:-}"

# A machine with cgroup v1 controllers shows them in every node's /proc/*/cgroup, and slurmd would take the node for v1.
shim=
if grep -q '^[1-9]' /proc/self/cgroup; then
    if ! command -v cc >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null
    fi
    shim=$state/v2only.so
    cc -shared -fPIC -O2 -o "$shim" "$here/v2only.c" -ldl
fi

put() { "$t" exec "$1" sh -c "mkdir -p \"\${1%/*}\" && cat >\"\$1\"" sh "$2"; } # NODE PATH, content from stdin

for i in $(seq 1 "$n"); do
    "$t" exec "node$i" install -d -o slurm -g slurm /var/lib/slurm /var/lib/slurm/slurmctld
    "$t" exec "node$i" install -d /var/lib/slurm/slurmd
    put "node$i" /etc/slurm/slurm.conf <<<"$conf"
    put "node$i" /etc/slurm/cgroup.conf <<<"$cgroup_conf"
    if [ -n "$shim" ]; then
        put "node$i" /opt/v2only.so <"$shim"
        put "node$i" /etc/systemd/system/slurmd.service.d/hybrid.conf <<<"[Service]
Environment=LD_PRELOAD=/opt/v2only.so"
        "$t" exec "node$i" systemctl daemon-reload
    fi
done
"$t" exec node1 systemctl start slurmctld
for i in $(seq 1 "$n"); do "$t" exec "node$i" systemctl start slurmd; done
for _ in $(seq 1 100); do
    [ "$("$t" exec node1 sinfo -h -N -t idle -o %N | sort -u | wc -l)" != "$n" ] || exit 0
    sleep 0.2
done
"$t" exec node1 sinfo -N -l >&2
exit 1
