# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PdError, the one exception of the core. What a user can get wrong in a value is a finding (finding.py); this is for what cannot be
read."""

from __future__ import annotations


class PdError(ValueError):
    """A value that cannot be used, told to the user as one sentence: which value, where, and the way out."""
