# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders: `${name}` in modes and specs, a closed list. (Double braces would be Jinja in the inventory.)

A template is compiled once for a role and filled in for each member, since a plan may hold thousands of members."""

from __future__ import annotations

import difflib
import json
import re
import typing as t

from .errors import PdError

# No name is longer: without a bound a text of many beginnings and no end takes the square of its length.
PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]{0,400})\}")

# What differs from host to host, and is masked in a revision: members on any hosts are of one.
OF_MEMBER = (
    "member.id",
    "member.index",
    "member.host",
    "member.address",
    "member.kv_address",
    "member.kv_interface",
    "member.ucx_net_devices",
    "member.rdma_devices",
    "member.gpus",
    "group.addresses",
    "group.no_proxy",
    "port",
    "peers.prefill",
    "peers.decode",
)
# One peer of the router, in a mode's `peers` alone.
OF_PEER = ("peer.url", "peer.address", "peer.port")
# The instance of a cache service that a member uses: for providers that are a service. It differs from host to host, too.
OF_CACHE = ("kv_cache.address", "kv_cache.host", "kv_cache.port")
# What the spec alone decides.
OF_ROLE = (
    "group",
    "role",
    "model",
    "served_model_name",
    "executable",
    "kv_load_failure_policy",
    "kv_lease",
    "connector_variant",
    "tensor_parallel_size",
    "data_parallel_size",
    "pipeline_parallel_size",
    "gpus",
    "files",
)
_PORTS = re.compile(r"(ports|peer\.ports)\.([A-Za-z_]\w*)(\.count)?")
_ROLES = re.compile(r"roles\.(prefill|decode)\.(tensor_parallel_size|data_parallel_size|pipeline_parallel_size)")


def known(name: str, bands: t.Collection[str], scopes: t.Collection[str] = ("role", "member")) -> bool:
    """Whether `name` is a placeholder of the closed list, `bands` being the mode's. `scopes` says what can have a value there: role (what
    the spec decides), member, or peer."""
    match = _PORTS.fullmatch(name)
    if match:
        return match.group(2) in bands and ("peer" if match.group(1) == "peer.ports" else "member") in scopes
    if "role" in scopes and (name in OF_ROLE or _ROLES.fullmatch(name)):
        return True
    return ("member" in scopes and name in OF_MEMBER) or ("peer" in scopes and name in OF_PEER)


def names(text: str) -> list[str]:
    """The placeholders in a text, in order."""
    return [m.group(1) for m in PLACEHOLDER.finditer(text) if m.group(1) is not None]


def check(
    text: str,
    bands: t.Collection[str],
    where: str,
    scopes: t.Collection[str] = ("role", "member"),
    more: t.Collection[str] = (),
) -> None:
    """Raise PdError for a placeholder that does not exist there, naming it, its place and the nearest one. `more` are names that exist at
    this place beside the closed list."""
    for name in names(text):
        if name not in more and not known(name, bands, scopes):
            every = [*OF_MEMBER, *OF_ROLE, *(f"ports.{b}" for b in bands)]
            if "peer" in scopes:
                every = [*OF_PEER, *(f"peer.ports.{b}" for b in bands)]
            every = [*(e for e in every if known(e, bands, scopes)), *more]
            near = difflib.get_close_matches(name, every, 1, 0.5)
            raise PdError(
                f"{where}: there is no placeholder ${{{name}}}."
                + (f" Did you mean ${{{near[0]}}}?" if near else f" Known are: {', '.join(every)}.")
            )


def from_json(value: t.Any) -> str:
    """A JSON template, compact. A string that is only a placeholder keeps its source's type: the quotes around it are dropped and the
    value is written as JSON when it is filled in."""
    text = json.dumps(value, separators=(",", ":"))
    return re.sub(r'"\$\{([^}:]+)\}"', r"${\1:json}", text)


class Template:
    """One text with placeholders, split once. `fill` joins it with values; within JSON it writes a text as JSON has it, quotes escaped."""

    __slots__ = ("is_json", "parts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[tuple[str, str]] = []
        at = 0
        for match in PLACEHOLDER.finditer(text):
            self.parts.append((text[at : match.start()], match.group(1) if match.group(1) is not None else "$"))
            at = match.end()
        self.is_json = bool(self.parts) and _is_json(text)
        if self.parts:
            self.parts.append((text[at:], ""))

    def fill(self, values: t.Mapping[str, t.Any], partial: bool = False) -> str:
        """The text with every placeholder replaced. One without a value raises PdError, or stays when `partial`."""
        if not self.parts:
            return self.text
        out = []
        for literal, name in self.parts:
            out.append(literal)
            if name == "$":
                out.append("$${" if partial else "${")
            elif name:
                out.append(self._value(name, values, partial))
        return "".join(out)

    def _value(self, name: str, values: t.Mapping[str, t.Any], partial: bool) -> str:
        plain, _colon, kind = name.partition(":")
        if plain not in values:
            if partial:
                return f"${{{name}}}"
            raise PdError(f"${{{plain}}} has no value here (in {self.text!r}).")
        value = values[plain]
        if kind == "json":
            return json.dumps(value, separators=(",", ":"))
        told = ",".join(str(v) for v in value) if isinstance(value, (list, tuple)) else str(value)
        return json.dumps(told)[1:-1] if self.is_json else told


def _is_json(text: str) -> bool:
    """Whether a text, or the value of the flag that it writes, is an object or a list of JSON."""
    value = text.partition("=")[2] if text.startswith("-") else text
    if value[:1] not in ("{", "["):
        return False
    try:
        json.loads(PLACEHOLDER.sub("0", value))
    except (ValueError, RecursionError):
        return False
    return True


def fill(text: str, values: t.Mapping[str, t.Any], partial: bool = False) -> str:
    """`Template(text).fill(values)`, for a text that is filled once."""
    return Template(text).fill(values, partial) if "${" in text else text
