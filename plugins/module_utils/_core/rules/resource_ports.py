# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of ports, sockets and folders that a user writes as they are: each is one member's of a host, and none is the plan's to give."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base import address
from ..base.arguments import Arguments
from ..base.finding import Findings
from ..recipes.mode import Mode
from ..runtimes.table import traits_of
from ..spec.known import Known
from ..spec.spec import Group, Role
from ..template import kv_compose
from ..template.template import GroupTemplate
from .pairing_side import children_of, connector_child
from .stands_for import CONNECTOR_PORTS, Stated, stated, told

# Where vLLM and SGLang publish KV events when the configuration names no endpoint.
EVENTS = "tcp://*:5557"
# What is bound of these: a publisher's own endpoint with any address, and a replay's whatever its address.
_BOUND = re.compile(r"tcp://(?:\*|\[?::\]?):(\d{1,5})")
_TCP = re.compile(r"tcp://[^/]*:(\d{1,5})")


@dataclass(frozen=True)
class Claim:
    """What a member takes by a user's text: `port`, or a socket or folder by its path. `of` is the text."""

    of: Stated
    port: int = 0
    path: str = ""
    folder: bool = False

    @property
    def what(self) -> str:
        return f"port {self.port}" if self.port else self.path

    @property
    def told(self) -> str:
        """Where and what is written; of a long value that which matters."""
        inside = self.of.kind in ("endpoints", "connector")
        return f"{self.of.place}: {self.of.name} with {self.what}" if inside else told(self.of)


# -- reading ---------------------------------------------------------------------------------------------------------------------------


def claims_of(role: Role, arguments: Arguments, env: t.Mapping[str, str], ranks: int) -> t.Iterator[Claim]:
    """What a member with this command line and environment takes, as far as it is written as a number. `ranks` are its data-parallel
    ones: each publishes its events on a port of its own."""
    for one in stated(role, arguments, env):
        if one.kind == "port" and one.literal:
            yield from _ports(one, address.port(one.text) or 0)
        elif one.kind == "HOST:PORT" and address.split(one.text):
            yield from _ports(one, (address.split(one.text) or ("", 0))[1])
        elif one.kind == "folder" and one.literal and one.text.startswith("/"):
            yield Claim(one, path=one.text.rstrip("/"), folder=True)
        elif one.kind in ("endpoint", "endpoints, ranks"):
            yield from _bound(one, one.text, _TCP, 1 if one.kind == "endpoint" else ranks)
        elif one.kind == "endpoints":
            yield from _endpoints(one, ranks)
        elif one.kind == "connector":
            yield from _of_connector(one)


def _ports(one: Stated, first: int, count: int = 1) -> t.Iterator[Claim]:
    """0 is any free one."""
    return (Claim(one, port) for port in range(first, first + count) if first and port <= address.LAST_PORT)


def _endpoints(one: Stated, ranks: int) -> t.Iterator[Claim]:
    """What a publisher of KV events binds; to an endpoint with an address it connects."""
    config = kv_compose.read_with_placeholders(one.text) or {}
    on = config.get("enable_kv_cache_events") is True
    if config.get("publisher", "zmq" if on else None) != "zmq":
        return
    for key, pattern, default in (("endpoint", _BOUND, EVENTS), ("replay_endpoint", _TCP, "")):
        yield from _bound(one, str(config.get(key, default) or ""), pattern, ranks)


def _bound(one: Stated, endpoint: str, pattern: re.Pattern[str], count: int) -> t.Iterator[Claim]:
    match = pattern.fullmatch(endpoint)
    if match:
        yield from _ports(one, int(match[1]), count)
    elif endpoint.startswith("ipc://") and "${" not in endpoint:
        yield Claim(one, path=endpoint)


def _of_connector(one: Stated) -> t.Iterator[Claim]:
    whole = kv_compose.read_with_placeholders(one.text) or {}
    for connector in (whole, *children_of(whole)):
        for key in CONNECTOR_PORTS.get(str(connector.get("kv_connector") or connector.get("ec_connector")), ()):
            port = _key(connector, key)
            if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= address.LAST_PORT:
                yield Claim(one, port)


def _key(connector: t.Mapping[str, t.Any], key: str) -> t.Any:
    extra = connector.get("kv_connector_extra_config")
    return connector.get(key, extra.get(key) if isinstance(extra, t.Mapping) else None)


# -- before anything is placed ---------------------------------------------------------------------------------------------------------


def check(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    """What no placement can make right."""
    claims: dict[tuple[str, str], list[Claim]] = {}
    for role in group.engine_roles:
        rendered = template.roles[role.name]
        arguments = template.arguments(role.name, rendered.argv)
        for one in stated(role, arguments, rendered.env):
            _check_number(one, findings)
            _check_band(template.mode, one, findings)
        for claim in claims_of(role, arguments, rendered.env, rendered.sizes.data):
            claims.setdefault((claim.of.name, claim.what), []).append(claim)
    for same in claims.values():
        roles = list(dict.fromkeys(claim.of.role for claim in same))
        members = sum(group.roles[role].replicas for role in roles)
        found = [known.hosts_of(group.roles[role]) for role in roles]
        hosts = {name for names in found for name in names or ()}
        if None in found or members <= len(hosts) or not shared(group.runtime, same[0]):
            continue
        where = f"the one host {next(iter(hosts))}" if len(hosts) == 1 else f"{len(hosts)} hosts"
        say_twice(
            same[0],
            f"{members} members ({' and '.join(roles)}) would take it, and have {where} to be on",
            roles,
            findings,
        )


def shared(runtime: str, claim: Claim) -> bool:
    """Whether two members of a host meet there: what is in a container's file system, no other one sees."""
    return bool(claim.port) or not traits_of(runtime).containers


def say_twice(claim: Claim, why: str, roles: t.Sequence[str], findings: Findings, host: str | None = None) -> None:
    findings.error(
        "claimed-twice",
        f"{claim.told}: {why}.",
        "Leave it out, if the engine then takes a free one; else write another one for each role, or let ${port}, ${ports.BAND} or"
        " ${member.id} of the plan stand in it.",
        roles,
        host,
    )


def _check_number(one: Stated, findings: Findings) -> None:
    """A port that is none: where Kubernetes or Docker links made the variable, it is a URI, and the engine ends with it."""
    if one.kind == "port" and one.literal and address.port(one.text) is None:
        findings.error(
            "bad-value",
            f"{told(one)}: this is no port"
            + (" but a URI, as links between services make it" if "://" in one.text else "")
            + ", and the engine would not start.",
            "Leave it out, or write a number.",
            [one.role],
        )


def _check_band(mode: Mode, one: Stated, findings: Findings) -> None:
    """A user's own connector must listen where the recipe's does: the plan keeps these ports for it, and waits for them."""
    recipe = mode.connector
    whole = kv_compose.read_with_placeholders(one.text) if one.kind == "connector" and recipe else None
    if recipe is None or whole is None or connector_child(whole, recipe.names) not in recipe.names:
        return
    mine = next((c for c in children_of(whole) if c.get("kv_connector") in recipe.names), whole)
    wanted = recipe.by_role[one.role]
    extra = wanted.get("kv_connector_extra_config")
    for key, text in {**wanted, **(extra if isinstance(extra, t.Mapping) else {})}.items():
        value = _key(mine, key)
        if not str(text).startswith("${port") or (isinstance(value, str) and _same(value, str(text))):
            continue
        findings.error(
            "owned-flag",
            f"{one.place}: {one.name}: {key} is {'left out' if value is None else value}, and stands for ports that the plan gives"
            f" ({text}): the member would listen elsewhere.",
            f'Write "{key}": {text}, or leave {one.name} out for the recipe\'s.',
            [one.role],
        )


def _same(value: str, wanted: str) -> bool:
    bare = kv_compose.bare_name(value)
    return (f"${{{bare}}}" if bare else value) == wanted
