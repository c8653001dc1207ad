# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec: one entry of `pd_groups`, read, checked for shape, and every inherited value filled in per role.

Inheritance is per field: a field that a role leaves out takes the engine-level value, one that it writes replaces it whole, an empty
list or dictionary included. `extra_args` and `extra_env` are the additive forms."""

from __future__ import annotations

import difflib
import typing as t

from ..base.finding import Findings
from ..base.reader import NAME, Reader, kind
from ..runtimes import table
from . import row
from .fields import MAX_PORT, Group, Role

# What others take from here beside what is written below.
__all__ = ("ENGINE_ROLES", "MAX_PORT", "ROLES", "Group", "Role", "parse", "secrets_of")

ENGINE_ROLES = row.ENGINE_ROLES
ROLES = row.ROLES


def parse(name: str, spec: t.Any, findings: Findings) -> Group | None:
    """Read one entry of `pd_groups`. What is wrong goes to `findings`; None when the shape leaves nothing to go on with."""
    where = f"pd_groups.{name}"
    reader = Reader(findings)
    if not NAME.fullmatch(name):
        findings.error(
            "bad-group-name",
            f"{where}: {name!r} is no name for a group.",
            "Use 1 to 48 lower-case letters, digits, dots and hyphens; it becomes part of unit, container and file names.",
        )
    if not isinstance(spec, dict):
        findings.error("bad-value", f"{where}: a group is a dictionary, this is {kind(spec)}.", "See docs/spec.md.")
        return None
    reader.keys(where, spec, row.keys(Group, "group"))
    engine = reader.mapping(where, spec, "engine")
    reader.keys(f"{where}.engine", engine, row.keys(Role, "engine"))
    values = row.read(Group, "group", reader, where, spec)
    values["served_model_name"] = values["served_model_name"] or name
    values["roles"] = _roles(where, spec, engine, reader)
    above = f"{where}.engine"
    return Group(
        name=name,
        **values,
        runtime_unread=spec.get("runtime") is not None and spec["runtime"] not in table.NAMES,
        engine_command=row.command(row.At(reader, above, engine, "command")),
        engine_executable=row.text(row.At(reader, above, engine, "executable")),
    )


def _roles(where: str, spec: dict[str, t.Any], engine: dict[str, t.Any], reader: Reader) -> dict[str, Role]:
    written = spec.get("roles")
    if not isinstance(written, dict) or not written:
        reader.findings.error(
            "missing-role",
            f"{where}.roles: "
            + ("no roles are given." if not written else f"roles are a dictionary by name, this is {kind(written)}."),
            "Write roles: {prefill: {hosts: ...}, decode: {hosts: ...}, router: {hosts: ...}}.",
        )
        written = {}
    for name in written:
        if name not in ROLES:
            near = difflib.get_close_matches(str(name), ROLES, 1, 0.5)
            reader.findings.error(
                "unknown-role",
                f"{where}.roles.{name}: there is no role {name!r}.",
                (f"Did you mean {near[0]!r}? " if near else "") + "Roles are prefill, decode and router.",
                [str(name)],
            )
    return {name: _role(f"{where}.roles.{name}", name, written, engine, reader) for name in ROLES}


def _own_fields(where: str, name: str, written: dict[str, t.Any], reader: Reader) -> dict[str, t.Any]:
    """What a role writes itself, as a dictionary whatever was there."""
    if written and name not in written:
        reader.findings.error(
            "missing-role",
            f"{where}: a group needs exactly one {name} role, none is written.",
            f"Add {name}: {{hosts: ...}}.",
            [name],
        )
    own = written.get(name)
    if own is not None and not isinstance(own, dict):
        reader.findings.error(
            "bad-value",
            f"{where}: a role is a dictionary, this is {kind(own)}.",
            "Write {hosts: ..., replicas: ...}.",
            [name],
        )
        own = None
    return own or {}


def _role(where: str, name: str, written: dict[str, t.Any], engine: dict[str, t.Any], reader: Reader) -> Role:
    own = _own_fields(where, name, written, reader)
    reader.keys(where, own, row.keys(Role, name), name)
    above = f"{where.split('.roles.')[0]}.engine"
    values = row.read_role(Role, name, reader, (where, own), (above, engine))
    if name == "router" and values["replicas"] != 1:
        reader.findings.error(
            "router-replicas",
            f"{where}.replicas: a group has exactly one router, {values['replicas']} are asked for.",
            "A second would split the prefix cache and give the group two addresses. Put a load balancer before several groups instead.",
            [name],
        )
    if not own.get("hosts") and name in written:
        reader.findings.error(
            "missing-value",
            f"{where}.hosts: missing: the Ansible host pattern that the {name} members run on.",
            "Write hosts: GROUP_OR_HOST.",
            [name],
        )
    if name == "router":
        values["gpus"] = 0
    return Role(name=name, **values, own=frozenset(key for key, value in own.items() if value is not None))


def secrets_of(spec: t.Any, role: str) -> dict[str, str]:
    """The values of a role's secrets, for the members action alone: they are in no plan, record, revision or result."""
    written = _object(spec)
    own, engine = _object(_object(written.get("roles")).get(role)), _object(written.get("engine"))
    from_engine = row.source(row.rows(Role)["secrets"], role, own, engine) == "engine"
    found = _object((engine if from_engine else own).get("secrets"))
    return {str(key): str(value) for key, value in found.items()}


def _object(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}
