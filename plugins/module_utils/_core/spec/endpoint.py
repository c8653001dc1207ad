# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `endpoint` of a group, and the entries of `pd_endpoint_hooks` that it names, as users write them."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.reader import NAME, Reader, told
from ..hooks.hook import DRAIN, GROUP, KINDS, MOST_WEIGHT, WEIGHT, Hook, Kind
from .row import At, label_value

VARIABLE = "pd_endpoint_hooks"


@dataclass(frozen=True)
class Endpoint:
    """`external_url` is what clients are told in place of the router's address; `hooks` are who is given that address, with `weight`."""

    external_url: str | None = None
    weight: int = WEIGHT
    hooks: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, t.Any]:
        """Without what is not written, so that no record of before becomes another one."""
        more = {"weight": self.weight, "hooks": list(self.hooks)}
        return {"external_url": self.external_url, **{k: v for k, v in more.items() if v != _PLAIN[k]}}


_PLAIN = {"weight": WEIGHT, "hooks": []}
NOTHING = Endpoint()


def of_group(at: At) -> Endpoint:
    """The endpoint of a group."""
    reader, where = at.reader, f"{at.where}.{at.key}"
    written = reader.mapping(at.where, at.written, at.key)
    reader.keys(where, written, ("external_url", "weight", "hooks"))
    url = reader.text(where, written, "external_url")
    if url is not None and not re.match(r"https?://[^/\s]+", url):
        # The value is not repeated: it may hold a password, or be a token.
        reader.findings.error(
            "bad-value",
            f"{where}.external_url: the value is no URL that begins with http:// or https://.",
            "Write a URL such as https://llm.example.org.",
        )
    weight = reader.integer(where, written, "weight", WEIGHT, 0, maximum=MOST_WEIGHT)
    return Endpoint(url, WEIGHT if weight is None else weight, _names(where, written, reader))


def _names(where: str, written: t.Mapping[str, t.Any], reader: Reader) -> tuple[str, ...]:
    """Hooks by name: a list, or one."""
    value = written.get("hooks")
    given = [value] if isinstance(value, str) and value.strip() else value
    if given in (None, ""):
        return ()
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        reader.bad(f"{where}.hooks", value, f"a list of names of {VARIABLE}")
        return ()
    return tuple(dict.fromkeys(one.strip() for one in given))


# -- pd_endpoint_hooks -----------------------------------------------------------------------------------------------------------------

# What each kind takes beside `kind` and `hosts`; what is needed with what it is.
_NEEDED: dict[Kind, dict[str, str]] = {
    "haproxy": {
        "backend": "the name of the backend whose servers the groups are",
        "file": "the file of the backend's section, which HAProxy loads beside the user's own",
        "reload": "the command, a list of words, that has HAProxy read its files anew",
    },
    "nginx": {
        "file": "the file of one group, which the user's upstream includes",
        "reload": "the command, a list of words, that has nginx read its files anew",
    },
    "file_sd": {"file": "the file of one group, which Prometheus watches"},
    "tasks": {"tasks": "the file of tasks on the controller"},
}
_MORE: dict[Kind, tuple[str, ...]] = {
    "haproxy": ("socket", "lines", "check", "drain"),
    "nginx": ("check",),
    "file_sd": ("labels",),
    "tasks": (),
}
# Kinds of which each group has a file of its own.
_OWN_FILE = ("nginx", "file_sd")


def read_hook(name: str, written: t.Any, reader: Reader) -> Hook | None:
    """One entry, or None for one that cannot be used, which has been said."""
    where, findings = f"{VARIABLE}.{name}", reader.findings
    before = len(findings.errors)
    if not NAME.fullmatch(name):
        findings.error(
            "bad-value", f"{where}: this is no name for a hook.", "Use lower case letters, digits, dots and hyphens."
        )
    if not isinstance(written, dict):
        reader.bad(where, written, "a dictionary such as {kind: haproxy, hosts: gateways, ...}")
        return None
    if written.get("kind") is None:
        reader.text(where, written, "kind", required=f"what it is told by: {', '.join(KINDS)}")
        return None
    kind: Kind | None = reader.choice(where, written, "kind", KINDS, None)
    if kind is None:
        return None
    reader.keys(where, written, ("kind", "hosts", *_NEEDED[kind], *_MORE[kind]))
    texts = {
        key: reader.text(where, written, key, required=why) or ""
        for key, why in {"hosts": "the pattern of the hosts that it is on", **_NEEDED[kind]}.items()
        if key != "reload" and not (key == "hosts" and isinstance(written.get(key), list))
    }
    hook = Hook(
        name=name,
        kind=kind,
        hosts=reader.pattern(where, written, "hosts", ""),
        file=texts.get("file") or texts.get("tasks") or "",
        backend=texts.get("backend", ""),
        socket=reader.text(where, written, "socket") or "",
        lines=tuple(reader.texts(where, written, "lines")),
        labels=_labels(where, written, reader),
        reload=_command(where, written, "reload", _NEEDED[kind].get("reload", ""), reader),
        check=_command(where, written, "check", "", reader),
        drain=reader.integer(where, written, "drain", DRAIN, 0) or 0,
    )
    _check_file(where, hook, reader)
    _check_section(where, hook, reader)
    return hook if len(findings.errors) == before else None


def _command(where: str, written: t.Mapping[str, t.Any], key: str, needed: str, reader: Reader) -> tuple[str, ...]:
    """A command as a list of words: no shell reads it."""
    value = written.get(key)
    if value in (None, "", []):
        if needed:
            reader.findings.error("missing-value", f"{where}.{key}: missing: {needed}.", f"Write {key}: [...]")
        return ()
    if isinstance(value, str):
        reader.findings.error(
            "bad-value",
            f"{where}.{key}: a command is a list of words, this is text.",
            f"Write {key}: [{', '.join(value.split()[:6])}].",
        )
        return ()
    return tuple(reader.texts(where, written, key))


def _labels(where: str, written: t.Mapping[str, t.Any], reader: Reader) -> dict[str, str]:
    found = {}
    for key, value in reader.mapping(where, written, "labels").items():
        text = label_value(value)
        if text is None or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", str(key)):
            reader.findings.error(
                "bad-value",
                f"{where}.labels.{key}: this is no label of Prometheus with a value of text.",
                "Use letters, digits and underscores for its name, and text for its value.",
            )
        else:
            found[str(key)] = text
    return found


def _check_file(where: str, hook: Hook, reader: Reader) -> None:
    if not hook.file or hook.kind == "tasks":
        return
    rest = hook.file.replace(GROUP, "")
    if "${" in rest or (hook.kind == "haproxy" and rest != hook.file):
        known = "none: all groups are in one section" if hook.kind == "haproxy" else GROUP
        reader.findings.error(
            "bad-value", f"{where}.file: it has a placeholder that is not known here.", f"Placeholders of it: {known}."
        )
    elif not hook.file.startswith("/"):
        reader.bad(f"{where}.file", hook.file, "the whole path of a file, from /")
    elif hook.kind in _OWN_FILE and GROUP not in hook.file:
        reader.findings.error(
            "bad-value",
            f"{where}.file: every group would write the same file.",
            f"Write {GROUP} where the group's name belongs, such as /etc/pd/{GROUP}.conf.",
        )


# What ends our section, or is what we write of it.
_NOT_OURS = re.compile(
    r"\s*(server|backend|frontend|listen|defaults|global|peers|resolvers|userlist|program|cache)(\s|$)"
)


def _check_section(where: str, hook: Hook, reader: Reader) -> None:
    for number, line in enumerate(hook.lines):
        found = _NOT_OURS.match(line)
        if found or "\n" in line.strip():
            what = f"`{found[1]}` is none of them" if found else "it is several lines"
            reader.findings.error(
                "bad-value",
                f"{where}.lines[{number}]: these are lines of the backend's section beside its servers, and {what}.",
                "Servers follow from the groups (default-server has options of all of them); other sections stand in a file of your own.",
            )
    if hook.backend and not re.fullmatch(r"[A-Za-z0-9_.:-]+", hook.backend):
        reader.findings.error(
            "bad-value",
            f"{where}.backend: {told(hook.backend)} is no name of a backend.",
            "Use letters, digits, dots, colons, hyphens and underscores.",
        )
