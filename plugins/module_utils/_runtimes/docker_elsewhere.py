# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of ours that belong to other state folders: what they hold is taken, whoever looks."""

from __future__ import annotations

import contextlib
import json
import typing as t

from .._probes import carried, elsewhere
from . import docker_said
from .docker_api import LOOK_DEADLINE
from .docker_spec import LABEL
from .errors import HostError


def containers(api: t.Any) -> list[elsewhere.Container]:
    """All containers with a label of ours, of whatever state folder. None where no container engine answers to this user."""
    filters = {"label": [f"{LABEL}.state"]}
    try:
        listed = api.call("Listing containers", lambda c: c.containers(all=True, filters=filters), LOOK_DEADLINE)
    except HostError:
        return []
    found = []
    for entry in docker_said.entries(listed):
        labels = entry["Labels"]
        state_dir = labels.get(f"{LABEL}.state", "")
        if not carried.PATH.fullmatch(state_dir):
            continue
        label: t.Any = None
        text = labels.get(f"{LABEL}.label", "")
        with contextlib.suppress(ValueError, RecursionError):
            label = json.loads(text) if len(text) <= elsewhere.LABEL_LIMIT else None
        running = entry["State"] in ("running", "paused", "restarting")
        network = entry["HostConfig"]["NetworkMode"] == "host"
        found.append(elsewhere.Container(state_dir, label if isinstance(label, dict) else {}, running, network))
    return found
