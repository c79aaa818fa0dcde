# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every module can and cannot do, for extends_documentation_fragment."""

from __future__ import annotations


class ModuleDocFragment:
    # For modules that change something; they say "support" themselves.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description: When run twice in a row with the same arguments, the second run makes no change.
  platform:
    description: Target operating systems.
    support: full
    platforms: linux
"""

    # For modules that only look.
    READ_ONLY = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: This module does not modify state.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
    support: N/A
    details: This module does not modify state.
  idempotent:
    description: When run twice in a row with the same arguments, the second run makes no change.
    support: full
    details: This module does not modify state.
  platform:
    description: Target operating systems.
    support: full
    platforms: linux
"""

    ACTIONGROUP_IMEX = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/hpc.fabric.imex) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - hpc.fabric.imex
"""
