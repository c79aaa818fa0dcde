#!/bin/sh
# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes a node of the test bed a clean host again: the simulator installed as the vendor's package leaves it, and nothing
# else. Run in the node; SETTINGS is the simulator's settings file.
set -eu
settings=$1
unit=nvidia-imex.service

for path in /etc/nvidia-imex /var/lib/hpc-fabric /proc/devices /proc/driver /etc/systemd/system; do
    while mountpoint -q "$path"; do umount "$path"; done
done
systemctl kill --signal=KILL "$unit" 2>/dev/null || :
systemctl stop "$unit" 2>/dev/null || :

packages=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'nvidia-imex*' 2>/dev/null | sed -n 's/ installed$//p; s/ config-files$//p')
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086
    dpkg --purge --force-hold --force-remove-essential $packages >/dev/null 2>&1
    rm -f /etc/apt/sources.list.d/test.list
fi
rm -rf /etc/nvidia-imex "/etc/systemd/system/$unit.d" "/etc/systemd/system/$unit" \
    "/etc/systemd/system/multi-user.target.wants/$unit" "/run/systemd/system/$unit" "/run/systemd/system/$unit.d" \
    /var/lib/hpc-fabric /run/hpc-fabric /run/nvidia-imex /run/slurm /etc/slurm \
    /etc/modprobe.d/hpc-fabric-imex.conf /dev/nvidia-caps-imex-channels
rm -f /var/log/nvidia-imex*.log*
# What dpkg took away, what a test renamed, and the stock config.cfg; cheap when all is there.
/srv/share/simulator/bin/imex-simulator install --root=/ --version="$(cat /srv/share/version)"
# Beside the configuration it would count as one of the files that a rollout must not touch.
cat >/etc/imex-simulator.json <"$settings"
# The driver is there, also after a reboot.
driver=/usr/lib/systemd/system/test-driver.service
if [ ! -e $driver ]; then
    cat >$driver <<UNIT
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/usr/bin/touch /dev/nvidiactl
UNIT
    mkdir -p /usr/lib/systemd/system/sysinit.target.wants
    ln -s $driver /usr/lib/systemd/system/sysinit.target.wants/
fi
mkdir -p /etc/modprobe.d # every host with a kernel of its own has it
: >/dev/nvidiactl
systemctl daemon-reload
systemctl reset-failed "$unit" 2>/dev/null || :
