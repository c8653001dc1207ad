# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation: the whole verdict on a spec, before any host is asked. All reasons at once."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, replace

from ..base import braces
from ..base.finding import Findings
from ..base.reader import told
from ..base.version import below
from ..facts.observed import on_plane
from ..recipes.catalogue import Catalogue
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..runtimes.table import traits_of
from ..spec import spec
from ..spec.known import NOTHING, Known
from ..spec.spec import ENGINE_ROLES, Group
from ..template import template
from ..template.kv_cache_use import filled
from ..template.template import GroupTemplate
from . import (
    checks_cache,
    checks_engine,
    checks_hardware,
    checks_keys,
    checks_router,
    checks_runtime,
    checks_secrets,
    checks_written,
    pairing,
    resources,
)

# What judges is taken from here with what it is judged by.
__all__ = ("Catalogue", "Verdict", "validate")


@dataclass(frozen=True)
class Verdict:
    """The findings, and as much of the spec as could be read."""

    findings: Findings
    group: Group | None
    template: GroupTemplate | None


def validate(name: str, raw: t.Any, catalogue: Catalogue, known: Known = NOTHING) -> Verdict:
    """Judge one entry of `pd_groups`, with what is `known` beside it. Never raises for what a user wrote."""
    findings = Findings()
    # What people note is theirs.
    braces.check(raw, "", findings, but=("notes",))
    group = spec.parse(name, raw, findings)
    if group is None:
        return Verdict(findings, None, None)
    mode = _mode(group, catalogue, findings)
    if mode is None:
        return Verdict(findings, group, None)
    known = replace(known, hosts=on_plane(known.hosts, mode.interface_plane))
    engines = _engines(group, mode, catalogue, findings)
    if engines is None:
        return Verdict(findings, group, None)
    group = checks_written.check(group, mode, engines, findings)
    rendered = template.render(group, mode, engines, findings, known)
    _check_mode_rules(group, mode, findings)
    checks_hardware.check(group, mode, known, findings)
    checks_runtime.check(group, rendered, findings)
    if rendered is not None:
        _check_sizes(group, rendered, findings)
        sides = pairing.check(group, rendered, findings, known)
        checks_engine.check(group, rendered, sides, known, findings)
        checks_router.check(group, rendered, sides, findings)
        checks_cache.check(group, rendered, sides, known, findings)
        checks_secrets.check(group, findings)
        checks_keys.check(group, rendered, lambda role: spec.secrets_of(raw, role), findings)
        resources.check(group, rendered, known, findings)
        group = filled(group, rendered.uses, mode)
    return Verdict(findings, group, rendered)


def _mode(group: Group, catalogue: Catalogue, findings: Findings) -> Mode | None:
    if not group.mode:
        return None
    mode = catalogue.modes.get(group.mode)
    if mode is None:
        near = difflib.get_close_matches(group.mode, catalogue.modes, 1, 0.5)
        findings.error(
            "unknown-mode",
            f"pd_groups.{group.name}.mode: there is no mode {repr(group.mode) if near else told(group.mode)}.",
            (f"Did you mean {near[0]!r}? " if near else "")
            + f"Modes: {', '.join(sorted(catalogue.modes))}. Your own are found in the folder given by pd_modes_path.",
        )
    return mode


def _engines(group: Group, mode: Mode, catalogue: Catalogue, findings: Findings) -> dict[str, Engine] | None:
    """The engine of each engine role: the mode's, unless the role's own backend says another, which only a mode without one allows."""
    engines: dict[str, Engine] = {}
    for role in group.engine_roles:
        backend = role.backend or mode.backend or "Custom"
        engine = catalogue.engine(backend)
        if engine is None:
            findings.error(
                "backend-unknown",
                f"roles.{role.name}.backend: {told(backend)} cannot be disaggregated by this collection.",
                "Write vLLM or SGLang, or leave it out for the mode's.",
                [role.name],
            )
        elif mode.backend and engine.backend.lower() != mode.backend.lower():
            findings.error(
                "backend-mismatch",
                f"roles.{role.name}.backend: {backend} is not what mode {mode.name} configures ({mode.backend}).",
                f"Use a mode of {backend}, or mode custom to mix engines.",
                [role.name],
            )
        else:
            engines[role.name] = engine
    return engines if len(engines) == len(ENGINE_ROLES) else None


def _check_mode_rules(group: Group, mode: Mode, findings: Findings) -> None:
    if group.kv_load_failure_policy not in mode.kv_load_failure_policies:
        findings.error(
            "kv-policy-not-applied",
            f"kv_load_failure_policy: mode {mode.name} cannot apply {group.kv_load_failure_policy!r}.",
            f"Write {' or '.join(mode.kv_load_failure_policies)}.",
        )
    minimum = mode.kv_lease.get("minimum")
    if group.kv_lease is not None and minimum is not None and group.kv_lease < minimum:
        findings.error(
            "bad-value",
            f"kv_lease: {group.kv_lease} s is below {minimum} s, in which no queued request is renewed.",
            "Leave it out for the recipe's.",
        )
    if traits_of(group.runtime).images and not group.runtime_unread:
        for role in group.roles.values():
            if not role.image and not (role.name == "router" and mode.router and mode.router.image):
                findings.error(
                    "image-missing",
                    f"roles.{role.name}: runtime {group.runtime} needs an image, none is given.",
                    "Write engine.image, by digest.",
                    [role.name],
                )
    for role in group.engine_roles:
        if role.version and mode.known_versions and below(role.version, mode.known_versions) and not role.image:
            findings.warning(
                "version-below-floor",
                f"roles.{role.name}.version: {role.version} is older than what mode {mode.name}"
                f" is known to work with ({mode.known_versions}).",
                "Newer is safer; this is advice, not a limit.",
                [role.name],
            )


def _check_sizes(group: Group, rendered: GroupTemplate, findings: Findings) -> None:
    """`gpus` given and above zero must be what the parallel sizes need, by the engine's own arithmetic."""
    for role in group.engine_roles:
        sizes = rendered.roles[role.name].sizes
        if role.gpus and sizes.written and role.gpus != sizes.gpus:
            parallel = f"tensor {sizes.tensor} x data {sizes.data} x pipeline {sizes.pipeline}"
            findings.error(
                "gpus-mismatch",
                f"roles.{role.name}.gpus: {role.gpus} are given, the parallel sizes need {sizes.gpus} ({parallel}).",
                "Leave gpus out, or make them agree.",
                [role.name],
            )
        engine = rendered.engines[role.name]
        for option in ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size"):
            value = engine.arguments(rendered.roles[role.name].argv).value(engine.names(option))
            if value is not None and not (re.fullmatch(r"[0-9]{1,6}", value) and int(value) > 0):
                findings.error(
                    "bad-value",
                    f"{role.flag_place(*engine.names(option))}: --{engine.names(option)[0]} is {value!r}, not a whole number above zero.",
                    "Write a number.",
                    [role.name],
                )
