# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP client against servers that misbehave: each says what it says byte by byte, over loopback. One that never ends is not waited
for; where it were, it would end by itself with an answer, and the test would fail."""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import re
import socket
import threading
import time
import tracemalloc

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base import json_text
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._probes import dial, health, http

SHORT = 0.15
PLUGINS = pathlib.Path(http.__file__).parents[2]
OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Sends `pieces` to whoever connects, `every` seconds apart, for two seconds at most; then it ends the connection."""

    def __init__(self, pieces, every=0.0, address="127.0.0.1", family=socket.AF_INET):
        self.pieces, self.every = pieces, every
        self.sock = socket.socket(family)
        self.sock.bind((address, 0))
        self.sock.listen()
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self.sock.getsockname()[1]}"
        self.heard = b""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.sock.accept()[0]
                with contextlib.suppress(OSError), connection:
                    self.heard += connection.recv(65536)
                    until = time.monotonic() + 2
                    for piece in self.pieces() if callable(self.pieces) else self.pieces:
                        if time.monotonic() > until:
                            break
                        connection.sendall(piece)
                        time.sleep(self.every)


@pytest.fixture(name="serve")
def fixture_serve():
    made = []

    def start(*pieces, **how):
        made.append(Server(*pieces, **how))
        return made[-1]

    yield start
    for server in made:
        server.sock.close()


def answer(body: bytes, head: bytes = OK) -> list[bytes]:
    return [head + b"Content-Length: %d\r\n\r\n" % len(body) + body]


SLOW = {
    "a body that drips, its connection ending with it": lambda: [
        OK + b"Connection: close\r\n\r\n",
        *itertools.repeat(b"x", 60),
    ],
    "a body of known length that drips": lambda: [OK + b"Content-Length: 60\r\n\r\n", *itertools.repeat(b"x", 60)],
    "a header that drips": lambda: [OK, *itertools.repeat(b"x", 60), b": y\r\nContent-Length: 0\r\n\r\n"],
    "headers one after the other": lambda: [
        OK,
        *(b"a%d: b\r\n" % n for n in range(60)),
        b"Content-Length: 0\r\n\r\n",
    ],
    "a chunk at a time": lambda: [
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        *itertools.repeat(b"1\r\nx\r\n", 60),
        b"0\r\n\r\n",
    ],
    "trailers without end": lambda: [
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n",
        *itertools.repeat(b"a: b\r\n", 60),
        b"\r\n",
    ],
    "continue, and again continue": lambda: [
        *itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n", 60),
        OK + b"Content-Length: 0\r\n\r\n",
    ],
    "nothing": lambda: [*itertools.repeat(b"", 60), OK + b"Content-Length: 0\r\n\r\n"],
}


@pytest.mark.parametrize("pieces", SLOW.values(), ids=SLOW)
def test_a_deadline_is_one_for_the_whole_call(serve, pieces):
    server = serve(pieces, every=0.03)
    with pytest.raises(
        http.Unanswered, match=r"^GET http://127.0.0.1:\d+/x: no (complete )?answer within 0.15 s$"
    ) as said:
        http.get(f"{server.url}/x", SHORT)
    assert said.value.kind == "timeout"


def test_a_name_that_is_not_resolved_in_time_is_given_up(monkeypatch):
    done = threading.Event()
    monkeypatch.setattr(dial.socket, "getaddrinfo", lambda *_a: done.wait(5))
    with pytest.raises(http.Unanswered, match=r"no answer within 0.1 s"):
        http.get("http://slow.example/", 0.1)
    done.set()


ENDLESS = {
    "a body without end": [OK + b"\r\n", *itertools.repeat(b"x" * 65536, 100)],
    "one that says so": [OK + b"Content-Length: 99999999999999999999\r\n\r\n", *itertools.repeat(b"x" * 65536, 100)],
    "chunks without end": [
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        *itertools.repeat(b"10000\r\n" + b"x" * 65536 + b"\r\n", 100),
    ],
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_of_a_body_only_so_much_is_read(serve, pieces):
    server = serve(pieces)
    tracemalloc.start()
    found = http.get(server.url, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.body) == http.BODY_LIMIT
    assert not found.whole
    assert peak < 16 * http.MIB
    with pytest.raises(PdError, match=r"answered 200 with more than 2 MiB$"):
        found.json()


def test_interim_answers_without_end_are_not_read_for_ever(serve):
    server = serve([*itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 4096, 100)])
    with pytest.raises(http.Unanswered, match=r"it sends more than any answer has$"):
        http.get(server.url, 5)


NO_HTTP = {
    "no answer at all": [],
    "another protocol": [b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80" * 9],
    "a banner": [b"SSH-2.0-OpenSSH_9.9\x1b]0;owned\x07\r\n"],
    "a status that is none": [b"HTTP/1.1 abc OK\r\n\r\n"],
    "a line without end": [b"HTTP/1.1 200 " + b"x" * 100000],
    "a thousand headers": [OK + b"a: b\r\n" * 1000 + b"\r\n"],
    "a size that is none": [OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"],
    "a size below zero": [OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n"],
}


@pytest.mark.parametrize("pieces", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_one_clear_sentence(serve, pieces):
    with pytest.raises(http.Unanswered) as said:
        http.get(serve(pieces).url, 2)
    assert said.value.kind == "broken"
    assert str(said.value).isprintable()
    assert len(str(said.value)) < 200


def test_a_redirect_is_not_followed(serve):
    server = serve(answer(b"", b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\n"))
    found = http.get(server.url)
    assert found.status == 307
    assert not found.ok
    assert found.refusal == "answered 307 (a redirect, which is not followed) ''"


def test_no_proxy_of_the_environment_is_used(serve, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert http.get(serve(answer(b"ok")).url).text == "ok"


def test_ipv6_is_asked_as_ipv4_is(serve):
    try:
        server = serve(answer(b"ok"), address="::1", family=socket.AF_INET6)
    except OSError:
        pytest.skip("this host has no IPv6 loopback")
    assert http.get(server.url).text == "ok"
    assert b"\r\nHost: [::1]:" in server.heard
    assert health.ask(server.url.replace("http", "tcp"), None, 1) == (200, "")


def test_an_address_that_does_not_answer_leaves_time_for_the_next(serve, monkeypatch):
    server = serve(answer(b"ok"))
    port = server.sock.getsockname()[1]
    here = socket.getaddrinfo("127.0.0.1", port, 0, socket.SOCK_STREAM)
    dead = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]
    monkeypatch.setattr(dial.socket, "getaddrinfo", lambda *_a: [*dead, *here])
    assert http.get(f"http://both.example:{port}").text == "ok"


def test_there_is_no_other_client():
    """But for supervisord's own, over its socket on the same host."""
    files = PLUGINS.rglob("*.py")
    clients = re.compile(r"^\s*(?:import|from) (?:http\.client|urllib\.request|requests|httpx|aiohttp|urllib3)\b", re.M)
    found = sorted(str(file.relative_to(PLUGINS)) for file in files if clients.search(file.read_text(encoding="utf-8")))
    assert found == ["module_utils/_probes/http.py", "module_utils/_runtimes/supervisor_rpc.py"]


# -- what cannot be asked ----------------------------------------------------------------------------------------------------------------


def test_a_secret_is_in_no_message():
    for url, headers in (("http://user:hunter2@127.0.0.1:1/", {}), ("http://127.0.0.1:1", http.bearer("hunter2\n"))):
        with pytest.raises(http.Unanswered) as said:
            http.get(url, 1, headers)
        assert "hunter2" not in str(said.value)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:1", "ftp://h:1", "http://", "http://[::1", "http://h:99999", "http://h/a b", "http://h/\x1b[2J", "http://h/é"]
)  # fmt: skip
def test_what_is_no_url_is_refused_as_that(url):
    with pytest.raises(http.Unanswered) as said:
        http.get(url, 1)
    assert said.value.kind == "invalid"
    assert str(said.value).isprintable()
    assert health.ask(url, None, 1)[0] is None


def test_a_name_that_is_none_cannot_be_resolved():
    with pytest.raises(http.Unanswered, match=r"the name cannot be resolved"):
        http.get(f"http://{'x' * 80}.example:1", 2)


# -- JSON of any shape -------------------------------------------------------------------------------------------------------------------

NO_JSON = [b"", b"[" * 200000, b'{"a":' * 100000, b"\xff\xfe", b"{", b"<html>", b"nul", b'"\xf0\x28']


@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: repr(body[:8]))
def test_what_is_no_json_is_one_clear_sentence(body):
    found = http.Answer("GET http://h/", 200, body, 0.0)
    with pytest.raises(PdError, match=r"^GET http://h/: answered 200, but not with JSON: ") as said:
        found.json()
    assert str(said.value).isprintable()
    assert len(str(said.value)) < 400


def test_numbers_that_cannot_be_reckoned_with_are_none():
    said = b'{"a": NaN, "b": [-Infinity, 1e999], "c": %s, "d": 1.5, "e": 7}' % (b"9" * 100000)
    assert json_text.loads(said) == {"a": None, "b": [None, None], "c": None, "d": 1.5, "e": 7}


def test_a_path_leads_to_what_is_there_and_to_nothing_else():
    value = {"a": [{"b": "x"}], "n": None, "s": "text"}
    assert json_text.member(value, "a", 0, "b") == "x"
    for path in (("a", "b"), ("a", 1), ("n", "x"), ("s", "x"), ("x",)):
        assert json_text.member(value, *path) is None
    assert [json_text.count(one) for one in (3, 3.0, -1, True, "3", None, 1.5)] == [3, 3, None, None, None, None, None]
    assert [json_text.number(one) for one in (3, True, "3", None)] == [3.0, None, None, None]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"message": "a\x1b[2Jb"}, "ab"),
        ({"error": ["x"]}, '{"error": ["x"]}'),
        ([1], "[1]"),
        (None, "null"),
        ({"error": {"message": "\ud800"}}, "\ufffd"),
    ],
)
def test_an_excerpt_is_the_error_alone_and_fit_to_be_shown(body, told):
    assert http.Answer("GET /", 500, json.dumps(body).encode(), 0.0).excerpt() == told
