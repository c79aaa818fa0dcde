# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the get-pip.py that ansible-test downloads from a host of its own.

ansible-test starts its virtual environments without pip and looks for that script in its cache first. This one needs
no download: it takes the pip that comes with Python, which then fetches what was asked for from the package index
that this machine is configured for.
"""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: ensurepip sets PIP_CONFIG_FILE=/dev/null in the process that it runs in.
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"], stdout=subprocess.DEVNULL)
packages = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
