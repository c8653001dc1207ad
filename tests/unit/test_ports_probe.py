# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports, read from recorded text of /proc, and from this host."""

from __future__ import annotations

import os
import socket

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import ports

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41234 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0
   2: 0B00D60A:9C41 0C00D60A:1F40 01 00000000:00000000 00:00000000 00000000  1000        0 41236 1 0000000000000000 20 4 30 10 -1
   3: 0B00D60A:9C42 0C00D60A:1F40 06 00000000:00000000 03:00000ABC 00000000     0        0 0 3 0000000000000000
"""
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5555 1 0000000000000000 100 0 0 10 0
   1: B80D01200000000000000000010000000:9C43 bad line
"""  # noqa: E501


def test_listening_sockets_only():
    assert [(f.port, f.address, f.uid, f.inode) for f in ports.parse(TCP)] == [
        (40000, "127.0.0.1", 1000, 41234),
        (22, "0.0.0.0", 0, 12345),
    ]


def test_ipv6_and_broken_lines():
    assert [(f.port, f.address) for f in ports.parse(TCP6)] == [(8000, "::")]


def test_a_listener_of_this_process_is_told_with_its_pid():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        (found,) = ports.listening({port})
        assert (found.pid, found.user, found.member) == (os.getpid(), ports.processes.user_name(os.geteuid()), None)
        assert f"pid {os.getpid()}" in ports.busy({port})[port]


def test_a_bound_socket_that_does_not_listen_is_busy_too():
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        port = server.getsockname()[1]
        assert ports.listening({port}) == []
        assert "bound without listening" in ports.busy({port})[port]
    assert ports.busy({port}) == {}


@pytest.mark.parametrize(
    ("reserved", "count"), [("", 36), ("40000-40063", 0), ("40020,40030-40032", 32), ("1-2,nonsense", 36)]
)
def test_ports_that_an_outgoing_connection_may_sit_on(reserved, count):
    assert ports.exposed(40000, 40063, {"ephemeral": [40000, 40035], "reserved": reserved}) == count
    assert ports.exposed(20000, 20063, {"ephemeral": [32768, 60999], "reserved": reserved}) == 0
