# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of a group: its members are of one formation, and then real requests through its router, and one through each pair of members,
measured by the engines' own counters."""

from __future__ import annotations

import contextlib
import time
import typing as t
import uuid
from dataclasses import dataclass, field

from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.proof import evidence
from .._core.proof.asked import Asked, Engine
from .._core.proof.completion import Completion, context_of
from .._core.proof.evidence import Growth, Transfer
from .._core.work.key import WANTS_KEY, Keys
from .._probes import credentials, http, metrics

ATTEMPTS = 3
ANSWER_TOKENS = 16
# How often a request is sent again while a router has members that cannot be asked: it goes to each in turn.
SPARE_TRIES = 6
# Counters follow an answer within a step of the engine's loop.
SETTLE_FOR = 2.0
SETTLE_EVERY = 0.1
METRICS_TIMEOUT = 10.0
# Pairs whose way is told.
MOST_WAYS = 4

Result = dict[str, t.Any]


class Refused(PdError):  # noqa: N818 - reads as what it is
    """A request of ours was not answered as it must be."""


@dataclass
class Measure:
    """One request and what grew with it."""

    answer: Result
    grown: Growth
    before: dict[str, float | None] = field(default_factory=dict)


class Proof:
    """One run. `timeout` is the deadline of a request, `limit` of everything. `formations` is what the process of each member carries
    (None: it cannot be told), when that was looked at. `keys` are those that each role may ask for, the likeliest first."""

    def __init__(
        self,
        asked: Asked,
        timeout: float,
        limit: float,
        max_pairs: int,
        keys: Keys | None = None,
        formations: t.Mapping[str, str | None] | None = None,
    ) -> None:
        self.asked, self.timeout, self.max_pairs = asked, timeout, max_pairs
        self.keys = keys or {}
        self.formations = formations
        self.deadline = time.monotonic() + limit
        self.run_id = uuid.uuid4().hex[:12]
        self._context: int | None = None
        self._number = 0

    def run(self) -> Result:
        """Raises nothing: what went wrong is in the result. Nothing is sent to members of two formations: they would answer."""
        group = self.asked
        mixed, formed = formation_of(group, self.formations)
        if mixed:
            head = f"Group {group.group}: NOT PROVEN, and nothing was sent"
            return {
                "router": None, "pairs": [], "good": False, "why": mixed[0], "table": mixed, "msg": "\n".join([head, *mixed]),
            }  # fmt: skip
        chosen = evidence.pairs(sorted(group.urls("prefill")), sorted(group.urls("decode")), self.max_pairs)
        with contextlib.suppress(PdError):
            self._context = self._smallest_context({m for pair in chosen for m in pair})
        measured = group.hops.measured
        router = self._judged_router() if group.router else None
        found = [self._pair(p, d) for p, d in chosen] if measured else []
        return {"router": router, "pairs": found, **_sum_up(group, router, found, len(chosen), measured, formed)}

    # -- through the router ------------------------------------------------------------------------------------------------------

    def _judged_router(self) -> Result:
        """The router's part. Beside spare members a request may go where nobody of this run can look: it is tried as often as it takes to
        have been elsewhere, and what then is still not proven is not known, rather than wrong."""
        result = self._router()
        for _again in range(min(SPARE_TRIES, 2 * len(self.asked.spare))):
            if result["good"] or time.monotonic() > self.deadline:
                return result
            result = self._router()
        if result["good"] or not self.asked.spare:
            return result
        whom = ", ".join(self.asked.spare)
        return {
            **result,
            "good": True,
            "judged": False,
            "why": f"requests may go to {whom}, which cannot be asked now ({result['why']})",
        }

    def _router(self) -> Result:
        """A long prompt that no cache has seen and a short one, as a client sends them. The receiving members' counters say whether
        the router led it through both roles."""
        url = str(self.asked.router)
        result: Result = {"url": url, "good": False, "why": "", "requests": []}
        try:
            receivers = sorted(self.asked.urls(self.asked.counters.role))
            verdict = self._until_clear(lambda prompt: self._through_router(url, prompt, receivers, result))
            answer = self._complete("router", url, {"prompt": evidence.SHORT_PROMPT})
            result["requests"].append(_request("short", evidence.SHORT_PROMPT, answer))
        except PdError as exc:
            return {**result, "why": str(exc)}
        if verdict is None or verdict.good:
            return {**result, "good": True}
        return {**result, "why": f"it answered, but behind it {verdict.why}"}

    def _through_router(self, url: str, prompt: str, receivers: list[str], result: Result) -> Transfer | None:
        before = self._counters(receivers)
        answer = self._complete("router", url, {"prompt": prompt})
        result["requests"] = [_request("long", prompt, answer)]
        if not self.asked.counters.moved:
            return None
        tokens = _prompt_tokens(answer)
        grown = self._grown(receivers, before, tokens)
        verdict = evidence.transfer(tokens, grown, answer.cached_tokens)
        result |= {
            "prompt_tokens": tokens,
            "transferred_tokens": verdict.transferred,
            "recomputed_tokens": verdict.recomputed,
        }
        return verdict

    # -- one pair ----------------------------------------------------------------------------------------------------------------

    def _pair(self, prefill: str, decode: str) -> Result:
        """Both hops sent by ourselves, so that it is this very pair; then the same prompt to prefill alone."""
        result: Result = {"prefill": prefill, "decode": decode, "good": False, "why": ""}
        result |= dict.fromkeys(
            (
                "prompt_tokens",
                "transferred_tokens",
                "recomputed_tokens",
                "bytes",
                "seconds",
                "gb_per_s",
                "text_equal",
                "answer",
            )
        )
        if time.monotonic() > self.deadline:
            return {**result, "why": "not measured: the time for the whole proof was over"}
        try:
            verdict = self._until_clear(lambda prompt: self._both_hops(prefill, decode, prompt, result))
        except PdError as exc:
            return {**result, "why": str(exc)}
        like: evidence.Likeness = result.pop("likeness")
        why = "; ".join(text for text in ("" if verdict is None else verdict.why, like.why) if text)
        return {**result, "good": bool(verdict and verdict.good and like.good), "why": why, "text_equal": like.equal}

    def _both_hops(self, prefill: str, decode: str, prompt: str, result: Result) -> Transfer:
        senders, receivers = self.asked.urls("prefill"), self.asked.urls("decode")
        receiving = [decode if self.asked.counters.role == "decode" else prefill]
        watched = [prefill, decode]
        before, faults = self._counters(receiving), self._faults(watched)
        started = time.monotonic()
        carried = self._prefill(prefill, senders[prefill], prompt)
        asked = {"prompt": prompt, self.asked.hops.carries: carried}
        answer = self._complete("decode", receivers[decode], asked, f"decode {decode}, with the KV cache of {prefill}")
        took = time.monotonic() - started
        tokens = _prompt_tokens(answer)
        grown = self._grown(receiving, before, tokens, self._faults(watched), faults)
        verdict = evidence.transfer(tokens, grown, answer.cached_tokens)
        alone = self._complete("prefill", senders[prefill], {"prompt": prompt}, f"prefill {prefill} alone")
        result |= {
            "prompt_tokens": tokens,
            "transferred_tokens": verdict.transferred,
            "recomputed_tokens": verdict.recomputed,
            "bytes": grown.bytes if verdict.quiet else None,
            "seconds": grown.seconds if verdict.quiet else None,
            "gb_per_s": evidence.rate(grown.bytes, grown.seconds),
            "answer_seconds": round(took, 4),
            "answer": printable(answer.text),
            "alone": printable(alone.text),
            "likeness": evidence.likeness(alone.generated, answer.generated, self.asked.exact_text),
        }
        return verdict

    def _prefill(self, name: str, url: str, prompt: str) -> t.Mapping[str, t.Any]:
        """The first hop, as the router sends it. Returns what decode needs to fetch the blocks."""
        hops = self.asked.hops
        answer = self._complete("prefill", url, {"prompt": prompt, **(hops.first or {})}, f"prefill {name}")
        carried = answer.carried(hops.carries)
        if carried is None:
            raise Refused(
                f"prefill {name} ({url}) answered without {hops.carries}: it has no KV connector, or another one than decode's"
            )
        return carried

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _until_clear(self, measure: t.Callable[[str], Transfer | None]) -> Transfer | None:
        """Measure until other traffic does not spoil it, each time with a prompt of its own."""
        verdict: Transfer | None = None
        for _attempt in range(ATTEMPTS):
            self._number += 1
            verdict = measure(evidence.long_prompt(f"{self.run_id}-{self._number}", self._context))
            if verdict is None or verdict.clear or time.monotonic() > self.deadline:
                return verdict
        return verdict

    def _complete(self, role: str, url: str, body: t.Mapping[str, t.Any], whom: str = "the router") -> Completion:
        """One greedy completion."""
        asked = {"model": self.asked.model, "temperature": 0, "max_tokens": ANSWER_TOKENS, "stream": False, **body}
        asked |= self.asked.hops.beside(asked["max_tokens"], self.asked.exact_text)
        doing = f"Sending a prompt to {whom}"
        left = self._left(self.timeout)
        try:
            answer = self._ask("POST", role, http.join(url, "/v1/completions"), left, asked)
            if not answer.ok:
                raise Refused(f"{doing}: {answer.asked} {answer.refusal}{_hint(answer.status)}")
            found = Completion.read(answer.json())
        except Refused:
            raise
        except PdError as exc:
            raise Refused(f"{doing}: {exc}") from exc
        if found is None:
            raise Refused(
                f"{doing}: {answer.asked} answered {answer.status} without a completion: {answer.excerpt()!r}"
            )
        if not found.text and not found.completion_tokens:
            raise Refused(f"{doing}: {answer.asked} answered {answer.status} with no text")
        return found

    def _ask(
        self, method: str, role: str, url: str, timeout: float, body: t.Any = None, limit: int = http.BODY_LIMIT
    ) -> http.Answer:
        return credentials.request(method, url, body, timeout, limit, self.keys.get(role) or ())

    def _left(self, most: float) -> float:
        """Seconds that a call may take: the whole proof has its limit, and each call the request's."""
        return max(1.0, min(most, self.timeout, self.deadline - time.monotonic()))

    def _smallest_context(self, members: t.Collection[str]) -> int | None:
        """The shortest context of the members: a prompt must fit them all."""
        found = []
        for one in (one for one in self.asked.engines if one.id in members):
            answer = self._ask("GET", one.role, http.join(one.url, "/v1/models"), self._left(METRICS_TIMEOUT))
            length = context_of(answer.json()) if answer.ok else None
            found += [length] if length else []
        return min(found, default=None)

    # -- counters ----------------------------------------------------------------------------------------------------------------

    def _counters(self, members: t.Sequence[str]) -> dict[str, float | None]:
        return self._read(members, self.asked.counters.selectors)

    def _faults(self, members: t.Sequence[str]) -> dict[str, float | None]:
        return self._read(members, {name: name for name in self.asked.counters.must_not_grow})

    def _read(self, members: t.Sequence[str], selectors: t.Mapping[str, str]) -> dict[str, float | None]:
        """Each counter, summed over the members."""
        sums: dict[str, float | None] = dict.fromkeys(selectors)
        if not selectors:
            return sums
        where = {one.id: one for one in self.asked.engines}
        for member in members:
            page = self._scrape(where[member])
            for key, selector in selectors.items():
                value = page.total(selector)
                if value is not None:
                    sums[key] = (sums[key] or 0.0) + value
        return sums

    def _scrape(self, engine: Engine) -> metrics.Metrics:
        doing = f"Reading the metrics of {engine.id}"
        try:
            page = http.join(engine.url, "/metrics")
            answer = self._ask("GET", engine.role, page, self._left(METRICS_TIMEOUT), limit=http.PAGE_LIMIT)
        except PdError as exc:
            raise Refused(f"{doing}: {exc}") from exc
        if not answer.ok:
            raise Refused(f"{doing}: {answer.asked} {answer.refusal}")
        return metrics.parse(answer.text)

    def _grown(
        self,
        members: t.Sequence[str],
        before: t.Mapping[str, float | None],
        tokens: int,
        faults_after: t.Mapping[str, float | None] | None = None,
        faults_before: t.Mapping[str, float | None] | None = None,
    ) -> Growth:
        """What the counters grew by, once they have caught up with the answer."""
        until = time.monotonic() + SETTLE_FOR
        while True:
            grown = evidence.growth(before, self._counters(members))
            total = grown.get("total", (grown.get("moved") or 0) + (grown.get("recomputed") or 0))
            settled = total is None or (
                total >= tokens and (not grown.get("moved") or "bytes" not in grown or bool(grown["bytes"]))
            )
            if settled or time.monotonic() > until:
                break
            time.sleep(SETTLE_EVERY)
        faults = {n: v for n, v in evidence.growth(faults_before or {}, faults_after or {}).items() if v}
        return Growth(
            grown.get("moved"),
            grown.get("recomputed"),
            grown.get("total"),
            grown.get("bytes"),
            grown.get("seconds"),
            faults,
        )


def formation_of(group: Asked, formations: t.Mapping[str, str | None] | None) -> tuple[list[str], list[str]]:
    """(what is wrong, what is to be said) of the formations that the members' own processes carry, each as lines of the table."""
    members = group.ids
    if formations is None or not members:
        return [], []
    known = {name: str(formations[name]) for name in members if formations.get(name)}
    # A plan without one is of a group that an earlier version formed: then those that are known must at least be alike.
    ours = group.formation or next(iter(known.values()), None)
    others = {name: its for name, its in known.items() if its != ours}
    if others:
        whose = "the group is" if group.formation else f"{next(iter(known))} is"
        wrong = [f"{name} is of formation {its[:8]}, {whose} of {str(ours)[:8]}" for name, its in others.items()]
        todo = "members of two formations accept each other and answer wrongly: form the group anew with inferops.pd.restart"
        return [*wrong, f"{todo} -e pd_group={group.group}"], []
    unknown = [name for name in members if name not in known]
    if not unknown:
        return [], [f"all {len(members)} members are of formation {str(ours)[:8]}"]
    of = f"{len(known)} of {len(members)} members are of formation {str(ours)[:8]}; " if known else ""
    why = "started by an earlier version, or its environment cannot be read"
    return [], [f"{of}formation not known: {', '.join(unknown)} ({why})"]


def _prompt_tokens(answer: Completion) -> int:
    if not answer.prompt_tokens:
        raise Refused("the answer says nothing of its prompt's length (usage.prompt_tokens)")
    return answer.prompt_tokens


def _request(kind: str, prompt: str, answer: Completion) -> Result:
    return {
        "kind": kind,
        "prompt": prompt[:200],
        "answer": printable(answer.text),
        "prompt_tokens": answer.prompt_tokens,
    }


def _hint(status: int) -> str:
    if status in WANTS_KEY:
        return (
            ". It asks for another key than the group's secrets hold: a secret that was changed is in force after a restart of the group"
            " (docs/spec.md, Keys)"
        )
    if status == 503:
        return ". The router knows no healthy member of a role: run deploy again to register them"
    return ""


def _shown(request: t.Mapping[str, t.Any]) -> list[str]:
    """What was asked and answered, in two short lines."""
    prompt, answer = (" ".join(str(request.get(key) or "").split()) for key in ("prompt", "answer"))
    told = f"{prompt[:72]}..." if len(prompt) > 72 else prompt
    return [f"  asked ({request.get('prompt_tokens')} tokens): {told}", f"  answered: {answer[:72]}"]


def _sum_up(
    group: Asked,
    router: t.Mapping[str, t.Any] | None,
    found: list[Result],
    wanted: int,
    measured: bool,
    formed: t.Sequence[str],
) -> Result:
    bad = [p for p in found if not p["good"]]
    lines = list(formed)
    if router is not None:
        lines.append(
            f"router {router['url']}: "
            + (
                f"not judged: {router['why']}"
                if router.get("judged") is False
                else "answers a long and a short prompt"
                if router["good"]
                else f"NOT GOOD: {router['why']}"
            )
        )
        lines += [line for request in router.get("requests") or () for line in _shown(request)]
    if found:
        lines.append(f"{len(found) - len(bad)} of {len(found)} pairs move the KV cache and answer right:")
        lines += evidence.table(found)
    elif not measured:
        lines.append(
            f"pairs not measured: this mode's handoff ({group.handoff or 'none'}) is not one that can be sent without its router"
        )
    elif not wanted:
        lines.append("there is no pair of a prefill and a decode member")
    lines += _way(group, bad)
    good = (
        (router is None or bool(router["good"]))
        and not bad
        and (bool(found) or not measured)
        and not (router is None and not found)
    )
    head = (
        f"Group {group.group}: the KV cache moves between prefill and decode"
        if good
        else f"Group {group.group}: NOT PROVEN"
    )
    return {"good": good, "why": "" if good else _why(router, bad), "table": lines, "msg": "\n".join([head, *lines])}


def _way(group: Asked, bad: t.Sequence[Result]) -> list[str]:
    """Where the KV cache of pairs that are not good was to go, and what measures that way. A 500 of an engine says neither."""
    kv = {one.id: one.kv for one in group.engines if one.kv}
    lines = [
        f"  KV cache: {pair['prefill']} ({kv[pair['prefill']]}) -> {pair['decode']} ({kv[pair['decode']]})"
        for pair in bad
        if pair["prefill"] in kv and pair["decode"] in kv
    ]
    more = [f"  and {len(lines) - MOST_WAYS} more"] if len(lines) > MOST_WAYS else []
    if not bad:
        return []
    measure = f"ansible-playbook inferops.pd.preflight -e pd_group={group.group}"
    return [*lines[:MOST_WAYS], *more, f"  What is between them is measured by: {measure}"]


def _why(router: t.Mapping[str, t.Any] | None, bad: t.Sequence[Result]) -> str:
    """The first thing that is not good, in a sentence."""
    if bad:
        more = f" (and {len(bad) - 1} more pairs)" if len(bad) > 1 else ""
        return f"{bad[0]['prefill']} -> {bad[0]['decode']}: {bad[0]['why']}{more}"
    return f"the router: {router['why']}" if router and not router["good"] else "nothing could be measured"
