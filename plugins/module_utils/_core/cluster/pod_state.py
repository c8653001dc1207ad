# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a member is, by its Pod: the API's words as those that every runtime has."""

from __future__ import annotations

import datetime
import json
import typing as t
from dataclasses import dataclass

from ..base import json_text
from ..base.printable import printable
from . import names
from .pod import ENGINE, REFUSED, SAID

# What kubelet says of a container that it cannot make, and will not by trying again.
_HOPELESS = (
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
_LONGEST = 400


@dataclass(frozen=True)
class PodState:
    """`state` is running, exited or missing, as of any member. `going`: it has been told to end. `gone`: nothing of it runs any more,
    whatever is left of the object. `scheduled`: it has a node. `image` is the digest or id of what really runs."""

    state: str
    why: str = ""
    ready: bool = False
    exit: int | None = None
    since: float | None = None
    restarts: int = 0
    going: bool = False
    gone: bool = False
    scheduled: bool = False
    draining: bool = False
    node: str | None = None
    image: str | None = None


def label_of(pod: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """The member label that a Pod carries; None where it has none that can be read."""
    text = json_text.mapping(json_text.mapping(pod.get("metadata")).get("annotations")).get(names.LABEL)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def read(pod: t.Mapping[str, t.Any]) -> PodState:
    """The state of a member, by its Pod."""
    meta, status = json_text.mapping(pod.get("metadata")), json_text.mapping(pod.get("status"))
    container = next(
        (one for one in json_text.objects(status.get("containerStatuses")) if one.get("name") == ENGINE), {}
    )
    how = json_text.mapping(container.get("state"))
    node = json_text.text(json_text.mapping(pod.get("spec")).get("nodeName")) or None
    common: dict[str, t.Any] = {
        "going": bool(meta.get("deletionTimestamp")),
        "restarts": json_text.count(container.get("restartCount")) or 0,
        "draining": names.DRAINING in json_text.mapping(meta.get("annotations")),
        "scheduled": bool(node),
        "node": node,
        "image": json_text.text(container.get("imageID")).rpartition("://")[2] or None,
    }
    ended = json_text.mapping(how.get("terminated"))
    if ended or status.get("phase") in ("Failed", "Succeeded"):
        return PodState("exited", _end(status, ended), exit=_code(ended), gone=True, **common)
    waits = json_text.mapping(how.get("waiting"))
    if json_text.text(waits.get("reason")) in _HOPELESS:
        return PodState("exited", _told("its container was not made", waits), **common)
    running = json_text.mapping(how.get("running"))
    if running:
        since = moment(running.get("startedAt"))
        lost = json_text.text(status.get("reason")) == "NodeLost"
        why = "its node does not answer" if lost else ""
        return PodState("running", why, bool(container.get("ready")), since=since, **common)
    return PodState("running", _waits(status, waits, bool(node)), **common)


def moment(text: t.Any) -> float | None:
    """Seconds of the epoch of a time as the API writes it; None for what is none."""
    try:
        read_ = datetime.datetime.strptime(json_text.text(text), "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return read_.replace(tzinfo=datetime.timezone.utc).timestamp()


def _code(ended: t.Mapping[str, t.Any]) -> int | None:
    return json_text.count(ended.get("exitCode"))


def _end(status: t.Mapping[str, t.Any], ended: t.Mapping[str, t.Any]) -> str:
    """Why it is over: what the container ended with, or what was done to the Pod."""
    if not ended:
        return _told("its Pod has failed", status)
    said = printable(json_text.text(ended.get("message"))).strip()
    if _code(ended) == REFUSED and SAID in said:
        return "not started: " + said.partition(SAID)[2].splitlines()[0][:_LONGEST]
    reason, signal = json_text.text(ended.get("reason")), json_text.count(ended.get("signal"))
    if reason == "OOMKilled":
        return "was ended for want of memory (OOMKilled): its limit, or the node's memory, is too small"
    how = f"was ended by signal {signal}" if signal else f"exited with status {_code(ended)}"
    evicted = json_text.text(status.get("reason"))
    return f"{how}; {_told('its Pod', status)}" if evicted else how


def _waits(status: t.Mapping[str, t.Any], waits: t.Mapping[str, t.Any], scheduled: bool) -> str:
    """Why it does not run yet."""
    if not scheduled:
        conditions = json_text.objects(status.get("conditions"))
        found = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
        return _told("no node takes it yet", found) if found.get("message") else "it waits for its node"
    return _told("its container is being made", waits) if waits else "its node has not begun with it yet"


def _told(what: str, of: t.Mapping[str, t.Any]) -> str:
    words = [printable(json_text.text(of.get(key))).strip() for key in ("reason", "message")]
    told = ": ".join(word for word in words if word)[:_LONGEST]
    return f"{what} ({told})" if told else what
