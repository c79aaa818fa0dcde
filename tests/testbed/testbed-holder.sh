#!/usr/bin/env bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PID 1 of the test bed's pid/net/mount namespace. Started by "testbed up" only.
set -euo pipefail
state=$1 rootfs=$2 count=$3 net=$4 cgname=$5
exec 8<"$rootfs/.complete"; flock -s 8      # build-rootfs.sh must not prune the tree under a running test bed
mount -t proc proc /proc
mkdir -p /run/systemd; mount -t tmpfs -o mode=755 tmpfs /run/systemd      # nspawn's own bookkeeping, private
nodes=$state/nodes; mkdir -p "$nodes"
mount -t tmpfs -o "mode=755,size=${TESTBED_TMPFS:-4G}" tmpfs "$nodes"     # what nodes write; gone on exit

ip link set lo up
ip link add br0 type bridge forward_delay 0
ip addr add "$net.1/24" dev br0
ip link set br0 up

hosts_file() {
    local k
    echo "127.0.0.1 localhost"
    echo "$net.1 controller"
    for k in $(seq 1 "$count"); do echo "$net.$((10 + k)) node$k"; done
}

run_node() {   # one machine: boots, reboots, and waits while its power is off
    local i=$1 name=node$1 d=$nodes/node$1 c pid
    local r=$d/root
    mkdir -p "$d/upper" "$d/work" "$r"
    mount -t overlay overlay -o "lowerdir=$rootfs,upperdir=$d/upper,workdir=$d/work" "$r"
    echo "$name" > "$r/etc/hostname"
    hosts_file > "$r/etc/hosts"
    # Fixed and unique. An empty one would make every boot a "first boot" with presets applied.
    printf '%s' "$name" | md5sum | cut -c1-32 > "$r/etc/machine-id"
    install -m 600 "$state/id_ed25519.pub" "$r/root/.ssh/authorized_keys"
    printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\nGateway=%s\nLinkLocalAddressing=no\nLLDP=no\n' \
        "$net.$((10 + i))" "$net.1" > "$r/etc/systemd/network/10-host0.network"
    # A cgroup of its own in each hierarchy. Without, all nodes share /payload and stop each other's services.
    for c in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
        if [ -f "$c/cgroup.procs" ]; then
            mkdir -p "$c/$cgname/$name"
            echo "$BASHPID" > "$c/$cgname/$name/cgroup.procs"
        fi
    done
    while :; do
        while [ -e "$state/$name.off" ]; do sleep 0.1; done
        # shellcheck disable=SC2086
        SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --boot --directory="$r" \
            --machine="$name" --hostname="$name" --register=no --keep-unit --kill-signal=SIGRTMIN+3 \
            --network-bridge=br0 --resolv-conf=off --timezone=off --link-journal=no --console=pipe \
            ${TESTBED_SHARE:+--bind-ro=$TESTBED_SHARE:/srv/share} ${TESTBED_NSPAWN_ARGS:-} </dev/null >>"$state/$name.log" 2>&1 &
        pid=$!
        echo "$pid" > "$state/$name.nspawn"
        wait "$pid" || true
        rm -f "$state/$name.nspawn"
        sleep 0.2
    done
}
for i in $(seq 1 "$count"); do run_node "$i" & done
wait
