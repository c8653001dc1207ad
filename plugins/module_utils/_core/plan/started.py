# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member that runs on an older configuration, as a plan shows it: what it was started with, not what the spec would make of it by now.

Its label says how it is reached and stopped, the group's record what its role was rendered to. The spec may name another mode meanwhile,
whose ports the member does not have."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from ..base.placeholders import fill
from ..facts.observed import Host, Member
from .member import values_of
from .placement import Seat

_TEXTS = ("argv", "mounts", "devices")


def as_started(
    member: Member, host: Host, seat: Seat, record: t.Mapping[str, t.Any], shared: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """The member in the shape that member.py gives those of the spec. `record` is the group's, `shared` are values of the whole group. What
    the record does not say (it is of an older release) stays empty."""
    label = member.label
    role = ((record.get("templates") or {}).get("roles") or {}).get(member.role) or {}
    values = {**shared, **values_of(member.id, member.index, host, seat)}
    source, probe = label.get("source") or {}, label.get("probe") or {}
    return {
        "id": member.id,
        "role": member.role,
        "index": member.index,
        "revision": member.revision,
        "address": label.get("address"),
        "kv_address": label.get("kv_address") if member.role != "router" else None,
        "url": label.get("url"),
        "parts": [
            {
                "host": member.host,
                "rank": 0,
                "gpus": seat.gpus,
                "port": seat.port,
                "ports": seat.ports,
                "image": role.get("image"),
                "pull": "missing",
                "vendor": None,
                "model": source.get("model"),
                "executable": source.get("executable") or "",
                **{key: [_filled(text, values) for text in role.get(key) or ()] for key in _TEXTS},
                "env": {name: _filled(text, values) for name, text in (role.get("env") or {}).items()},
                "secrets": list(role.get("secrets") or ()),
                "files": [{k: _filled(v, values) for k, v in file.items()} for file in role.get("files") or ()],
                "limits": dict(role.get("resources") or {}),
                "labels": dict(label),
            }
        ],
        "probe": {
            "url": label.get("url"),
            "health": label.get("health"),
            "listening": [{"name": "http", "port": seat.port}],
            "backend": label.get("backend"),
            "limit": 120,
            **{key: probe.get(key) for key in ("busy", "held", "metrics")},
        },
        "stop": dict(label.get("stop") or {}),
        "restart": {"attempts": int(label.get("restart") or 0)},
        "identity": dict(label.get("identity") or {}),
    }


def _filled(text: t.Any, values: t.Mapping[str, t.Any]) -> t.Any:
    """A recorded text with its placeholders filled in; one that has no value any more stays."""
    try:
        return fill(text, values, partial=True) if isinstance(text, str) else text
    except PdError:
        return text
