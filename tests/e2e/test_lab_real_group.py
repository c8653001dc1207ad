# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real engines, each on a host of its own, by systemd and by Docker, over ssh: the KV cache travels over the data NIC."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import typing as t
import urllib.request
from pathlib import Path

import pytest
from e2e.conftest import DEMO, real_group
from lab.fixture import Lab, LabSite
from support import ROOT

pytestmark = pytest.mark.e2e
PORT = 28190
REQUESTS = 6


def containers(lab: Lab) -> dict[str, t.Any]:
    """What lets a container run the engine of this machine: an image of its shell and Python, and the rest bound, since nobody copies
    gigabytes. Fills every host's Docker with one image: imported on each, it would be as many, and the group would be refused."""
    with (lab.share / "image.tar").open("wb") as tar:
        subprocess.run([str(ROOT / "tests/docker/image.sh")], stdout=tar, check=True)
    saved = lab.ssh("h1", "docker import /srv/lab/image.tar pd-lab:1 >&2 && docker save pd-lab:1 | base64", timeout=120)
    (lab.share / "image.tar").write_bytes(base64.b64decode(saved))
    lab.everywhere("docker load -i /srv/lab/image.tar", timeout=120)
    engine = (DEMO / "engine").resolve()
    base = Path(os.path.realpath(engine / "bin/python")).parent.parent
    folders = [
        ROOT,
        engine,
        (DEMO / "model").resolve(),
        "/usr",
        *([base] if base != Path("/usr") else []),
    ]
    return {"image": "pd-lab:1", "pull": "never", "mounts": [f"{folder}:{folder}:ro" for folder in folders]}


@pytest.fixture(scope="module", params=["systemd", "docker"])
def fleet(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[LabSite]:
    group = real_group(runtime=request.param)
    # Two prefills once; the way through containers is shown by one.
    prefills, hosts = (2, "h1:h2") if request.param == "systemd" else (1, "h1")
    group["roles"]["prefill"] |= {"hosts": hosts, "replicas": prefills}
    group["roles"]["decode"] |= {"hosts": "h3"}
    group["roles"]["router"] |= {"hosts": "h1"}
    variables: dict[str, t.Any] = {"pd_port_range": "28100-28163"}
    if request.param == "docker":
        own = containers(lab)
        group["engine"] |= own
        group["roles"]["router"] |= {"mounts": own["mounts"]}
        # The hosts see this Python, which has the library that speaks to Docker.
        variables["ansible_python_interpreter"] = sys.executable
    made = LabSite(lab, Path(tmp_path_factory.mktemp("fleet")), {"real": group}, **variables)
    made.prefills = prefills
    yield made
    made.play("remove", pd_group="real", pd_break_lock="true")


def ask(lab: Lab, prompt: str) -> dict[str, t.Any]:
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 4, "temperature": 0}).encode()
    url = f"http://{lab.address('h1')}:{PORT}/v1/completions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return t.cast("dict[str, t.Any]", json.load(answer))


def sent(lab: Lab) -> dict[str, int]:
    """Bytes that the prefills' hosts have sent, by interface."""
    return {nic: sum(lab.bytes_sent(host, nic) for host in ("h1", "h2")) for nic in ("rdma0", "mgmt0")}


def test_a_real_group_over_three_hosts(fleet: LabSite) -> None:
    out = fleet.play("deploy").ok().out
    assert f"{fleet.prefills} of {fleet.prefills} pairs move the KV cache and answer right" in out
    assert "real: RUNNING" in fleet.play("status", pd_fail_unless_running="true").ok().out


def test_the_kv_cache_travels_over_the_data_nic(fleet: LabSite) -> None:
    lab = fleet.lab
    before = sent(lab)
    tokens = sum(
        ask(lab, f"{number} once upon a time " + "there was a king " * 40)["usage"]["prompt_tokens"]
        for number in range(REQUESTS)
    )
    after = sent(lab)
    grown = {nic: after[nic] - before[nic] for nic in before}
    # Of this model a token's KV is more than a KiB; HTTP, router and ssh together are a small part of that.
    assert grown["rdma0"] > 1024 * tokens, grown
    assert grown["mgmt0"] < grown["rdma0"] / 5, grown


def test_remove_leaves_nothing(fleet: LabSite) -> None:
    fleet.play("remove", pd_group="real").ok()
    look = (
        "ls /etc/systemd/system | grep inferops-pd",
        "ls -d /var/lib/inferops-pd",
        "grep -lzs INFEROPS_PD_MEMBER= /proc/[0-9]*/environ",
        "docker ps -aq",
        "true",
    )
    assert not any(fleet.lab.everywhere("; ".join(f"{command} 2>/dev/null" for command in look)).values())
