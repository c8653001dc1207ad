# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of one engine role by itself: flags that hide others, adapters, its connector's JSON and identity, memory, addresses."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..base import placeholders
from ..base.finding import Findings
from ..base.words import counted
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group
from ..template.template import GroupTemplate
from . import checks_flags
from .pairing_side import Side, children_of

_OF_SIZE = re.compile(r"\$\{roles\.(prefill|decode)\.(tensor|data|pipeline)_parallel_size\}")
_OF_ADDRESS = re.compile(r"\$\{member\.(?:kv_)?address\}")


def check(group: Group, template: GroupTemplate, sides: tuple[Side, Side], known: Known, findings: Findings) -> None:
    for side in sides:
        checks_flags.check(template, side, findings)
        checks_flags.check_conflicts(template, side, findings)
        _check_model_flag(group, template, side, findings)
        _check_config_file(side, findings)
        _check_adapters(template, side, findings)
        _check_connector(template, side, findings)
        _check_allocator(side, findings)
        _check_memory(side, findings)
        _check_addresses(group, template, side, known, findings)
    checks_flags.check_ports(group, template, known, findings)
    _check_engine_ids(group, sides, findings)


def _check_model_flag(group: Group, template: GroupTemplate, side: Side, findings: Findings) -> None:
    """The model stands in the recipe's command; a flag would load another one under its name."""
    written = side.spec.args and side.value("model")
    in_recipe = any("${model}" in word for word in template.mode.command)
    if in_recipe and side.spec.command is None and written and written != group.model:
        findings.error(
            "owned-flag",
            f"{side.place('model')}: {side.flag('model')}={written} is not yours to set: the model of both roles is {group.model}.",
            "Remove it, and write the group's model.",
            [side.role],
        )


def _check_config_file(side: Side, findings: Findings) -> None:
    flag = next((f for f in side.engine.config_flags if side.arguments.has(f)), None)
    if flag:
        findings.unverified(
            "config file",
            f"{side.spec.flag_place(flag)}: --{flag} {side.arguments.value([flag])}: any flag may stand in that file, and nobody"
            " compares it with"
            " the other side.",
            "Write its flags into args, best at engine.args.",
            [side.role],
        )


def _check_adapters(template: GroupTemplate, side: Side, findings: Findings) -> None:
    flags = [f for f in side.engine.adapter_flags if side.arguments.has(f)]
    if not flags:
        return
    # A router of the user's own may know how to address them.
    say = findings.error if template.membership is not None else findings.warning
    say(
        "adapters-refused",
        f"{side.spec.flag_place(*flags)}: {', '.join('--' + f for f in flags)}: LoRA adapters cannot be addressed through the router,"
        " which knows"
        " members by the base model's name and answers 503.",
        "Remove it; serve merged weights as a model of their own.",
        [side.role],
    )


# -- the connector -------------------------------------------------------------------------------------------------------------


def _check_connector(template: GroupTemplate, side: Side, findings: Findings) -> None:
    """Where the mode has no connector of its own, the user's is read here; in both cases what no engine accepts in it."""
    names = side.engine.spellings.get("kv_connector")
    if not names:
        return
    written = side.arguments.value(names)
    if side.connector is None:
        if template.mode.connector is None and side.arguments.last(names) is not None:
            findings.error(
                "malformed-connector",
                f"{side.spec.flag_place(*names)}: the value of --{names[0]} is not a JSON object: {(written or 'nothing')[:120]!r}",
                f'Write it as one entry, for example \'--{names[0]}={{"kv_connector":"NixlConnector","kv_role":"kv_both"}}\'.',
                [side.role],
            )
        return
    _check_sizes(template, side, names[0], findings)
    child = next((c for c in children_of(side.connector) if "engine_id" in c), None)
    if child:
        findings.error(
            "malformed-connector",
            f"{side.spec.flag_place(*names)}: --{names[0]}: {child.get('kv_connector')} within a composed connector has an engine_id,"
            " and the"
            " engine would not start: it gives its children one itself.",
            "Remove engine_id.",
            [side.role],
        )


def _check_sizes(template: GroupTemplate, side: Side, flag: str, findings: Findings) -> None:
    """Where the recipe's connector carries both sides' parallel sizes, a user's own must say them as they are."""
    recipe = template.mode.connector
    wanted = _extra(recipe.by_role[side.role]) if recipe else {}
    children = [c for c in children_of(side.connector) if recipe and c.get("kv_connector") in recipe.names]
    given = _extra(children[0] if children else side.connector or {})
    for role in ENGINE_ROLES:
        for key, text in _mapping(wanted.get(role)).items():
            match = _OF_SIZE.fullmatch(str(text))
            mine = _mapping(given.get(role)).get(key)
            real = getattr(template.roles[match.group(1)].sizes, match.group(2)) if match else None
            # A connector that does not speak of stages takes one for granted.
            mine = 1 if mine is None and match and match.group(2) == "pipeline" else mine
            if match and mine is not None and str(mine) != str(real):
                findings.error(
                    "connector-sizes",
                    f"{side.spec.flag_place(flag)}: --{flag} says {key} {mine} of {role}, whose size is {real}: the engine would"
                    " compute other"
                    " ports than its peer, or not start.",
                    f"Write {key}: {real}, or leave --{flag} out for the recipe's.",
                    [side.role],
                )


def _extra(connector: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return _mapping(connector.get("kv_connector_extra_config"))


def _mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, t.Mapping) else {}


def _check_engine_ids(group: Group, sides: tuple[Side, Side], findings: Findings) -> None:
    """Two members of one engine id are one to their peers: what was asked of the second is read from the first, with status 200."""
    pinned = {s.role: str(s.connector["engine_id"]) for s in sides if s.connector and s.connector.get("engine_id")}
    shared: set[str] = set()
    if len(pinned) == 2 and len(set(pinned.values())) == 1 and not _of_member(pinned["prefill"]):
        shared = set(pinned)
    shared |= {role for role, text in pinned.items() if group.roles[role].replicas > 1 and not _of_member(text)}
    for role, text in pinned.items():
        if role in shared:
            who = (
                "both roles"
                if shared == set(pinned) and len(shared) == 2
                else counted(group.roles[role].replicas, "member")
            )
            findings.error(
                "shared-engine-id",
                f"{group.roles[role].args_place}: the connector's engine_id {text!r} is that of {who}: their peers take one for the"
                " other and answer 200"
                f" with wrong text (prefill {pinned.get('prefill', 'none')}, decode {pinned.get('decode', 'none')}).",
                "Remove engine_id: every process then makes its own.",
                [role],
            )
        else:
            findings.warning(
                "pinned-engine-id",
                f"{group.roles[role].args_place}: the connector's engine_id is pinned to {text!r}: when the member is restarted, its"
                " peers go on with"
                " the dead one under that name, and every request fails until they are restarted as well.",
                "Remove engine_id: every process then makes its own.",
                [role],
            )


def _of_member(text: str) -> bool:
    """Whether a text comes out differently for every member of the group."""
    names = {name.partition(":")[0] for name in placeholders.names(text)}
    return "member.id" in names or {"member.address", "port"} <= names or {"member.host", "port"} <= names


# -- memory --------------------------------------------------------------------------------------------------------------------


def _check_allocator(side: Side, findings: Findings) -> None:
    if side.connector is None or any(side.arguments.has(f) for f in side.engine.allocator_exempt):
        return
    for name in side.engine.allocator_env:
        value = side.env.get(name)
        if value and "expandable_segments:true" in value.replace(" ", "").lower():
            findings.error(
                "expandable-segments",
                f"{side.spec.env_place(name)}: {value!r}: with a KV connector the engine does not start, since the allocator may move"
                " memory that the connector has registered.",
                f"Remove expandable_segments:True, or add --{side.engine.allocator_exempt[0]}.",
                [side.role],
            )


def fraction_of(side_value: str | None) -> float | None:
    """A share of a card, above 0 and not above 1; None when the text is none."""
    try:
        number = float(side_value or "")
    except ValueError:
        return None
    return number if 0 < number <= 1 else None


def _check_memory(side: Side, findings: Findings) -> None:
    value = side.value("memory_fraction") if "memory_fraction" in side.engine.spellings else None
    if value is not None and fraction_of(value) is None and "${" not in value:
        findings.error(
            "memory-fraction",
            f"{side.place('memory_fraction')}: {side.flag('memory_fraction')} is {value!r}, and is a share of a whole card: above 0, 1"
            " at most.",
            "Write a share such as 0.9.",
            [side.role],
        )


# -- addresses -----------------------------------------------------------------------------------------------------------------


def _check_addresses(group: Group, template: GroupTemplate, side: Side, known: Known, findings: Findings) -> None:
    """A variable by which peers on other hosts find the member, set to an address that is every host's own."""
    recipe = template.mode.environment_of(side.role)
    for name, value in side.spec.env.items():
        if not _OF_ADDRESS.fullmatch(recipe.get(name, "")) or not _is_own(value):
            continue
        here = known.one_host(group)
        anything = value.strip().strip("[]") in ("0.0.0.0", "::")
        if here is False or (here and anything):
            findings.error(
                "own-address",
                f"{side.spec.env_place(name)}: {value!r} is every host's own address, and is what peers are told to connect to"
                " (prefill and decode are on several hosts)."
                if not here
                else f"{side.spec.env_place(name)}: {value!r} is no address to connect to, and is what peers are told.",
                "Leave it out: the recipe sets the address on the KV interface.",
                [side.role],
            )


def _is_own(value: str) -> bool:
    text = value.strip().strip("[]")
    if text.lower() in ("localhost", "localhost.localdomain"):
        return True
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def connector_number(side: Side, key: str) -> t.Any:
    """A number of the connector's extra configuration, its first child's included."""
    for connector in (side.connector or {}, *children_of(side.connector)):
        extra = connector.get("kv_connector_extra_config")
        if isinstance(extra, t.Mapping) and extra.get(key) is not None:
            return extra[key]
    return None
