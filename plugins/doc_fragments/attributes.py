# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of the collection says of itself: check mode, diff, idempotence, where it runs."""

from __future__ import annotations


class ModuleDocFragment:
    # The names every module fills in with its own `support`.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what would change without changing it.
  diff_mode:
    description: Returns what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description:
      - Run again with the same options on the same hosts, it changes nothing.
      - This holds as long as nothing else has changed the hosts in between.
"""

    # Members of the action group: their common options can be set once with C(module_defaults).
    ACTIONGROUP_PD = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/inferops.pd.pd) in C(module_defaults) to set options for all modules of the collection at once.
    support: full
    membership:
      - inferops.pd.pd
"""

    # Only looks, never changes.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - It changes nothing, with and without check mode.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
"""

    # Returns ansible_facts.
    FACTS_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - It changes nothing, with and without check mode.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
  facts:
    description: Returns C(ansible_facts), which are set as facts of the host.
    support: full
"""

    # Has an action plugin of the same name, which does its work on the controller.
    ACTION_PLUGIN = r"""
options: {}
attributes:
  action:
    description: A part of it, or all, runs on the controller in an action plugin of the same name.
    support: full
"""

    # Runs on hosts.
    PLATFORM = r"""
options: {}
attributes:
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""
