# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys at both ends: what prefill and decode ask for, and what their router shows them. A group whose ends differ forms, is ready, and
answers every request with 401. Values are compared, and stand in no message."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.arguments import Arguments, normal
from ..base.finding import Findings
from ..spec.spec import Group
from ..template.template import GroupTemplate
from ..work import key

# The values of a role's secrets.
Secrets = t.Callable[[str], t.Mapping[str, str]]


@dataclass(frozen=True, repr=False)
class Asked:
    """What an engine role asks its clients for. `keys` are those that it accepts, none where it serves everybody; None where a file that
    nobody has read here may hold one. `place` is where they stand."""

    keys: frozenset[str] | None
    place: str


def check(group: Group, template: GroupTemplate, secrets: Secrets, findings: Findings) -> None:
    asked = {role: _asked(group, template, role, secrets(role), findings) for role in ("prefill", "decode")}
    recipe, router = template.recipe, group.roles["router"]
    if recipe is None or recipe.key is None or router.command is not None:
        return  # what is the user's own may know a key for each
    prefill, decode = asked["prefill"].keys, asked["decode"].keys
    if prefill and decode and not prefill & decode:
        findings.error(
            "keys-differ",
            f"roles.prefill and roles.decode ask for different keys ({asked['prefill'].place}, {asked['decode'].place}), and a router shows"
            " both the same one: one of them answers 401 to every request.",
            "Write one key for both, under engine.secrets.",
            ["prefill", "decode"],
        )
        return
    if prefill is not None and decode is not None and bool(prefill) != bool(decode):
        guarded, other = ("prefill", "decode") if prefill else ("decode", "prefill")
        findings.warning(
            "keys-differ",
            f"roles.{guarded} asks for a key ({asked[guarded].place}), and roles.{other} serves everybody who reaches it.",
            "Write the key under engine.secrets, for both.",
            ["prefill", "decode"],
        )
    accepted = (prefill & decode if prefill and decode else prefill or decode) or frozenset()
    if accepted:
        where = asked["prefill" if prefill else "decode"].place
        _check_router(group, template, secrets("router"), accepted, where, findings)


def _asked(group: Group, template: GroupTemplate, name: str, secrets: t.Mapping[str, str], findings: Findings) -> Asked:
    role, engine, made = group.roles[name], template.engines[name], template.roles[name]
    written = key.of_flag(made.argv)
    if written:
        return Asked(frozenset(written), f"--{key.FLAG} in {role.args_place}")
    env = {**role.env, **secrets}
    told = {variable: env[variable] for variable in key.VARIABLES if env.get(variable)}
    read = {variable: value for variable, value in told.items() if variable in engine.key_env}
    if read:
        variable, value = next(iter(read.items()))
        return Asked(frozenset({value}), variable)
    from_file = any(engine.arguments(made.argv).has(flag) for flag in engine.config_flags)
    # An engine of the user's own may read whatever it likes.
    if told and not from_file and role.command is None and template.mode.backend is not None:
        findings.warning(
            "key-without-effect",
            f"roles.{name}: {engine.backend} does not read {next(iter(told))}: the members serve everybody who reaches them.",
            _way_out(engine.key_env),
            [name],
        )
        return Asked(frozenset(), "")
    if told:
        variable, value = next(iter(told.items()))
        return Asked(frozenset({value}), variable)
    return Asked(None if from_file else frozenset(), "")


def _way_out(variables: t.Sequence[str]) -> str:
    if variables:
        return f"Write it as {variables[0]} under engine.secrets."
    return (
        "It reads its key from its command line, which everybody on the host may read, or from a file: write `api-key: ...` into a YAML"
        " file of mode 0600 on each host, and --config=FILE in engine.args. SGLANG_API_KEY under engine.secrets tells the collection the"
        " same key."
    )


def _check_router(
    group: Group,
    template: GroupTemplate,
    secrets: t.Mapping[str, str],
    accepted: t.Collection[str],
    where: str,
    findings: Findings,
) -> None:
    """Whether what the router shows to engines is what these ask for."""
    recipe = template.recipe
    if recipe is None or recipe.key is None:
        return
    made, variable = template.roles["router"], recipe.key.variable
    mute = next((flag for flag in recipe.key.never_with if Arguments(made.argv).has(normal(flag))), None)
    if mute:
        findings.error(
            "key-not-shown",
            f"roles.router.args: with {mute} the router shows engines no key, and these ask for one ({where}): every request ends in 401.",
            f"Remove {mute}, or the engines' key.",
            ["router"],
        )
        return
    if variable is None:
        # It hands on what a client shows; and where it asks for a key itself, that is what clients show.
        own = key.of_flag(made.argv)
        if own and not set(own) & set(accepted):
            findings.error(
                "key-not-shown",
                f"roles.router.args: the router asks clients for another key (--{key.FLAG}) than the engines do ({where}), and hands on"
                " what clients show: no request passes both.",
                "Give both the same key.",
                ["router"],
            )
        return
    shown = {**group.roles["router"].env, **secrets}.get(variable)
    if shown not in accepted:
        findings.error(
            "key-not-shown",
            f"roles.router: the engines ask for a key ({where}), and the router shows them what {variable} holds, which is"
            f" {'another one' if shown else 'not set'}: every request ends in 401.",
            f"Write {variable} with the engines' key beside theirs, under engine.secrets, or under roles.router.secrets.",
            ["router"],
        )
    elif not group.endpoint.external_url:
        findings.warning(
            "endpoint-open",
            f"roles.router: the router shows the engines its own key ({variable}) and asks clients for none: whoever reaches the endpoint"
            " is served.",
            "Put a proxy that asks for a key before it, and name it in endpoint.external_url; let nobody else reach the router's port.",
            ["router"],
        )
