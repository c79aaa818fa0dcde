# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words of the daemon and of the control tool that decide (reference 2.3)."""

from __future__ import annotations

READY = "READY"
# The control tool's word for a node that does not answer.
UNAVAILABLE = "UNAVAILABLE"
CONNECTED = "CONNECTED"
