# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: what is said about a spec or a host. A list of them is the whole verdict; the worst severity decides."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from .printable import fit
from .words import about, is_about

Severity = t.Literal["error", "unverified", "warning"]
SEVERITIES: tuple[Severity, ...] = ("error", "unverified", "warning")
DOCS = "https://github.com/inferops/pd/blob/main/docs/findings.md"


@dataclass(frozen=True)
class Finding:
    """One message. `code` is stable and a heading of docs/findings.md; `hint` says what to do; `factor` names what could not be told."""

    severity: Severity
    code: str
    message: str
    hint: str = ""
    roles: tuple[str, ...] = ()
    host: str | None = None
    factor: str | None = None

    def __post_init__(self) -> None:
        """What is told in a finding may be a file's, a host's or a daemon's: it is made fit to be shown, line by line."""
        for name in ("message", "hint"):
            text = getattr(self, name)
            if not text.isprintable():
                object.__setattr__(self, name, "\n".join(map(fit, text.split("\n"))))

    def to_plain(self) -> dict[str, t.Any]:
        """The finding as results have it: what it is, and the link to its heading in docs/findings.md."""
        plain: dict[str, t.Any] = {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "roles": list(self.roles),
            "host": self.host,
            "link": f"{DOCS}#{self.code}",
        }
        if self.factor:
            plain["factor"] = self.factor
        return plain


@dataclass
class Findings:
    """A collector: rules add to it and go on, so that all reasons are told at once."""

    items: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Once is enough: what the engine's level says wrongly is read for each role, and told for both."""
        for at, known in enumerate(self.items):
            if known.message == finding.message and replace(known, roles=finding.roles) == finding:
                self.items[at] = replace(known, roles=tuple(dict.fromkeys((*known.roles, *finding.roles))))
                return
        self.items.append(finding)

    def error(
        self, code: str, message: str, hint: str = "", roles: t.Iterable[str] = (), host: str | None = None
    ) -> None:
        """What makes answers wrong or a start fail."""
        self.add(Finding("error", code, message, hint, tuple(roles), host))

    def warning(
        self, code: str, message: str, hint: str = "", roles: t.Iterable[str] = (), host: str | None = None
    ) -> None:
        """What costs speed or needs a person's eye."""
        self.add(Finding("warning", code, message, hint, tuple(roles), host))

    def unverified(self, factor: str, message: str, hint: str = "", roles: t.Iterable[str] = ()) -> None:
        """A pairing factor that cannot be told: the group deploys, marked with the factor's name."""
        self.add(Finding("unverified", "pairing-unverified", message, hint, tuple(roles), None, factor))

    def unread(self, message: str, hint: str = "", roles: t.Iterable[str] = ()) -> None:
        """What members would be, and cannot be compared: the group deploys."""
        self.add(Finding("unverified", "identity-unverified", message, hint, tuple(roles)))

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.items if f.severity == "error"]

    def fails(self, fail_on: str) -> bool:
        """Whether the worst finding reaches `fail_on`: error, unverified (or worse), warning (or worse), or never."""
        if fail_on == "never":
            return False
        limit = SEVERITIES.index(t.cast(Severity, fail_on))
        return any(SEVERITIES.index(f.severity) <= limit for f in self.items)

    def to_plain(self) -> list[dict[str, t.Any]]:
        """Worst first, in the order found within a severity."""
        return [f.to_plain() for f in sorted(self.items, key=lambda f: SEVERITIES.index(f.severity))]


def of_several(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Findings of which those that say the same of several hosts are one: `hosts` are its hosts, and its message begins with them. Findings
    of one host, or of none, are as they were."""
    alike: dict[tuple[str, ...], list[dict[str, t.Any]]] = {}
    for number, found in enumerate(findings):
        host = str(found.get("host") or "")
        mine = bool(host) and (found["message"].startswith(f"{host}: ") or is_about(host, found["message"]))
        said = [_without(host, found[key]) if mine else found[key] for key in ("message", "hint")]
        # What does not begin with its host is nobody else's.
        alike.setdefault((found["severity"], found["code"], *said, "" if mine else str(number)), []).append(dict(found))
    told = []
    for (_severity, _code, message, hint, _own), same in alike.items():
        hosts = [one["host"] for one in same if one.get("host")]
        if len(same) > 1:
            head, rest = message[: len(_NAME)], message[len(_NAME) :]
            told_of = about(hosts, _with(hosts, rest[1:])) if rest.startswith(" ") else _with(hosts, head + rest)
            same[0] |= {"message": told_of, "hint": _with(hosts, hint)}
        told.append({**same[0], "hosts": hosts})
    return told


_NAME = "\0"


def _without(host: str, text: str) -> str:
    """The text with a mark at each place of the host's name, as a word of its own."""
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", _NAME, text)


def _with(hosts: t.Sequence[str], text: str) -> str:
    """The text with all hosts at each mark; in a command, a pattern of Ansible or a list."""
    return re.sub(rf"(=|ping ){_NAME}", lambda m: m[1] + ",".join(hosts), text).replace(_NAME, ", ".join(hosts))


def sentences(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """The findings as warnings: one text each, those of several hosts together."""
    return [f"{found['message']} {found['hint']}".strip() for found in of_several(findings)]


def in_short(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """What a machine asks of findings that a person has been told: which, of what, where."""
    return [{key: found[key] for key in ("severity", "code", "roles", "host")} for found in findings]


def as_text(findings: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """The findings as a person reads them: one paragraph each, the reason first, then what to do."""
    lines = []
    for f in of_several(findings):
        where = f" [{', '.join(f['hosts'])}]" if f["hosts"] else ""
        # The hosts stand before it already.
        message = f["message"].removeprefix(f"{', '.join(f['hosts'])}: ") if len(f["hosts"]) > 1 else f["message"]
        lines.append(f"- {f['severity'].upper()} {f['code']}{where}: {message}")
        if f.get("hint"):
            lines.append(f"    {f['hint']}")
    return "\n".join(lines)
