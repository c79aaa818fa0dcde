#!/usr/bin/env bash
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Build (or reuse) the Debian root file system that every test node is an overlay of.
# Prints the path of the finished tree on stdout, everything else on stderr.
#   usage: build-rootfs.sh [SUITE]            (default: bookworm; trixie works too)
#   env:   TESTBED_CACHE   where finished trees are kept (default /var/cache/imex-testbed)
#          TESTBED_EXTRA   extra packages, comma separated
#          TESTBED_DISABLE units not to start at boot, blank separated (slurmd without a slurm.conf never gets ready)
set -euo pipefail
suite=${1:-bookworm}
cache=${TESTBED_CACHE:-/var/cache/imex-testbed}
packages=systemd,systemd-sysv,dbus,libpam-systemd,python3,python3-apt,iproute2,openssh-server,ca-certificates,procps,netcat-openbsd,curl,sudo
[ -z "${TESTBED_EXTRA:-}" ] || packages+=,$TESTBED_EXTRA

[ "$(id -u)" = 0 ] || { echo "build-rootfs.sh: must run as root" >&2; exit 1; }

# Tools of this machine. A new CI machine has none of them; each is checked by its command, not by a stamp.
need=
for pair in mmdebstrap:mmdebstrap systemd-nspawn:systemd-container ip:iproute2 nc.openbsd:netcat-openbsd \
            ssh-keygen:openssh-client nsenter:util-linux nft:nftables; do
    command -v "${pair%%:*}" >/dev/null || need+=" ${pair#*:}"
done
if [ -n "$need" ]; then
    apt-get update -qq >&2
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $need >&2
fi

# A tree is named after what it holds (suite, packages, units) and after this file: change either and it is built anew.
variant=$(echo "$packages ${TESTBED_DISABLE:-}" | sha256sum | cut -c1-8)
tree=$cache/rootfs-$suite-$variant-$(sha256sum "$0" | cut -c1-8)
if [ -e "$tree/.complete" ]; then echo "$tree"; exit 0; fi
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two builders never race
if [ -e "$tree/.complete" ]; then echo "$tree"; exit 0; fi
r=$tree.tmp
rm -rf "$tree" "$r"

# No mirror is named: mmdebstrap uses Debian's default one, plus updates and security.
mmdebstrap --mode=root --format=directory --variant=minbase --include="$packages" \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "3"' --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$r" >&2

rm -f "$r/etc/hostname" "$r/etc/resolv.conf"        # mmdebstrap copies this machine's
: > "$r/etc/resolv.conf"
: > "$r/etc/apt/sources.list"                       # a node has no way out: apt must not try
rm -f "$r"/etc/apt/sources.list.d/*
rm -f "$r/etc/dpkg/dpkg.cfg.d/99mmdebstrap"         # nodes install with docs, like a real one
install -d -m 700 "$r/root/.ssh"
cat > "$r/etc/ssh/sshd_config.d/10-testbed.conf" <<'CONF'
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
MaxStartups 100:30:200
CONF
# network-online.target must mean something: a unit under test is ordered after it.
chroot "$r" systemctl -q enable systemd-networkd.service systemd-networkd-wait-online.service ssh.service
# shellcheck disable=SC2086
[ -z "${TESTBED_DISABLE:-}" ] || chroot "$r" systemctl -q disable $TESTBED_DISABLE
# Nothing may change a node behind the test's back.
for u in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
         systemd-resolved.service systemd-timesyncd.service getty.target console-getty.service; do
    ln -sf /dev/null "$r/etc/systemd/system/$u"
done
touch "$r/.complete"
mv "$r" "$tree"
# An older tree of the same content is of no more use, unless a running test bed is an overlay of it: it holds a shared lock.
for old in "$cache/rootfs-$suite-$variant-"*; do
    if [ "$old" = "$tree" ] || [ ! -e "$old/.complete" ]; then continue; fi
    (flock -n -x 8 && rm -rf "$old") 8<"$old/.complete" || true
done
echo "$tree"
