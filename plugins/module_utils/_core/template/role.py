# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all members of one role have in common, rendered as far as the spec goes: of a group's roles and of a cache service alike.

What is written of a process (spec/fields.py) is kept whole, so that no way of rendering can lose a field of it."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, replace

from ..base import placeholders
from ..base.errors import PdError
from ..base.finding import Findings
from ..base.placeholders import Template
from ..recipes.engine import Sizes
from ..spec.cache_service import CacheService
from ..spec.fields import Process
from ..spec.row import revised
from .kv_cache_use import Use

Values = t.Mapping[str, t.Any]
# What of a recipe's value is a port that the plan gives.
_OF_PORT = re.compile(r"\$\{(port|ports\.[^}]*)\}")
# What the collection marks the processes of a member with (_probes/processes.py).
MARKS = "INFEROPS_PD_"
NO_SIZES = Sizes(1, 1, 1, 0, False)


@dataclass(frozen=True)
class RoleTemplate:
    """One role, rendered as far as the spec goes. `of` is what the spec says of it, with the image and the mounts that it comes to; texts
    still hold `${member...}`, `${port}` and `${ports...}`."""

    role: str
    of: Process
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    executable: str = ""
    files: tuple[t.Mapping[str, t.Any], ...] = ()
    gpus: int = 0
    sizes: Sizes = NO_SIZES
    bands: tuple[tuple[str, int], ...] = ()
    # The KV cache beside the transfer: what the label of a member says of it, its service, and whether it needs the host's IPC namespace.
    cache: Use | None = None
    host_ipc: bool = False
    # The same role without its cache, for a member whose host has no instance of the service.
    without_cache: RoleTemplate | None = None
    # Owned lines that the user pasted back: (as written, the derived template); the plan checks them against what it renders.
    pasted: tuple[tuple[str, str], ...] = ()

    def rendered(self) -> dict[str, t.Any]:
        """The part of the revision that every process has: nothing in it differs from host to host."""
        return {"argv": list(self.argv), "env": dict(self.env), **revised(self.of)}

    def masked(self) -> dict[str, t.Any]:
        """What the revision covers of a group's role."""
        masked = {**self.rendered(), "files": [dict(f) for f in self.files], "gpus": self.gpus}
        if self.cache:
            masked["cache"] = self.cache.to_plain()
        if self.host_ipc:
            masked["ipc"] = "host"
        return masked

    @property
    def image(self) -> str | None:
        return self.of.image

    @property
    def pull(self) -> str:
        """When a container's image is fetched; how a member comes to its image is no part of what it is."""
        return self.of.pull

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.of.secrets

    @property
    def mounts(self) -> tuple[t.Any, ...]:
        return self.of.mounts

    @property
    def devices(self) -> tuple[t.Any, ...]:
        return self.of.devices

    @property
    def resources(self) -> t.Mapping[str, t.Any]:
        return self.of.resources

    @property
    def service(self) -> CacheService | None:
        """The cache service that its members connect to."""
        return self.cache.service if self.cache and not self.cache.stands_down else None

    def port_demand(self) -> int:
        """Ports that one member takes on its host: its HTTP port and its bands."""
        return 1 + sum(width for _name, width in self.bands)


def revision_of(masked: t.Mapping[str, t.Any]) -> str:
    """The digest of masked role templates: 16 hex digits of SHA-256 over canonical JSON."""
    text = json.dumps(masked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# -- rendering one process ------------------------------------------------------------------------------------------------------------


def partial(text: str, values: Values) -> str:
    """A text with what the spec decides filled in; what only a host can tell stays."""
    return placeholders.fill(text, values, partial=True)


def mounted(of: Process, values: Values) -> Process:
    """What is written of a process, with what the spec decides filled into its mounts."""
    filled = tuple(partial(mount, values) if isinstance(mount, str) else mount for mount in of.mounts)
    return replace(of, mounts=filled)


def environment(
    place: str,
    of: Process,
    recipe: t.Mapping[str, str],
    values: Values,
    findings: Findings,
    roles: t.Sequence[str] = (),
) -> dict[str, str]:
    """The recipe's variables under the user's; one that the user takes over is said, and one that stands for ports of the plan is refused.
    What a secret sets is in neither."""
    env = {name: partial(value, values) for name, value in recipe.items()}
    owned = {name for name, value in env.items() if _OF_PORT.search(value)}
    for name, value in of.env.items():
        if name.startswith(MARKS):
            _say_owned(f"{place}.env.{name}", "the collection finds a member's processes by it", findings, roles)
        elif name in owned and env[name] != value:
            why = f"it stands for ports that the plan gives each member ({env[name]}), and {value!r} is none of them"
            _say_owned(f"{place}.env.{name}", why, findings, roles)
        elif name in env and env[name] != value:
            findings.warning(
                "environment-overridden",
                f"{place}.env.{name}: {value!r} takes the place of the recipe's {env[name]!r}.",
                "Leave it out unless you mean it: the recipe sets it so that members find each other.",
                roles,
            )
        env[name] = partial(value, values)
    for name in of.secrets:
        if name in owned or name.startswith(MARKS):
            _say_owned(f"{place}.secrets.{name}", "the plan gives it, and it is no secret", findings, roles)
        env.pop(name, None)
    return env


def _say_owned(place: str, why: str, findings: Findings, roles: t.Sequence[str]) -> None:
    findings.error("owned-variable", f"{place} is not yours to set: {why}.", "Remove it.", roles)


def check_placeholders(
    template: RoleTemplate,
    place: str,
    check: t.Callable[[str, str], None],
    findings: Findings,
    roles: t.Sequence[str] = (),
) -> None:
    """What is left in a template's texts must be what a host can fill in: `check` raises PdError for any other, given a text and its place.

    What the spec decides is filled in before: a name of that kind that is left has no value here."""
    mounts = tuple(mount for mount in template.mounts if isinstance(mount, str))
    for key, texts in (("args", template.argv), ("env", tuple(template.env.values())), ("mounts", mounts)):
        for text in texts:
            for name in placeholders.names(text):
                try:
                    check(f"${{{name.partition(':')[0]}}}", f"{place}.{key}")
                except PdError as exc:
                    findings.error("unknown-placeholder", str(exc), "", roles)


class CompiledRole:
    """A role template with its texts split once, to be filled in for thousands of members."""

    def __init__(self, template: RoleTemplate) -> None:
        self.template = template
        self.argv = [Template(a) for a in template.argv]
        self.env = [(name, Template(value)) for name, value in template.env.items()]
        self.mounts = [Template(m) if isinstance(m, str) else m for m in template.mounts]
        self.files = [{k: Template(v) if isinstance(v, str) else v for k, v in f.items()} for f in template.files]

    def fill_mounts(self, values: Values) -> list[t.Any]:
        return [m.fill(values) if isinstance(m, Template) else m for m in self.mounts]

    def fill(self, values: Values) -> tuple[list[str], dict[str, str], list[dict[str, t.Any]]]:
        """(argv, env, files) of one member. Raises PdError for a placeholder that has no value on its host."""
        argv = [a.fill(values) if a.parts else a.text for a in self.argv]
        env = {name: v.fill(values) if v.parts else v.text for name, v in self.env}
        files = [{k: v.fill(values) if isinstance(v, Template) else v for k, v in f.items()} for f in self.files]
        return argv, env, files
