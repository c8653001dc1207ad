# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools, container engines and supervisord say in JSON: a field of another kind harms its own entry at most, and no other."""

from __future__ import annotations

import copy
import io
import json
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from fuzz.inputs import ODD, places, put
from fuzz.surfaces import ADDRS, CARDS, ENGINE, ROUTES, RULES

from ansible_collections.inferops.pd.plugins.module_utils._core.base import json_text
from ansible_collections.inferops.pd.plugins.module_utils._probes import firewall, gpus, links
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_host, docker_said, supervisor_rpc
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.supervisor import Supervisor

NIC = {"ifname": "good0", "flags": ["UP"], "mtu": 1500, "addr_info": [{"local": "192.0.2.7", "prefixlen": 24}]}
WAY = {"dst": "default", "dev": "good0"}
CHAIN = {"chain": {"family": "inet", "table": "good", "name": "n", "hook": "input", "policy": "drop"}}
PROGRAM = {"name": "good", "statename": "RUNNING", "pid": 7, "start": 1, "stop": 0, "exitstatus": 0, "spawnerr": ""}


def spoilt(value: t.Any) -> t.Iterator[t.Any]:
    """The value with each place of it in turn replaced by each of what is odd, or left out."""
    for at in places(value):
        for odd in ODD:
            changed = copy.deepcopy(value)
            put(changed, at, lambda within, key, odd=odd: within.__setitem__(key, copy.deepcopy(odd)))
            yield changed
        without = copy.deepcopy(value)
        put(without, at, lambda within, key: within.__delitem__(key))
        yield without
    yield from ODD


def _nic(odd: t.Any) -> t.Any:
    found = links.parse_addr(json.dumps([odd, NIC]))
    for link in found:
        links.add_sys(link, "/nowhere")
    return [(link.name, link.mtu, [a.ip for a in link.addresses]) for link in found if link.name == "good0"]


def _route(odd: t.Any) -> t.Any:
    return [name for name in links.parse_route(json.dumps([odd, WAY])) if name == "good0"]


def _card(odd: t.Any) -> t.Any:
    found = gpus.parse_amd(json.dumps({"card0": odd, "card7": {"Card series": "good"}}))
    return [(gpu["id"], gpu["model"]) for gpu in found if gpu["id"] == "7"]


def _programs(odd: t.Any) -> t.Any:
    driver = Supervisor(State("/nowhere"))
    driver._rpc = t.cast("t.Any", type("Rpc", (), {"call": lambda *_words: [odd, PROGRAM]}))
    return (driver._programs() or {})["good"]


def _info(odd: t.Any) -> t.Any:
    told = docker_said.info({**ENGINE["info"], **(odd if isinstance(odd, dict) else {}), "ServerVersion": "good"})
    docker_host.traits(told, lambda _path: False)
    return told["ServerVersion"]


# What is spoilt, who reads it beside something good, and what becomes of that.
ENTRIES: dict[str, tuple[t.Any, t.Callable[[t.Any], t.Any], t.Any]] = {
    "ip addr": (ADDRS[0], _nic, [("good0", 1500, ["192.0.2.7"])]),
    "ip addr, a pair": (ADDRS[1], _nic, [("good0", 1500, ["192.0.2.7"])]),
    "ip route": (ROUTES[0], _route, ["good0"]),
    "nft, a chain": (
        RULES["nftables"][0],
        lambda odd: firewall.nft_drops(json.dumps({"nftables": [odd, CHAIN]})),
        True,
    ),
    "nft, a rule": (RULES["nftables"][1], lambda odd: firewall.nft_drops(json.dumps({"nftables": [odd, CHAIN]})), True),
    "rocm-smi": (CARDS["card0"], _card, [("7", "good")]),
    "an engine's list": (
        ENGINE["containers"][0],
        lambda odd: docker_said.entries([odd, {"Id": "good"}])[-1]["Id"],
        "good",
    ),
    "an engine itself": (ENGINE["info"], _info, "good"),
    "supervisord's programs": (PROGRAM | {"name": "odd"}, _programs, PROGRAM),
}


@pytest.mark.parametrize(("value", "read", "wanted"), ENTRIES.values(), ids=ENTRIES)
def test_what_stands_beside_something_odd_is_read(
    value: t.Any, read: t.Callable[[t.Any], t.Any], wanted: t.Any
) -> None:
    for odd in spoilt(value):
        assert read(odd) == wanted, odd


@pytest.mark.parametrize("said", ["no json", "{}", "7", "null", '"text"', "[" * 100_000])
def test_a_tool_that_lists_nothing_is_another_one(said: str) -> None:
    """Then /sys and /proc are read instead."""
    for parse in (links.parse_addr, links.parse_route):
        with pytest.raises(ValueError, match=r"."):
            parse(said)
    assert links.parse_addr("") == links.parse_route("") == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a b", "a:1", "a\0", "a\u202e", "\ud800", "x" * 16, ["eth0"], 7, None]
)
def test_a_name_that_the_kernel_gives_no_interface(name: t.Any) -> None:
    """It is none where it would be the interface, nor where it would be one that this stands on."""
    assert links.parse_addr(json.dumps([{"ifname": name}])) == []
    (link,) = links.parse_addr(json.dumps([{**NIC, "link": name, "master": name}]))
    assert (link.under, link.master) == ([], None)
    assert links.parse_route(json.dumps([{"dst": "default", "dev": name}])) == []


@pytest.mark.parametrize("name", ["eth0", "enp1s0f0np0.100", "br-0a1b", "...", "*", "[x]"])
def test_a_name_that_the_kernel_gives(name: str) -> None:
    (link,) = links.parse_addr(json.dumps([{"ifname": name, "link": name}]))
    assert (link.name, link.under) == (name, [name])


def test_what_an_interface_stands_on_is_not_looked_for_by_a_pattern(tmp_path: Path) -> None:
    for name in ("e*", "eth0"):
        (tmp_path / "class/net" / name).mkdir(parents=True)
    (tmp_path / "class/net/eth0/lower_eth1").touch()
    link = links.Link("e*")
    links.add_sys(link, str(tmp_path))
    assert link.under == []


def test_an_address_of_another_kind_is_none() -> None:
    odd = [{"local": one, "prefixlen": 24} for one in ("", "x", 7, ["192.0.2.1"], {}, "192.0.2.256")]
    wide = {"local": "192.0.2.1", "prefixlen": 10**9}
    (link,) = links.parse_addr(json.dumps([{"ifname": "eth0", "addr_info": [*odd, wide]}]))
    assert link.addresses == [links.Address("192.0.2.1", 32)]


def test_what_has_no_name_of_its_own_is_no_container_and_no_image() -> None:
    for raw in (None, [], {}, {"Id": ""}, {"Id": "../../x"}, {"Id": ["0a"]}):
        with pytest.raises(ValueError, match="it told of no container"):
            docker_said.container(raw)
        with pytest.raises(ValueError, match="it told of no image"):
            docker_said.image({**raw, "Id": None} if isinstance(raw, dict) else raw)
    assert docker_said.container(ENGINE["inspect_container"])["Labels"] == ENGINE["containers"][0]["Labels"]


@pytest.mark.parametrize(
    ("told", "podman"), [({}, False), ({"BuildahVersion": None}, False), ({"BuildahVersion": ""}, True)]
)
def test_what_podman_alone_says(told: dict[str, t.Any], podman: bool) -> None:
    assert docker_host.traits(docker_said.info(told), lambda _path: False).podman is podman


CALLED = b"<methodResponse><params><param><value>%s</value></param></params></methodResponse>"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no xml",
        b"<a/>",
        CALLED % b"<int>x</int>",
        CALLED % b"<struct><member><name>a</name></member></struct>",
        CALLED % b"<struct><member><value><array><data/></array></value><value>1</value></member></struct>",
    ],
)
def test_what_answers_and_is_no_supervisord(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def connect(connection: t.Any) -> None:
        connection.sock = mock.Mock(makefile=lambda *_mode: io.BytesIO(answer))

    monkeypatch.setattr(supervisor_rpc._Connection, "connect", connect)
    with pytest.raises(HostError, match=r"what answers on /s is no supervisord"):
        supervisor_rpc.Rpc("/s").call("supervisor.getAllProcessInfo")


def test_what_an_engine_says_is_fit_to_be_shown() -> None:
    told = docker_said.container({"Id": "0a", "State": {"Error": "a\x1b[2Jb\u202e\nc"}})
    assert told["State"]["Error"] == "ab\ufffd c"


def test_a_table_gives_all_of_its_fields_and_no_other() -> None:
    readers: json_text.Readers = {
        "a": json_text.text,
        "b": json_text.texts,
        "c": json_text.objects,
        "d": json_text.mapping,
    }
    empty = {"a": "", "b": [], "c": [], "d": {}}
    for odd in (None, [], "text", 7, {}, {"a": 1, "b": "x", "c": {}, "d": [], "e": 1}):
        assert json_text.fields(odd, readers) == empty
    given = {"a": "x", "b": ["y", 1], "c": [{"z": 1}, 2], "d": {"k": []}}
    assert json_text.fields(given, readers) == {"a": "x", "b": ["y"], "c": [{"z": 1}], "d": {"k": []}}
    wholes = (3, -3, 3.0, 1.5, True, "3", 10**17, 10**18, 1e300, float("nan"))
    assert [json_text.whole(one) for one in wholes] == [3, -3, 3, None, None, None, 10**17, None, None, None]
