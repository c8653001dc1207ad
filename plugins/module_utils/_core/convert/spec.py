# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec that the parts of a pasted text come to: what prefill and decode have in common stands under engine, the rest at the roles."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.arguments import Option, options
from ..base.errors import PdError
from ..base.shell import is_secret
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..runtimes import table
from ..work.key import FLAG as KEY_FLAG
from . import keys
from . import part as parts
from .launch import Launch, Note, secret_value, unknown
from .part import Part, entry_of, vault
from .roles import ROLES, Roles, is_of_mode, mode_of

Spec = dict[str, t.Any]
# What is written where only the inventory can say it.
_HOSTS = {"prefill": "prefill_nodes", "decode": "decode_nodes", "router": "router_nodes"}
_PORT = 8000
# Flags by which routers, also those of others, are told their peers.
_PEERS = {
    "prefill": r"prefill(er)?(-(hosts?|urls?|servers?-urls?|addrs?))?",
    "decode": r"decoder?(-(hosts?|urls?|servers?-urls?|addrs?))?",
}


@dataclass(frozen=True)
class Converted:
    """A spec, and what became of each line of the text that it is made from."""

    spec: Spec
    notes: tuple[Note, ...]


def convert(
    roles: Roles,
    modes: t.Mapping[str, Mode],
    engine: t.Callable[[str | None], Engine | None],
    wanted: str | None = None,
) -> Converted:
    """The spec of a group that does what the launches of `roles` do. `modes` are all that there are, `wanted` the one to take."""
    mode = mode_of(roles, modes, wanted)
    its = engine(mode.backend or roles.launch["prefill"].program)
    if its is None:
        raise PdError(f"mode {mode.name}: no engine is known by the name {mode.backend!r}.")
    made = {role: parts.read(role, roles.launch[role], mode, modes.values(), its) for role in ROLES[:2]}
    router = roles.launch.get("router")
    shown, notes = keys.settle(made, router if router and is_of_mode(router, mode) else None, mode, its)
    notes = [*roles.notes, *notes]
    spec: Spec = {"mode": mode.name, **_of_group(made, notes)}
    spec["engine"], both = _common(made["prefill"], made["decode"])
    spec["roles"] = {role: _role(made[role], roles, both, notes) for role in ROLES[:2]}
    spec["roles"]["router"] = _router(roles, mode, spec, notes)
    if shown:
        spec["roles"]["router"]["secrets"] = shown
    images = any(made[role].launch.image for role in made)
    spec["runtime"] = next(name for name in table.NAMES if table.traits_of(name).images == images)
    if not images:
        others = [name for name in table.NAMES if name != spec["runtime"]]
        why = f"{spec['runtime']}, since the text names no image; {' or '.join(others)} would do as well (docs/spec.md)"
        notes.append(Note("", 0, "runtime", "decide", why))
    notes += [note for role in ROLES[:2] for note in (*_of_launch(made[role].launch, role), *made[role].notes)]
    order = ("mode", "model", "served_model_name", "runtime", "kv_load_failure_policy", "kv_lease", "engine", "roles")
    return Converted({key: spec[key] for key in order if spec.get(key) not in (None, {}, "")}, tuple(_once(notes)))


def _of_launch(launch: Launch, role: str) -> list[Note]:
    return [Note(role, note.line, note.what, note.outcome, note.why) for note in launch.notes]


def _once(notes: t.Iterable[Note]) -> list[Note]:
    """In the order of the text: what is of the whole first, then role by role."""
    order = {role: number for number, role in enumerate(("", *ROLES))}
    return sorted(dict.fromkeys(notes), key=lambda note: (order[note.role], note.line))


# -- the group ---------------------------------------------------------------------------------------------------------------------------


def _of_group(made: t.Mapping[str, Part], notes: list[Note]) -> Spec:
    """Keys of the group that a launch says; where the two say different things, prefill's, and a note."""
    found: Spec = {}
    for key in ("model", "served_model_name", "kv_load_failure_policy", "kv_lease"):
        said = {role: part.group[key] for role, part in made.items() if part.group.get(key)}
        if said:
            found[key] = said.get("prefill", next(iter(said.values())))
        if len(set(map(str, said.values()))) > 1:
            why = f"prefill says {said['prefill']}, decode {said['decode']}: a group has one"
            notes.append(Note("", 0, key, "decide", why))
    model = str(found.get("model") or "")
    if not model or "$" in model or "<" in model:
        found["model"] = "/models/MODEL"
        notes.append(Note("", 0, "model", "decide", "the text does not say it: write the model's path on the hosts"))
    elif not model.startswith("/"):
        name = re.sub(r"[^\w.-]", "-", model.rstrip("/").rpartition("/")[2]) or "MODEL"
        found["model"] = f"/models/{name}"
        found.setdefault("served_model_name", model)
        why = "an id of a hub, and models are local paths: put it there on every host of prefill and decode, or write where it is"
        notes.append(Note("", 0, f"model: {found['model']}", "decide", f"{model} is {why}"))
    elif "served_model_name" not in found:
        notes.append(
            Note(
                "",
                0,
                "served_model_name",
                "decide",
                "not written: clients named the model by its path, and will by the group's name",
            )
        )
    return found


# -- engine and roles ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Both:
    """What stands under engine: entries of args, and names of env, that both roles have alike."""

    args: frozenset[str]
    env: frozenset[str]
    keys: frozenset[str]


def _common(prefill: Part, decode: Part) -> tuple[Spec, _Both]:
    args = [entry for _name, entry in prefill.args if entry in {e for _n, e in decode.args}]
    env = {name: value for name, value in prefill.env.items() if decode.env.get(name) == value}
    found: Spec = {}
    for key, one, other in (
        ("image", prefill.launch.image, decode.launch.image),
        ("executable", prefill.launch.executable, decode.launch.executable),
        ("mounts", list(prefill.launch.mounts), list(decode.launch.mounts)),
        ("devices", list(prefill.launch.devices), list(decode.launch.devices)),
    ):
        if one and one == other:
            found[key] = one
    if args:
        found["args"] = args
    if env:
        found["env"] = env
    if prefill.secrets and sorted(prefill.secrets) == sorted(decode.secrets):
        found["secrets"] = _vaults(prefill.secrets)
    keys = frozenset(found) - {"args", "env"}
    order = ("image", "executable", "args", "env", "secrets", "mounts", "devices")
    return {key: found[key] for key in order if key in found}, _Both(frozenset(args), frozenset(env), keys)


def _vaults(names: t.Iterable[str]) -> dict[str, str]:
    return {name: f"{{{{ {vault(name)} }}}}" for name in sorted(names)}


def _role(part: Part, roles: Roles, both: _Both, notes: list[Note]) -> Spec:
    launch, role = part.launch, part.role
    found: Spec = {"hosts": _HOSTS[role]}
    notes.append(Note(role, 0, "hosts", "decide", f"{_HOSTS[role]}: write the pattern of its hosts"))
    told = _peers(roles.launch.get("router"), role)
    count = max(roles.count[role], told)
    if count > 1:
        found["replicas"] = count
        why = f"replicas: {count}" + (
            ", the flags of the first are taken" if roles.count[role] > 1 else ", as many as the router is told"
        )
        notes.append(Note(role, launch.line, "replicas", "taken", why))
    own: Spec = {
        "image": launch.image,
        "executable": launch.executable,
        "extra_args": [entry for _name, entry in part.args if entry not in both.args],
        "extra_env": {name: value for name, value in part.env.items() if name not in both.env},
        "secrets": _vaults(part.secrets),
        "mounts": list(launch.mounts),
        "devices": list(launch.devices),
    }
    return {**found, **{key: value for key, value in own.items() if value and key not in both.keys}}


# -- the router ----------------------------------------------------------------------------------------------------------------------------


def _peers(router: Launch | None, role: str) -> int:
    """How many members of a role a router is told of."""
    found = 0
    for option in options(router.words) if router else ():
        if re.fullmatch(_PEERS[role], option.name):
            # A bootstrap port may stand behind a URL.
            values = [v for v in re.split(r"[ ,]+", option.value or "") if v and not v.isdigit()]
            found += max(1, len(values))
    return found


def _router(roles: Roles, mode: Mode, spec: t.Mapping[str, t.Any], notes: list[Note]) -> Spec:
    launch = roles.launch.get("router")
    found: Spec = {"hosts": _HOSTS["router"], "port": _PORT}
    notes.append(Note("router", 0, "hosts", "decide", f"{_HOSTS['router']}: write the pattern of its hosts"))
    if launch is None:
        notes.append(
            Note(
                "router",
                0,
                "port",
                "decide",
                f"the text starts no router: {mode.router.dialect if mode.router else 'none'}, port {_PORT}",
            )
        )
        return found
    ours = is_of_mode(launch, mode)
    notes += _of_launch(launch, "router")
    if not ours:
        name = mode.router.dialect if mode.router else "a router of your own"
        notes.append(
            Note(
                "router",
                launch.line,
                launch.program,
                "decide",
                f"its place takes {name}; of its flags only the port is taken",
            )
        )
    args: list[str] = []
    for option in options(launch.words):
        _read_router_option(option, launch, mode, ours, found, args, notes)
    if ours and launch.executable:
        found["executable"] = launch.executable
    if ours and launch.image and launch.image != spec.get("engine", {}).get("image"):
        found["image"] = launch.image
    if args:
        found["args"] = args
    return found


def _read_router_option(
    option: Option, launch: Launch, mode: Mode, ours: bool, found: Spec, args: list[str], notes: list[Note]
) -> None:
    recipe, line = mode.router, launch.line_of(option.flag)
    value = option.value or ""
    if option.name == "port" and re.fullmatch(r"\d{1,5}", value):
        found["port"] = int(value)
        notes.append(Note("router", line, option.flag, "taken", f"port: {value}"))
        return
    if recipe is None or not ours:
        return
    derived = {o.name for m in recipe.memberships.values() for o in options((*recipe.arguments, *m.arguments))}
    if any(re.fullmatch(form, option.name) for form in _PEERS.values()):
        notes.append(Note("router", line, option.flag, "recipe", "its peers are the group's members"))
    elif option.name in derived or option.name in (
        "host",
        "port",
        "pd-disaggregation",
        "vllm-pd-disaggregation",
        "kv-connector",
    ):
        notes.append(Note("router", line, option.flag, "recipe", "the recipe connects the router"))
    elif option.name == KEY_FLAG:
        return
    elif unknown(value) or is_secret(option.name) or secret_value(value):
        notes.append(
            Note("router", line, option.flag, "decide", "its value is not known, or is a secret: it is left out")
        )
    elif not _tunable(option, mode):
        why = f"only membership {_elsewhere(option, mode)} has it: choose that at roles.router.membership and write it again"
        notes.append(Note("router", line, option.flag, "decide", why))
    else:
        args.append(entry_of(option, launch.words))
        notes.append(Note("router", line, option.flag, "taken", f"args: {args[-1]}"))


def _elsewhere(option: Option, mode: Mode) -> str:
    """The policy of membership that alone has a flag; nothing where the default one has it, or nobody knows it."""
    recipe = mode.router
    policies = [
        name
        for name, m in (recipe.memberships if recipe else {}).items()
        if option.name in {t_.flag.lstrip("-") for t_ in m.tunables}
    ]
    return policies[0] if recipe and policies and recipe.default_membership not in policies else ""


def _tunable(option: Option, mode: Mode) -> bool:
    return not _elsewhere(option, mode)
