# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight looks at on a host: listeners on the loopback, and texts of /proc, /sys and of tools."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import preflight as host
from ansible_collections.inferops.pd.plugins.module_utils._probes import firewall, reach, rights, runs, space, sysctl
from ansible_collections.inferops.pd.plugins.modules.port_reservation import give_back, reserve

HERE = "127.0.0.1"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


# -- listeners ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def listener():
    """A listener in a thread, ended with the test: (listener, high port)."""
    made = reach.Listener("word", ["h1", "h2"], 20)
    port = made.bind({}, [HERE]).random[HERE]
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made, port
    made._stopped.set()
    thread.join(5)


def test_a_listener_answers_those_who_know_the_word(listener):
    port = listener[1]
    told = reach.try_port(HERE, port, "word")
    assert abs(told["clock"]) < 0.5
    assert reach.try_port(HERE, port, None) == {}
    assert reach.try_port(HERE, port, "another")["why"]
    with reach.connect(HERE, port) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(10) == b""


def test_a_listener_ends_when_all_are_done(listener):
    made, port = listener
    host.done([(HERE, port)], "word", "h1")
    assert reach.try_port(HERE, port, "word").get("why") is None
    host.done([(HERE, port)], "word", "h2")
    deadline = time.monotonic() + 5
    while made.sockets and time.monotonic() < deadline:
        time.sleep(0.05)
    assert reach.try_port(HERE, port, "word")["kind"] == "refused"


def test_a_listener_ends_at_its_deadline():
    late = reach.Listener("word", ["h1"], 0.3)
    late.bind({}, [HERE])
    began = time.monotonic()
    late.serve()
    assert time.monotonic() - began < 3


def test_a_listener_in_a_process_of_its_own_holds_nothing_and_is_ended_by_its_name():
    made = reach.Listener("word", ["h1"], 20)
    port = made.bind({}, [HERE]).random[HERE]
    pid = made.detach("pd-here-run1")
    assert made.sockets == []
    assert "clock" in reach.try_port(HERE, port, "word")
    assert reach.end(pid, "pd-here-run2"), "there is no listener of that name, whoever has the pid"
    assert "clock" in reach.try_port(HERE, port, "word")
    assert reach.end(pid, "pd-here-run1")
    assert reach.try_port(HERE, port, "word")["kind"] == "refused"


def test_a_listener_of_a_run_that_has_died_is_ended_by_the_next_one():
    made = reach.Listener("word", ["h1"], 20)
    port = made.bind({}, [HERE]).random[HERE]
    pid = made.detach("pd-here-run1")
    assert reach.end_left("pd-here-", ("pd-here-run1",)) == [], "its run lives"
    assert reach.end_left("pd-there", ()) == [], "of another controller nothing is known"
    assert "clock" in reach.try_port(HERE, port, "word")
    assert reach.end_left("pd-here-", ("pd-here-run3",)) == [pid]
    assert reach.try_port(HERE, port, "word")["kind"] == "refused"


def test_a_listener_with_nothing_to_listen_on_is_no_process():
    assert reach.Listener("word", ["h1"], 20).detach("pd-here-run1") is None


def test_the_mark_of_a_run_fits_the_kernels_name_of_a_process_and_is_among_the_living(monkeypatch):
    monkeypatch.setattr(runs.os, "getppid", runs.os.getpid)
    monkeypatch.setattr(runs.processes, "command_line", lambda _pid, **_more: "python ansible-playbook")
    mark, here = runs.mark(), runs.living()
    assert len(mark) == 15
    assert mark.startswith(here["machine"])
    assert mark in here["marks"]


def test_ports_that_cannot_be_listened_on_are_told():
    with socket.socket() as other:
        other.bind((HERE, 0))
        other.listen()
        taken = other.getsockname()[1]
        made = reach.Listener("word", [], 1)
        bound = made.bind({HERE: [taken], "203.0.113.77": [40000]}, [])
        made.close()
    assert [(r["address"], r["port"], r["code"]) for r in bound.refused] == [
        (HERE, taken, "EADDRINUSE"),
        ("203.0.113.77", 40000, "EADDRNOTAVAIL"),
    ]


def _take(port: int) -> socket.socket:
    """The one place for a measurement, once whoever had it before has let it go."""
    for _attempt in range(100):
        holder = reach.connect(HERE, port)
        holder.sendall(b"word TAKE\n")
        if holder.recv(3) == b"OK\n":
            return holder
        holder.close()
        time.sleep(0.1)
    raise AssertionError("the place is never free")


def test_bandwidth_is_what_arrived_and_one_at_a_time(listener):
    port = listener[1]
    told = reach.bandwidth(None, (HERE, port), "word", seconds=0.2)
    assert told["bytes"] > 0
    assert told["seconds"] >= 0.2
    with _take(port):
        assert "never free" in reach.bandwidth(None, (HERE, port), "word", 0.1, patience=0.5)["why"]
    assert reach.bandwidth(None, (HERE, port), "word", 0.1, patience=30)["bytes"]
    assert reach.bandwidth(None, (HERE, 1), "word", 0.1)["why"]


def test_a_whole_host_talks_to_itself():
    """Both phases in one process, on the addresses of two hosts."""
    one, two = "127.0.0.2", "127.0.0.3"
    looks = {
        name: host.listen(
            {"high": [a], "ports": {a: []}, "expect": ["h1", "h2"], "disks": ["/"], "addresses": [a]},
            "word",
            20,
            f"pd-{name}",
        )
        for name, a in (("h1", one), ("h2", two))
    }
    high = {name: look["listening"]["random"] for name, look in looks.items()}
    assert looks["h1"]["not_here"] == {}
    for name, mine, peer, theirs in (("h1", one, "h2", two), ("h2", two, "h1", one)):
        place = {"address": theirs, "ports": [high[peer][theirs]], "ours": True, "source": mine}
        told = host.connect(
            {
                "name": name,
                "connect": [
                    {"name": peer, "places": [place], "paths": [{"address": theirs, "mtu": 1500, "source": mine}]}
                ],
                "measure": [{"peer": peer, "address": theirs, "port": high[peer][theirs], "own": None}]
                if name == "h1"
                else [],
                "tell": [{"address": a, "port": p} for n in high for a, p in high[n].items()],
            },
            "word",
            0.1,
        )
        assert told["peers"][peer]["tried"] == 1
        assert told["peers"][peer]["failed"] == []
        assert told["mtu"][0]["passed"] in (True, None)
        assert name == "h2" or told["measured"][0]["bytes"]
    time.sleep(0.6)
    assert all(
        reach.try_port(a, p, "word").get("kind") == "refused" for ports in high.values() for a, p in ports.items()
    )


@pytest.mark.parametrize(
    ("address", "part"),
    [(HERE, ""), ("203.0.113.77", "no interface of the host has it"), ("no.such.name.invalid", "not found")],
)
def test_an_address_that_is_not_here(address, part):
    why = host.not_here(address)
    assert part in why
    assert bool(why) is bool(part)


def test_a_name_that_means_the_loopback(monkeypatch):
    monkeypatch.setattr(host.socket, "getaddrinfo", lambda *_a, **_k: [(2, 1, 6, "", ("127.0.1.1", 0))])
    assert "127.0.1.1 (/etc/hosts)" in host.not_here("h1")


# -- reserved ports -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spans"),
    [("", []), ("40000-40063", [(40000, 40063)]), ("1,5-7\n", [(1, 1), (5, 7)]), ("nonsense,8", [(8, 8)])],
)
def test_spans(text, spans):
    assert sysctl.parse(text) == spans
    assert sysctl.parse(sysctl.text_of(spans)) == spans


def test_spans_that_touch_are_one():
    assert sysctl.merge([(5, 7), (1, 2)], [(3, 3), (8, 9), (20, 30), (22, 25)]) == [(1, 3), (5, 9), (20, 30)]
    assert sysctl.covers([(1, 5), (6, 9)], (2, 8))
    assert not sysctl.covers([(1, 5), (7, 9)], (2, 8))


@pytest.mark.parametrize(
    ("kernel", "file", "after", "kept"),
    [
        ("", None, "40000-40063", "40000-40063"),
        ("30000", None, "30000,40000-40063", "30000,40000-40063"),
        ("40000-40100", None, "40000-40100", None),  # somebody else's file has it
        ("40000-40063", "40000-40063", "40000-40063", "40000-40063"),
        ("", "40000-40063", "40000-40063", "40000-40063"),  # the kernel lost it
        ("40000-40063", "50000", "40000-40063", "40000-40063,50000"),
    ],
)
def test_reserving_merges_and_repeats_nothing(tmp_path, kernel, file, after, kept):
    proc = str(tmp_path / "proc")
    write(tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports", kernel + "\n")
    conf = tmp_path / "etc/60.conf"
    if file is not None:
        write(conf, f"# a remark\n{sysctl.NAME} = {file}\n")
    before = (tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports").read_text(), sysctl.saved(str(conf))
    dry = reserve((40000, 40063), str(conf), True, proc)
    assert ((tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports").read_text(), sysctl.saved(str(conf))) == before
    done = reserve((40000, 40063), str(conf), False, proc)
    assert dry == done
    assert done["changed"] is ((kernel, file) != (after, kept))
    assert (tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip() == after
    assert sysctl.saved(str(conf)) == (sysctl.parse(kept) if kept else None)
    assert reserve((40000, 40063), str(conf), False, proc)["changed"] is False


@pytest.mark.parametrize(
    ("kernel", "other", "after"),
    [
        ("40000-40063", None, ""),
        ("29000,39000-41000", None, "29000,39000-39999,40064-41000"),
        ("40000-40063", "40010-40020,50000", "40010-40020,50000"),
    ],
)
def test_giving_back_leaves_what_is_somebody_elses(tmp_path, kernel, other, after):
    proc, conf = str(tmp_path / "proc"), tmp_path / "sysctl.d" / "60.conf"
    write(tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports", kernel + "\n")
    write(conf, f"{sysctl.NAME} = 29000,40000-40063\n")
    if other:
        write(tmp_path / "sysctl.d" / "50-other.conf", f"{sysctl.NAME} = {other}\n")
    folders = [str(tmp_path / "sysctl.d")]
    dry = give_back((40000, 40063), str(conf), True, proc, folders)
    assert conf.exists()
    assert (tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip() == kernel
    assert give_back((40000, 40063), str(conf), False, proc, folders) == dry
    assert (dry["changed"], dry["reserved"]) == (True, after)
    assert (tmp_path / "proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip() == after
    assert not conf.exists()


def test_reserving_without_a_file(tmp_path):
    write(tmp_path / "sys/net/ipv4/ip_local_reserved_ports", "")
    assert reserve((40000, 40063), "", False, str(tmp_path))["reserved"] == "40000-40063"


# -- rights and drivers -------------------------------------------------------------------------------------------------


def test_rights(tmp_path):
    write(tmp_path / "self/status", "Name:\tx\nCapEff:\t0000000000004000\n")
    assert rights.rights(str(tmp_path))["ipc_lock"] is True
    write(tmp_path / "self/status", "CapEff:\t0000000000000400\n")
    assert rights.rights(str(tmp_path))["ipc_lock"] is False


NVIDIA = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: gcc 12\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)\n"


@pytest.mark.parametrize(
    ("driver", "kernel", "version", "dma_buf"),
    [
        (NVIDIA, "6.8.0-31-generic", "535.183.01", False),
        (OPEN, "6.8.0", "570.86.15", True),
        (OPEN, "5.10.0", "570.86.15", False),
    ],
)
def test_nvidia_drivers(tmp_path, driver, kernel, version, dma_buf):
    write(tmp_path / "proc/driver/nvidia/version", driver)
    write(tmp_path / "proc/sys/kernel/osrelease", kernel + "\n")
    (tmp_path / "sys/module/nvidia_peermem").mkdir(parents=True)
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").touch()
    folders = [str(tmp_path / name) for name in ("dev", "sys", "proc")]
    assert rights.drivers(folders[2], folders[1], "/nowhere") == {"nvidia": version}
    assert rights.rdma(*folders) == {
        "verbs": ["uverbs0"],
        "open": True,
        "peermem": ["nvidia_peermem"],
        "dma_buf": dma_buf,
    }


def test_other_drivers(tmp_path):
    write(tmp_path / "sys/module/amdgpu/version", "6.7.0\n")
    write(tmp_path / "version.info", "Version=25.0.rc1.1\nascendhal_version=7.35.23\n")
    found = rights.drivers("/nowhere", str(tmp_path / "sys"), str(tmp_path / "version.info"))
    assert found == {"amd": "6.7.0", "ascend": "25.0.rc1.1"}


# -- firewalls and proxies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "drops"),
    [
        ("-P INPUT ACCEPT\n", False),
        ("-P INPUT DROP\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -s 10.0.0.1/32 -p tcp -j REJECT --reject-with icmp-port-unreachable\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -j DROPBOX\n", False),
    ],
)
def test_iptables(said, drops):
    assert firewall.iptables_drops(said) is drops


def nft(policy="accept", hook="input", *expressions):
    chain = {"family": "inet", "table": "filter", "name": "in", "hook": hook, "policy": policy}
    rules = [{"rule": {"family": "inet", "table": "filter", "chain": "in", "expr": [e]}} for e in expressions]
    return json.dumps({"nftables": [{"metainfo": {}}, {"chain": chain}, *rules]})


@pytest.mark.parametrize(
    ("said", "drops"),
    [
        (nft(), False),
        (nft("drop"), True),
        (nft("drop", "forward"), False),
        (nft("accept", "input", {"reject": {"type": "icmpx"}}), True),
        (nft("accept", "input", {"accept": None}), False),
        (nft("accept", "output", {"drop": None}), False),
        ("", False),
        ("no json", False),
    ],
)
def test_nftables(said, drops):
    assert firewall.nft_drops(said) is drops


def test_proxies_without_their_passwords(tmp_path):
    write(
        tmp_path / "systemd/system/docker.service.d/proxy.conf",
        '[Service]\nEnvironment="HTTP_PROXY=http://me:secret@proxy.example:3128" "NO_PROXY=localhost"\n',
    )
    found = firewall.proxies(
        {"https_proxy": "http://u:p@10.0.0.1:8080/", "NO_PROXY": "x", "HTTP_PROXY": ""}, str(tmp_path)
    )
    assert found == {
        "environment": {"https_proxy": "http://10.0.0.1:8080"},
        "daemon": {"http_proxy": "http://proxy.example:3128"},
    }


# -- room ---------------------------------------------------------------------------------------------------------------


def test_room_of_a_directory_that_is_yet_to_be_made(tmp_path):
    found = space.room(str(tmp_path / "a" / "b"))
    assert found["there"] == str(tmp_path)
    assert found["writable"] is True
    assert 0 < found["free"] <= found["total"]


def test_processes_on_gpus():
    said = "GPU-aa, 4711, 20312, /opt/vllm/bin/python3.12 -m x\nGPU-bb, 4712, [N/A], \nNo running processes found\n"
    found = space.parse_apps(said, lambda pid: ("g-prefill-0", "/s") if pid == 4711 else None)
    assert [(p["uuid"], p["pid"], p["used_mib"], p["command"], p["member"]) for p in found] == [
        ("GPU-aa", 4711, 20312, "python3.12", "g-prefill-0"),
        ("GPU-bb", 4712, None, "", None),
    ]
