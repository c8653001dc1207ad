"""What members make of one chat, compared."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.proof.chat import (
    UNKNOWN,
    Rendering,
    difference,
    messages,
)

TOKENS = Rendering((1, 2, 3))


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [
        (TOKENS, Rendering((1, 2, 3)), ""),
        (TOKENS, Rendering((1, 2, 3, 4)), "a chat is 3 tokens to p, 4 to d"),
        (TOKENS, Rendering((1, 9, 3)), "from token 2 of 3 on"),
        (TOKENS, Rendering(count=3), ""),
        (TOKENS, Rendering(count=5), "3 tokens to p, 5 to d"),
        (TOKENS, UNKNOWN, ""),
        (UNKNOWN, UNKNOWN, ""),
        (Rendering(refused="no template"), Rendering(refused="no template"), ""),
        (Rendering(refused="no template"), TOKENS, "p takes no chat (no template), d does"),
        (TOKENS, Rendering(refused="no template"), "d takes no chat (no template), p does"),
        (Rendering(refused="no template"), UNKNOWN, ""),
    ],
)
def test_what_is_told_of_two(one, two, says):
    told = difference(("p", one), ("d", two))
    assert (says in told) if says else (told == "")


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"tokens": [1, 2]}, (1, 2)),
        ({"tokens": []}, None),
        ({"tokens": [True]}, None),
        ({"count": 2}, None),
        ([], None),
        (None, None),
    ],
)
def test_tokens_of_whatever_answer(answer, tokens):
    found = Rendering.of_tokenize(answer)
    assert (found.tokens if found else None) == tokens


def test_a_chat_fits_a_short_context():
    assert len(messages("a", 100)[0]["content"]) <= 100
    assert messages("a", None) != messages("b", None)
