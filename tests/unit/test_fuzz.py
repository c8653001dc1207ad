"""A short part of `make fuzz`, the same inputs each time, and all that failed once. Time and memory are measured there alone."""

from __future__ import annotations

import pytest
from fuzz import trial
from fuzz.surfaces import SURFACES, Surface
from fuzz.trial import attempt, kept
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

short = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KEPT = kept()


@pytest.mark.parametrize("name", SURFACES)
def test_whatever_comes_in_is_answered_or_refused(name: str) -> None:
    one = SURFACES[name]

    @short
    @given(one.inputs)
    def throw(value: object) -> None:
        attempt(one, value, measured=False)

    throw()


@pytest.mark.parametrize("name", KEPT)
def test_what_failed_once_does_not_fail_again(name: str) -> None:
    attempt(SURFACES[KEPT[name]["surface"]], KEPT[name]["input"], measured=False)


def test_a_trial_sees_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []

    def forgetful(value: object) -> int:
        grown.append(1)
        return len(grown)

    with pytest.raises(AssertionError, match="differently"):
        attempt(Surface("x", st.none(), forgetful), None)
    with pytest.raises(ZeroDivisionError):
        attempt(Surface("x", st.none(), lambda value: 1 / value), 0)
    held = iter([0, 65 * 2**20])
    monkeypatch.setattr(trial, "_most_memory", lambda: next(held))
    with pytest.raises(AssertionError, match="took 65 MiB"):
        attempt(Surface("x", st.none(), lambda _value: 0), 0)
    moments = iter([0.0, 2.1])
    monkeypatch.setattr(trial, "_most_memory", lambda: 0)
    monkeypatch.setattr(trial.time, "process_time", lambda: next(moments))
    with pytest.raises(AssertionError, match=r"took 2\.1 s"):
        attempt(Surface("x", st.none(), lambda _value: 0), 0)
