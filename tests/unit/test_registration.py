"""What a registration tells, and when two URLs are one."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._routers.protocol import same
from ansible_collections.inferops.pd.plugins.module_utils._routers.reconcile import Outcome
from ansible_collections.inferops.pd.plugins.module_utils._routers.registration import describe

ASKED = {"url": "http://r:8000", "peers": [{"url": "http://a:1", "role": "prefill"}], "manage": True}
STALE = "http://b:1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a:1", "HTTP://A:1/"),
        ("http://[::1]:1", "http://[0:0:0:0:0:0:0:1]:1"),
        ("http://a", "http://a:80"),
        ("https://a/", "https://a:443"),
    ],
)
def test_two_spellings_of_one_address(one: str, other: str) -> None:
    assert same(one) == same(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a:1", "http://a:1@b:1"),
        ("http://a:1", "https://a:1"),
        ("http://a:1", "http://a:1/x"),
        ("http://a:1/x", "http://a:1/X"),
        ("http://a:1", "a:1"),
        ("http://a:1", "http://a:11"),
        ("http://127.0.0.1:1", "http://127.1:1"),
        ("http://[fe80::1%eth0]:1", "http://[fe80::1%eth1]:1"),
        ("http://a:1", "http://a:x"),
        ("http://a:1", "http://[a:1"),
        ("http://a:1", ""),
    ],
)
def test_two_addresses(one: str, other: str) -> None:
    assert same(one) != same(other)


@pytest.mark.parametrize("only_remove", [True, False])
def test_what_is_still_there_fails_it_always(only_remove: bool) -> None:
    told = describe(Outcome(stale=[STALE], foreign=[STALE]), {**ASKED, "only_remove": only_remove}, False)
    assert told["failed"] is True
    assert f"http://r:8000 still has {STALE}" in told["msg"]
    assert "DELETE /workers" in told["msg"]


def test_in_check_mode_it_is_what_would_go() -> None:
    told = describe(Outcome(stale=[STALE], foreign=[STALE], removed=[STALE]), ASKED, True)
    assert (told["failed"], told["changed"], told["removed"]) == (False, True, [STALE])


def test_fixed_peers_want_another_router() -> None:
    told = describe(
        Outcome(stale=[STALE, "http://c:1"], foreign=[STALE, "http://c:1"]), {**ASKED, "manage": False}, False
    )
    assert told["failed"] is True
    assert "was started with http://b:1, http://c:1, which are no member" in told["msg"]
    assert "Replace the router: inferops.pd.deploy" in told["msg"]
