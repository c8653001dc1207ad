# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who made an answer: what a stand-in engine writes into `system_fingerprint`, and what a client reads out of it.

    revision=ab12 generation=1 length=4096 model=77aa build= group=g formation=6f9c now=

Of prefill and of decode, with a ">" between. What a process cannot tell is "?": a container sees no label. `formation` is what the
process carries in its environment, empty for one that an earlier version of the collection started; of such a one `now` is what its
label says at the time of the answer. Standard library only: containers have nothing else."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import typing as t

UNKNOWN = "?"
FIELDS = ("revision", "generation", "length", "model", "build", "group", "formation", "now")


def label_of_this() -> dict[str, t.Any] | None:
    """This member's label, as it is now; None where there is none to read, as in a container."""
    member, state = os.environ.get("INFEROPS_PD_MEMBER", ""), os.environ.get("INFEROPS_PD_STATE", "")
    for path in glob.glob(os.path.join(glob.escape(state), "groups", "*", "members", member, "label.json")):
        try:
            with open(path, encoding="utf-8") as stream:
                label = json.load(stream)
        except (OSError, ValueError):
            continue
        if isinstance(label, dict):
            return label
    return None


def digest_of(model: str) -> str:
    """What stands for the weights: a model that was exchanged under its path is another one."""
    found = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(glob.escape(model), "*"))):
        try:
            with open(path, "rb") as stream:
                found.update(os.path.basename(path).encode() + b"\0" + stream.read(1 << 20))
        except OSError:
            continue
    return found.hexdigest()[:8]


class Self:
    """What a process knows of itself when it starts, and what its label says later."""

    def __init__(self, model: str, length: int) -> None:
        label = label_of_this() or {}
        self.told = {
            "revision": str(label.get("revision") or UNKNOWN),
            "generation": str(label.get("generation") or UNKNOWN),
            "length": str(length),
            "model": digest_of(model),
            # An image of another content has another one.
            "build": os.environ.get("STANDIN_BUILD", ""),
            "group": os.environ.get("INFEROPS_PD_GROUP") or str(label.get("group") or UNKNOWN),
            "formation": os.environ.get("INFEROPS_PD_FORMATION", ""),
        }

    def text(self) -> str:
        now = ""
        if not self.told["formation"]:
            label = label_of_this()
            now = UNKNOWN if label is None else str(label.get("formation") or "")
        return " ".join(f"{key}={value}" for key, value in {**self.told, "now": now}.items())


def read(text: str) -> list[dict[str, str]]:
    """Those that made an answer, of a fingerprint: prefill and decode, or one that served alone."""
    sides = [dict(word.partition("=")[::2] for word in side.split()) for side in text.split(">") if side]
    return [{field: side.get(field, "") for field in FIELDS} for side in sides]


def mixed(text: str) -> str:
    """What differs between those that made one answer, and must not; empty when nothing does."""
    sides = read(text)
    differs = [field for field in FIELDS[:-2] if len({side[field] for side in sides} - {UNKNOWN}) > 1]
    carried = {side["formation"] for side in sides} - {""}
    # One that carries none counts as what its label says now: with its peer, once a run has taken both over.
    taken = {side["now"] for side in sides if not side["formation"]} - {UNKNOWN}
    if not carried:
        taken -= {""}
    return ", ".join(differs + (["formation"] if len(carried | taken) > 1 else []))
