# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host runs members: the options that its modules share, said once. Those of runtimes are told by the table of runtimes."""

from __future__ import annotations

import json
import typing as t

from ..module_utils._core.runtimes.table import RUNTIMES

_OPTIONS = "".join(
    "      - "
    + json.dumps(f"C({one.name}.{option.name}), the host variable C({option.variable}): {' '.join(option.description)}")
    + "\n"
    for one in RUNTIMES
    for option in one.options
)


class ModuleDocFragment:
    # Annotated, since ansible-test reads plain assignments of this class without running it, and these options follow from the table.
    DOCUMENTATION: t.ClassVar[str] = rf"""
options:
  runtime_options:
    description:
      - Options of runtimes, a dictionary of options for each runtime. The action plugin takes those that are left out from the
        host variables.
{_OPTIONS}    type: dict
  state_dir:
    description:
      - Where the collection keeps labels and records. The host variable C(pd_state_dir).
      - The default is C(/var/lib/inferops-pd) for root, C(~/.local/state/inferops-pd) for others.
    type: path
"""
