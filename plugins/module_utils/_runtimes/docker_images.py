# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on a host: whether they are there, which they really are, and getting them."""

from __future__ import annotations

import time
import typing as t

from .._core.base import json_text
from . import docker_said
from .docker_api import LOOK_DEADLINE, Api, CallError
from .docker_said import Said
from .docker_spec import PULL_POLICIES
from .errors import HostError

# An image of an engine has tens of gigabytes; between two signs of life of its download less time passes.
PULL_LIMIT = 3600
PULL_SILENCE = 300


def look(api: Api, image: str) -> Said | None:
    """What the engine says of an image; None when it has none of that name."""

    def ask(client: t.Any) -> Said:
        return docker_said.image(client.inspect_image(image))

    try:
        return t.cast("Said", api.call(f"Looking for image {image}", ask, LOOK_DEADLINE))
    except CallError as exc:
        if exc.status == 404:
            return None
        raise


def digest_of(image: str, found: Said) -> str | None:
    """The digest that a registry knows an image by: that of the same repository, if it was pulled from several."""
    known = [name for name in found["RepoDigests"] if "@" in name]
    repository = image.partition("@")[0]
    head, colon, tag = repository.rpartition(":")
    repository = head if colon and "/" not in tag else repository
    mine = [name for name in known if name.partition("@")[0].endswith(repository)]
    return (mine or known or [""])[0].partition("@")[2] or None


def facts(api: Api, image: str) -> dict[str, t.Any]:
    """Whether an image exists, its id and digest. Of a missing one, whether its registry would give it, and why not."""
    found = look(api, image)
    if found:
        return {
            "exists": True,
            "id": found["Id"],
            "digest": digest_of(image, found),
            "size": found["Size"],
            "pullable": None,
            "why": "",
        }
    told: dict[str, t.Any] = {"exists": False, "id": None, "digest": None, "size": None, "pullable": False, "why": ""}
    try:
        offer = api.call(f"Asking the registry for {image}", lambda c: c.inspect_distribution(image), LOOK_DEADLINE)
    except HostError as exc:
        return {**told, "why": exc.reason}
    return {**told, "pullable": True, "digest": docker_said.offered_digest(offer)}


def ensure(api: Api, image: str, policy: str, member: str | None = None) -> Said:
    """The image as the engine has it, pulled first where the policy says so. Raises HostError when there is none."""
    if policy not in PULL_POLICIES:
        raise HostError(
            f"Reading pull policy {policy!r}", "there is no such policy", f"Write one of {', '.join(PULL_POLICIES)}."
        )
    found = None if policy == "always" else look(api, image)
    if found is None and policy == "never":
        raise HostError(
            f"Looking for image {image}",
            "it is not on the host, and pull is never",
            f"Load it there (docker load), pull it (docker pull {image}), or let it be pulled: pull: missing.",
            member,
        )
    if found is None:
        pull(api, image, member)
        found = look(api, image)
    if found is None:
        raise HostError(f"Pulling image {image}", "it is still not there", "Pull it by hand to see why.", member)
    return found


def pull(api: Api, image: str, member: str | None = None) -> None:
    """Pull an image. Raises HostError with the registry's reason."""
    hint = f"Try on the host: docker pull {image}. A registry that needs a login is logged in to by the user that Ansible runs as."
    repository, tag = _split(image)
    end = time.monotonic() + PULL_LIMIT

    def stream(client: t.Any) -> str:
        for event in client.pull(repository, tag=tag, stream=True, decode=True):
            error = json_text.member(event, "error")
            if error:
                return str(error)
            if time.monotonic() > end:
                return f"it is not done after {PULL_LIMIT / 60:.0f} minutes"
        return ""

    problem = api.call(f"Pulling image {image}", stream, PULL_SILENCE, hint, member)
    if problem:
        raise HostError(f"Pulling image {image}", problem, hint, member)


def _split(image: str) -> tuple[str, str]:
    """(repository, tag or digest), as the API wants them."""
    if "@" in image:
        repository, _at, digest = image.partition("@")
        head, colon, tag = repository.rpartition(":")
        return (head if colon and "/" not in tag else repository), digest
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")
