# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A registration with a router, from what is asked to what is told: for router_peers, and for the phase that starts a router."""

from __future__ import annotations

import typing as t

from .._core.base.errors import PdError
from . import dialect
from .reconcile import Outcome, Reconciler, Wanted

_DEFAULTS: dict[str, t.Any] = {
    "peers": [], "remove": [], "spare": [], "only_remove": False, "exclusive": True, "manage": True, "timeout": 30.0, "settle": 30.0,
    "keys": None,
}  # fmt: skip


def register(
    asked: t.Mapping[str, t.Any], check: bool, may_change: t.Callable[[], None] = lambda: None
) -> dict[str, t.Any]:
    """Do what router_peers was asked (its options, by name). A failure is `failed` and `msg` of the result; nothing is raised.
    `may_change` is asked before each change, and raises when it may not be made any more."""
    given = {**_DEFAULTS, **asked}
    fields = ("url", "model", "peers", "remove", "spare", "only_remove", "exclusive", "manage", "settle")
    wanted = Wanted(**{name: given[name] for name in fields}, keys=given["keys"] or {})
    try:
        outcome = Reconciler(dialect(given["dialect"]), wanted, given["timeout"], may_change=may_change).run(check)
    except PdError as exc:
        doing = "Taking members out of the router" if wanted.only_remove else "Registering members with the router"
        return {"failed": True, "msg": f"{doing} at {wanted.url}: {exc}"}
    return describe(outcome, given, check)


def describe(outcome: Outcome, params: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    """The result. It fails when the registry does not hold in the end what it must, or holds what it must not."""
    problems = [] if check else list(outcome.refusals)
    if outcome.foreign and not check:
        problems.append(_foreign(outcome.foreign, params))
    if outcome.missing and not check:
        beside = "; nobody is added beside what must not be there" if outcome.foreign and params["manage"] else ""
        problems.append(f"the router at {params['url']} did not admit {', '.join(outcome.missing)}{beside}")
    told = [f"{len(urls)} {word}" for urls, word in ((outcome.added, "added"), (outcome.removed, "removed")) if urls]
    summary = f"{len(outcome.confirmed)} of {len(params['peers'])} members confirmed by the router's list"
    if outcome.spared:
        summary += f"; {', '.join(outcome.spared)} stays in it: its host does not answer, and it may serve"
    failed = not check and bool(outcome.missing or outcome.foreign)
    hint = " Read its own list (GET /workers) and its log; deploy again repeats this."
    return {
        "changed": outcome.changed,
        "failed": failed,
        "added": outcome.added,
        "removed": outcome.removed,
        "confirmed": outcome.confirmed,
        "missing": outcome.missing,
        "stale": outcome.stale,
        "spared": outcome.spared,
        "unhealthy": outcome.unhealthy,
        "msg": "; ".join(problems) + "." + hint if failed else ", ".join([*told, summary]),
        "warnings": [] if failed else problems,
        "diff": {
            "before": _lines(outcome.before),
            "after": _lines(outcome.after) if not check else _planned(outcome, params),
        },
    }


def _foreign(urls: t.Sequence[str], params: t.Mapping[str, t.Any]) -> str:
    """Whom a router reaches that is not of the plan, and what ends it."""
    whom, are = ", ".join(urls), "are" if len(urls) > 1 else "is"
    if not params["manage"]:
        return (
            f"the router at {params['url']} was started with {whom}, which {are} no member as the plan has it: a request may go there."
            " Replace the router: inferops.pd.deploy, or inferops.pd.restart of its group"
        )
    return (
        f"the router at {params['url']} still has {whom}, which {are} no member as the plan has it: a request may go there. Take it out"
        " (DELETE /workers/..., the URL or the id encoded), or replace the router: inferops.pd.restart of its group"
    )


def _lines(peers: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    return "".join(sorted(f"{p['worker_type']} {p['url']}\n" for p in peers))


def _planned(outcome: Outcome, params: t.Mapping[str, t.Any]) -> str:
    roles = {p["url"]: p["role"] for p in params["peers"]}
    kept = [p for p in outcome.before if p["url"] not in outcome.removed]
    added = [{"worker_type": roles[url], "url": url} for url in outcome.added]
    return _lines([*kept, *added])
