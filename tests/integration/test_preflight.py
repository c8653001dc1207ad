# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight on hosts that have something wrong with them. A host is a network namespace with a management and a data NIC, entered by
the interpreter that Ansible is told to use; what it alone has on its disks is mounted there, and gone with each call."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life, spec
from ports import free_block
from support import Run, playbook_command, run

pytestmark = pytest.mark.integration
Make = t.Callable[..., Life]
IP = shutil.which("ip") or "/usr/sbin/ip"


def sh(command: str, check: bool = True) -> str:
    done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
    return done.stdout


class Pair:
    """Two hosts in namespaces, h1 and h2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounts: dict[str, list[str]] = {"h1": [], "h2": []}
        self.names = {host: f"pdpf{os.getpid()}-{host}" for host in ("h1", "h2")}

    def up(self) -> None:
        for name in self.names.values():
            sh(f"{IP} netns add {name} && {IP} -n {name} link set lo up")
        one, two = self.names.values()
        for nic, net, mtu in (("mgmt0", "10.250.77", 1500), ("data0", "10.251.77", 9000)):
            sh(f"{IP} link add {nic} netns {one} mtu {mtu} type veth peer name {nic} netns {two} mtu {mtu}")
            for number, name in enumerate(self.names.values(), 1):
                sh(f"{IP} -n {name} addr add {net}.{number}/24 dev {nic} && {IP} -n {name} link set {nic} up")
        for name in self.names.values():
            sh(f"{IP} -n {name} route add default dev mgmt0")

    def down(self) -> None:
        for name in self.names.values():
            sh(f"{IP} netns pids {name} | xargs -r kill -9", check=False)
            sh(f"{IP} netns del {name}", check=False)

    def inside(self, host: str, command: str, check: bool = True) -> str:
        return sh(f"{IP} netns exec {self.names[host]} {command}", check)

    def variables(self, host: str, ports: str) -> dict[str, t.Any]:
        interpreter = self.folder / f"python-{host}"
        mounts = " && ".join([*self.mounts[host], 'exec "$0" "$@"'])
        interpreter.write_text(
            f'#!/bin/sh\nexec {IP} netns exec {self.names[host]} sh -c {shlex.quote(mounts)} {sys.executable} "$@"\n'
        )
        interpreter.chmod(0o755)
        return {
            "ansible_python_interpreter": str(interpreter),
            "pd_address": f"10.250.77.{host[1]}",
            "pd_kv_interface": "data0",
            "pd_port_range": ports,
            "pd_state_dir": str(self.folder / f"state-{host}"),
        }


@pytest.fixture
def pair(tmp_path: Path) -> t.Iterator[Pair]:
    if (
        os.geteuid()
        or subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs root and namespaces")
    made = Pair(tmp_path)
    try:
        made.up()
        yield made
    finally:
        made.down()


def site_of(pair: Pair, make_site: Make, model: Path, **changes: t.Any) -> Life:
    """Prefill and router on h1, decode on h2."""
    low = free_block(30)
    hosts = {
        "h1": pair.variables("h1", f"{low + 1}-{low + 14}"),
        "h2": pair.variables("h2", f"{low + 15}-{low + 29}"),
    }
    roles = {"prefill": {"hosts": "h1", "gpus": 0}, "decode": {"hosts": "h2", "gpus": 0}, "router": {"hosts": "h1"}}
    site = make_site(hosts, {"g": spec(model, low, **{**roles, **changes})})
    site.port = low
    return site


def listeners(pair: Pair) -> list[str]:
    return [line for host in pair.names for line in pair.inside(host, "ss -ltnH").splitlines()]


def said(found: Run) -> str:
    return " ".join(found.out.split())


def test_a_good_pair_and_nothing_is_left_behind(pair: Pair, make_site: Make, model: Path) -> None:
    site = site_of(pair, make_site, model)
    found = site.play("preflight", "--check").ok()
    # The stand-in for an engine has no version that can be read where it is installed.
    assert "preflight of g: 0 errors, 1 unverified, 0 warnings on 2 hosts" in found.out
    for told in ("data0, 10.251.77.1, MTU 9000", "9000 bytes pass", "h1 to h2", "h2 to h1", "Gb/s by TCP"):
        assert told in found.out
    assert "End listeners" not in found.out
    assert found.changed == 0
    assert site.untouched()
    assert listeners(pair) == []


def test_everything_that_is_wrong_is_told_at_once_and_before_anything_starts(
    pair: Pair, make_site: Make, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(model, other)
    (other / "tokenizer.json").write_text("{}")
    (tmp_path / "state-h1").mkdir()
    pair.mounts["h1"] = [f"mount -t tmpfs -o size=64k none {tmp_path}/state-h1"]
    pair.mounts["h2"] = [f"mount --bind {other} {model}"]
    if not shutil.which("iptables") and not Path("/usr/sbin/iptables").exists():
        pytest.skip("needs iptables")
    pair.inside("h2", "iptables -A INPUT -i data0 -p tcp --syn -j DROP")
    site = site_of(pair, make_site, model)
    began = time.monotonic()
    found = site.play("preflight").refused()
    text = said(found)
    assert "peer-unreachable [h2]: h1 reaches" in text
    assert "iptables -I INPUT -p tcp -s 10.251.77.1 -j ACCEPT" in text
    assert "no answer: packets are dropped on the way" in text
    assert "model-differs" in text
    assert "disk-full [h1]" in text
    assert "3 errors" in text
    # The other direction is fine.
    assert "peer-unreachable [h1]" not in text
    assert listeners(pair) == [], "listeners that nobody could tell are ended"
    assert time.monotonic() - began < 40
    assert not (tmp_path / "state-h2").exists()


def test_no_interface_named_a_wrong_one_and_a_dead_container_engine(pair: Pair, make_site: Make, model: Path) -> None:
    site = site_of(pair, make_site, model, runtime="docker")
    group = site.groups["g"]
    group["engine"] = {"image": "registry.invalid/engine:1", "version": "0.32.0", "args": ["--max-model-len=4096"]}
    group["roles"]["router"].pop("executable")
    site.hosts["h1"] |= {"pd_docker_host": "unix:///nowhere/docker.sock", "pd_kv_interface": []}
    site.hosts["h2"] |= {"pd_docker_host": "unix:///nowhere/docker.sock", "pd_kv_interface": "eth7"}
    site.write()
    found = site.play("preflight").refused()
    text = said(found)
    assert "several interfaces could carry the KV cache" in text
    assert "mgmt0 (10.250.77.1, speed unknown, driver veth, no RDMA, default route)" in text
    assert "data0 (10.251.77.1, speed unknown, driver veth, no RDMA)" in text
    assert "pd_kv_interface names eth7, which the host has not (it has lo, mgmt0, data0)" in text
    assert "runtime-missing [h1]: runtime docker is not usable on h1" in text
    assert site.untouched()


def test_ports_are_reserved_on_request_once(pair: Pair, make_site: Make, model: Path, tmp_path: Path) -> None:
    for host in pair.names:
        (tmp_path / f"sysctl-{host}").mkdir()
        pair.mounts[host] = [f"mount --bind {tmp_path}/sysctl-{host} /etc/sysctl.d"]
        pair.inside(
            host, "sysctl -qw net.ipv4.ip_local_reserved_ports=29000 net.ipv4.ip_local_port_range='30000 60999'"
        )
    site = site_of(pair, make_site, model)

    def reserve(*more: str) -> Run:
        command = str(Path(playbook_command()).with_name("ansible"))
        asked = ["-m", "inferops.pd.port_reservation", "-a", "ports={{ pd_port_range }}"]
        return run([command, "-i", str(site.folder / "hosts.yml"), "all", *asked, *more], 60).ok()

    kernel = "/proc/sys/net/ipv4/ip_local_reserved_ports"
    span = site.hosts["h1"]["pd_port_range"]
    checked = reserve("--check", "--diff")
    assert checked.out.count("CHANGED") == 2
    assert f"+net.ipv4.ip_local_reserved_ports = 29000,{span}" in checked.out
    assert pair.inside("h1", f"cat {kernel}").strip() == "29000"
    found = site.play("preflight", pd_reserve_ports="true").ok()
    assert found.changed == 2
    assert "ports-ephemeral" not in found.out
    assert pair.inside("h1", f"cat {kernel}").strip() == f"29000,{span}"
    kept = (tmp_path / "sysctl-h1" / "60-inferops-pd.conf").read_text()
    assert f"net.ipv4.ip_local_reserved_ports = 29000,{span}" in kept
    assert reserve("--diff").out.count("SUCCESS") == 2


def test_a_running_group_is_checked_as_it_runs(pair: Pair, make_site: Make, model: Path) -> None:
    site = site_of(pair, make_site, model)
    try:
        site.play("deploy", pd_proof="never").ok()
        found = site.play("preflight").ok()
        assert "0 errors, 1 unverified, 0 warnings" in found.out, found.out
        assert "0 listened on, 4 served by running members" in found.out, found.out
    finally:
        site.clean()


def test_on_this_machine_alone(make_site: Make) -> None:
    """One host for all roles: nothing between hosts, no network at all."""
    site = make_site()
    found = site.play("preflight").ok()
    assert "on 1 host" in found.out
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", site.port)) != 0
    assert site.untouched()
