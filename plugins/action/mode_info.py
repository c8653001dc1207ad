# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of mode_info: which recipe fits which engine and which GPUs, and why the others do not."""

from __future__ import annotations

import typing as t

from ..module_utils._core.recipes.catalogue import describe
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import names_list


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "backend": {"type": "str"},
        "vendors": {"type": "list", "elements": "str", "default": []},
        "vendor": {"type": "str"},
        "modes_path": {"type": "list", "elements": "path", "default": []},
    }

    def act(self) -> dict[str, t.Any]:
        modes = self.catalogue().modes
        return describe(modes, self.args["backend"], names_list(self.args["vendors"]), self.args["vendor"])
