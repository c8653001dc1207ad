# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chat of a proof: what each member makes of it, one through the router, and one through each pair of members."""

from __future__ import annotations

import typing as t

from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.proof import chat, evidence
from .._core.proof.asked import Asked, Engine
from .._core.proof.chat import UNKNOWN, Rendering
from .._core.proof.completion import Completion
from .._probes import http

# Answers that say that there is no chat, or not here, rather than that something failed.
NOT_OFFERED = (400, 404, 405, 422, 501)
ANSWER_TOKENS = 16

Ask = t.Callable[..., http.Answer]


class ChatRefused(PdError):  # noqa: N818 - reads as what it is
    """A chat of ours was not answered; `status` is None where there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Chat:
    """The chats of one run. `ask` sends a request of a role within the run's limits; `seed` makes the texts this run's own."""

    def __init__(self, asked: Asked, ask: Ask, seed: str, context: int | None) -> None:
        self.asked, self.ask, self.seed, self.context = asked, ask, seed, context
        self.seen: dict[str, Rendering] = {}
        self._number = 0

    def look(self, members: t.Iterable[Engine]) -> None:
        """What each of these members makes of one and the same chat."""
        turns = chat.messages(f"{self.seed}-r", self.context)
        self.seen = {one.id: self._rendering(one, turns) for one in members}

    def difference(self, one: str, two: str) -> str:
        """Why two members do not go together; empty where they do."""
        return chat.difference((one, self.seen.get(one, UNKNOWN)), (two, self.seen.get(two, UNKNOWN)))

    @property
    def different(self) -> str:
        """The first difference between any two that were looked at."""
        names = sorted(self.seen)
        return next((why for name in names[1:] if (why := self.difference(names[0], name))), "")

    @property
    def not_offered(self) -> str:
        """What the members say where none of them takes a chat; empty where one does, or nobody said."""
        said = [one.refused for one in self.seen.values()]
        return said[0] or "" if said and None not in said else ""

    def _rendering(self, engine: Engine, turns: list[dict[str, str]]) -> Rendering:
        try:
            body = {"model": self.asked.model, "messages": turns, "add_generation_prompt": True}
            answer = self.ask("POST", engine.role, http.join(engine.url, "/tokenize"), body)
            found = Rendering.of_tokenize(answer.json()) if answer.ok else None
            if found is not None:
                return found
            if not self.asked.hops.measured:
                return UNKNOWN
            return Rendering(count=self._send(engine.role, engine.url, turns, engine.id, max_tokens=1).prompt_tokens)
        except ChatRefused as exc:
            return Rendering(refused=str(exc)) if exc.status in NOT_OFFERED else UNKNOWN
        except PdError:
            return UNKNOWN

    def _send(self, role: str, url: str, turns: list[dict[str, str]], whom: str, **more: t.Any) -> Completion:
        body = {
            "model": self.asked.model, "messages": turns, "temperature": 0, "max_tokens": ANSWER_TOKENS, "stream": False, **more,
        }  # fmt: skip
        if body["max_tokens"] > 1 and self.asked.hops.measured:
            body |= self.asked.hops.asks
        answer = self.ask("POST", role, http.join(url, "/v1/chat/completions"), body)
        if not answer.ok:
            raise ChatRefused(f"{whom}: {answer.refusal}", answer.status)
        found = Completion.read(answer.json())
        if found is None or (not found.text and not found.completion_tokens):
            raise ChatRefused(f"{whom}: answered {answer.status} without an answer to a chat", answer.status)
        return found

    def _turns(self) -> list[dict[str, str]]:
        self._number += 1
        return chat.messages(f"{self.seed}-c{self._number}", self.context)

    def through_router(self, url: str) -> dict[str, t.Any] | None:
        """One as a client sends it. None where no chat is offered; raises PdError where it is not answered."""
        if self.not_offered:
            return None
        turns = self._turns()
        try:
            answer = self._send("router", url, turns, "Sending a chat to the router")
        except ChatRefused as exc:
            if exc.status in NOT_OFFERED and not any(one.length for one in self.seen.values()):
                return None
            raise
        told = {"kind": "chat", "prompt": turns[0]["content"][:200], "answer": printable(answer.text)}
        return {**told, "prompt_tokens": answer.prompt_tokens}

    def of_pair(self, prefill: Engine, decode: Engine) -> tuple[str, str]:
        """(how a pair does with a chat: equal, differs or not offered; why that is wrong). Nothing is sent where the two make other tokens
        of it."""
        why = self.difference(prefill.id, decode.id)
        if why:
            return "differs", why
        if self.not_offered:
            return "not offered", ""
        hops, turns = self.asked.hops, self._turns()
        try:
            first = self._send("prefill", prefill.url, turns, f"a chat to {prefill.id}", **(hops.first or {}))
            carried = first.carried(hops.carries)
            if carried is None:
                return "differs", f"{prefill.id} answers a chat without {hops.carries}"
            whom = f"a chat to {decode.id}, with the KV cache of {prefill.id}"
            answer = self._send("decode", decode.url, turns, whom, **{hops.carries: carried})
            if not self.asked.exact_text:
                return "equal", ""
            alone = self._send("prefill", prefill.url, turns, f"a chat to {prefill.id} alone")
        except PdError as exc:
            return "differs", str(exc)
        like = evidence.likeness(alone.generated, answer.generated, True)
        return ("equal", "") if like.good else ("differs", f"a chat: {like.why}")
