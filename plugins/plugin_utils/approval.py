# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was approved, as a run is given it, and whether the plan that it has made is that. A plan is written down here, too: on the
controller, whole or not at all, for its user alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
import typing as t
from dataclasses import dataclass, field

from ..module_utils._core.base import json_text
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.base.words import MOST_HOSTS, names
from ..module_utils._core.report import artifacts
from ..module_utils._core.report.proposal import Planned, Proposal, differences

# In place of a digest: whatever it is, unless a file says what. A run that has carried out what was approved says so to what follows it.
ANY = "any"
MOST_LINES = 300
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Approved:
    """`digest` is what was approved, `proposal` the same in full where its file is at hand, `digests` those of its workloads."""

    digest: str
    proposal: Proposal | None = None
    digests: t.Mapping[str, str] = field(default_factory=dict)

    def against(self, now: Proposal) -> Findings:
        """What is found where the plan is another one by now; nothing where it is the same."""
        findings = Findings()
        if now.digest == self.digest:
            return findings
        findings.error(
            "plan-not-approved",
            f"Approved was the plan {_short(self.digest)}, and by now it is {_short(now.digest)}: {self._which(now)}."
            " Nothing was done, and nothing locked, on any host.",
            f"Read the plan as it is now (--check --diff), and approve it: -e pd_plan_digest={now.digest}",
        )
        return findings

    def told(self, now: Proposal) -> list[str]:
        """What differs, line by line, where what was approved is at hand; of a fleet that was edited all over, nobody reads every line."""
        lines = self.proposal.until(now) if self.proposal else []
        if not lines:
            return []
        more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        return ["", "What was approved (-), and what it is by now (+):", *lines[:MOST_LINES], *more, ""]

    def _which(self, now: Proposal) -> str:
        before = self.proposal.digests if self.proposal else self.digests
        if not before:
            return "which workload differs is told where pd_plan_file or pd_plan_digests is given"
        found = differences(before, now.digests)
        kinds = ((found.changed, "changed"), (found.came, "came to it"), (found.went, "left it"))
        told = [f"{names(some, MOST_HOSTS)} {word}" for some, word in kinds if some]
        return "; ".join(told) or "each workload is as it was, and the run as a whole is another"


def approved(digest: object, file: str | None, digests: object) -> Approved | None:
    """What a run was given to carry out, None where it was given nothing. Raises PdError for what is no digest, and for a file that cannot
    be read, was edited, or is of another plan."""
    told = None if digest is None else str(digest).strip().lower()
    if told is not None and told != ANY and not _DIGEST.fullmatch(told):
        raise PdError(
            f"pd_plan_digest: {str(digest)[:80]!r} is no digest of a plan. Give the 64 hexadecimal digits that a run with"
            f" --check tells, and -e pd_plan_out=FILE writes; the word {ANY} carries out whatever it is."
        )
    told = None if told == ANY else told
    if told is None and not file:
        return None
    proposal = _read(file) if file else None
    if proposal and told and proposal.digest != told:
        raise PdError(
            f"pd_plan_file: {file} is of the plan {_short(proposal.digest)}, and pd_plan_digest is {_short(told)}. Give the"
            " file that was written with the plan that was approved, or leave it out."
        )
    return Approved(told or t.cast("Proposal", proposal).digest, proposal, _digests(digests))


def _short(digest: str) -> str:
    """As much of it as tells it from others, in a sentence."""
    return f"{digest[:12]}…"


def stats(
    proposal: Proposal,
    action: str,
    planned: t.Sequence[Planned],
    checks: bool,
    given: Approved | None,
    part: bool = False,
) -> dict[str, t.Any]:
    """What a run tells those that follow it (ansible_stats). A check run hands its digest on; one that was `given` a digest says that it is
    spent, since AWX gives it to all that follow. A `part` of something greater is approved with that."""
    approves = None if part else proposal.digest if checks else ANY if given else None
    return {"data": artifacts.of(proposal, action, planned, approves), "per_host": False, "aggregate": False}


def check_given(variable: t.Callable[[str], t.Any]) -> None:
    """Raise PdError for what could not be used later, before any host is asked. `variable` reads a variable of the play."""
    approved(variable("pd_plan_digest"), variable("pd_plan_file"), variable("pd_plan_digests"))
    if variable("pd_plan_out"):
        _place(str(variable("pd_plan_out")))


def write(file: str, proposal: Proposal) -> None:
    """Write a proposal down. It has no secret; values of variables are in it as --diff shows them. Raises PdError where it cannot be."""
    path = _place(file)
    text = json.dumps(proposal.to_plain(), indent=1, ensure_ascii=False) + "\n"
    made = ""
    try:
        # mkstemp makes it for its user alone.
        handle, made = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".pd-plan-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(made, path)
    except OSError as exc:
        if made and os.path.exists(made):
            os.unlink(made)
        raise PdError(f"pd_plan_out: {path} cannot be written: {exc.strerror}.") from exc


def _place(file: str) -> str:
    path = os.path.abspath(os.path.expanduser(file))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise PdError(f"pd_plan_out: there is no folder {folder} on the controller. Make it first: mkdir -p {folder}")
    if os.path.isdir(path):
        raise PdError(f"pd_plan_out: {path} is a folder. Name a file in it.")
    return path


def _read(file: str) -> Proposal:
    path = os.path.abspath(os.path.expanduser(file))
    try:
        with open(path, encoding="utf-8") as stream:
            return Proposal.from_plain(json_text.loads(stream.read()))
    except OSError as exc:
        raise PdError(f"pd_plan_file: {path} cannot be read: {exc.strerror}.") from exc
    except (PdError, ValueError) as exc:
        raise PdError(
            f"pd_plan_file: {path} is not what -e pd_plan_out=FILE has written: {exc} Write the plan anew, and approve it."
        ) from exc


def _digests(value: object) -> dict[str, str]:
    """By workload; as text of JSON, too, the way -e gives them."""
    if isinstance(value, str) and value.strip():
        try:
            value = json_text.loads(value)
        except ValueError as exc:
            raise PdError(
                "pd_plan_digests: it is no JSON. Give what a run has told under that name, or leave it out."
            ) from exc
    return {str(name): one for name, one in json_text.mapping(value).items() if isinstance(one, str)}
