# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateways to copy (examples/gateway) work as they stand, but for where their files and ports are."""

from __future__ import annotations

import json
import ssl
import subprocess
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from integration import gateways, support_runtime
from integration.gateways import Endpoint, HAProxy, Nginx
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.base.reader import Reader
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Act, Hook
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.endpoint import read_hook
from ansible_collections.inferops.pd.plugins.module_utils._host.endpoint_hooks import carry_out

pytestmark = pytest.mark.integration

EXAMPLE = ROOT / "examples" / "gateway"
HOOKS: dict[str, t.Any] = yaml.safe_load((EXAMPLE / "hooks.yml").read_text())["pd_endpoint_hooks"]


def certificate(folder: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-keyout", folder / "llm.key", "-out", folder / "llm.crt"], check=True, capture_output=True
    )
    (folder / "llm.pem").write_text((folder / "llm.crt").read_text() + (folder / "llm.key").read_text())


def secure(port: int, key: str = "sk-one") -> str:
    """Who answers over TLS, or with which status."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    request = urllib.request.Request(f"https://127.0.0.1:{port}/", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as exc:
        return str(exc.code)
    except OSError:
        return "nobody"


def asked(port: int, times: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for _time in range(times):
        who = secure(port)
        found[who] = found.get(who, 0) + 1
    return found


class ExampleHAProxy(HAProxy):
    """The example's, with its files in a folder and its port anywhere."""

    def moved(self, text: str) -> str:
        text = text.replace("/etc/haproxy", str(self.folder)).replace("/run/haproxy", str(self.folder))
        return text.replace("bind :443", f"bind 127.0.0.1:{self.port}").replace("/dev/log", f"{self.folder}/log")

    def configure(self) -> None:
        super().configure()
        certificate(self.folder)
        (self.folder / "keys.lst").write_text("Bearer sk-one\nBearer sk-two\n")
        self.main.write_text(self.moved((EXAMPLE / "haproxy" / "haproxy.cfg").read_text()))

    def listens(self) -> bool:
        return secure(self.port) != "nobody"

    def hook(self, **changes: t.Any) -> dict[str, t.Any]:
        made = json.loads(self.moved(json.dumps(HOOKS["gateway"])))
        made["check"][0] = gateways.program("haproxy")
        return {**made, "reload": super().hook()["reload"], "drain": 5, **changes}


class ExampleNginx(Nginx):
    def configure(self) -> None:
        super().configure()
        certificate(self.folder)
        text = (EXAMPLE / "nginx" / "llm.conf").read_text().replace("/etc/nginx", str(self.folder))
        (self.folder / "llm.conf").write_text(text.replace("listen 443", f"listen 127.0.0.1:{self.port}"))
        head = self.main.read_text().partition("  upstream llm")[0]
        self.main.write_text(f"{head}  include {self.folder}/llm.conf;\n}}\n")

    def hook(self, **changes: t.Any) -> dict[str, t.Any]:
        made = json.loads(json.dumps(HOOKS["edge"]).replace("/etc/nginx", str(self.folder)))
        mine = super().hook()
        return {**made, "check": mine["check"], "reload": mine["reload"], **changes}


def read(name: str, written: dict[str, t.Any]) -> Hook:
    findings = Findings()
    made = read_hook(name, written, Reader(findings))
    assert made is not None, findings.to_plain()
    return made


@pytest.fixture
def two() -> t.Iterator[tuple[Endpoint, Endpoint]]:
    made = Endpoint("qwen3-blue"), Endpoint("qwen3-green")
    yield made
    for one in made:
        one.end()


def give(hook: Hook, *endpoints: tuple[Endpoint, int]) -> None:
    results, _diffs = carry_out([Act(hook, "in", one.name, one.url, "tiny", weight) for one, weight in endpoints])
    assert all(result["ok"] for result in results.values()), results


def test_every_hook_of_the_example_is_read() -> None:
    for name, written in HOOKS.items():
        read(name, written)


def test_haproxy_with_tls_and_keys_before_two_groups(two: tuple[Endpoint, Endpoint]) -> None:
    gateways.need()
    blue, green = two
    gateway = ExampleHAProxy()
    try:
        gateway.start()
        hook = read("gateway", gateway.hook())
        assert secure(gateway.port) == "503"
        give(hook, (blue, 90), (green, 10))
        assert secure(gateway.port, "sk-none") == "401"
        assert asked(gateway.port, 40) == {"qwen3-blue": 36, "qwen3-green": 4}
        # The canary gets half of it, without a reload.
        before = gateway.reloads
        give(hook, (blue, 50), (green, 50))
        assert asked(gateway.port, 40) == {"qwen3-blue": 20, "qwen3-green": 20}
        assert gateway.reloads == before
    finally:
        gateway.end()


def test_nginx_with_tls_before_two_groups(two: tuple[Endpoint, Endpoint]) -> None:
    gateways.need()
    blue, green = two
    gateway = ExampleNginx()
    try:
        gateway.start()
        give(read("edge", gateway.hook()), (blue, 90), (green, 10))
        support_runtime.wait_for(
            lambda: asked(gateway.port, 20) == {"qwen3-blue": 18, "qwen3-green": 2}, 15, "requests by weights"
        )
    finally:
        gateway.end()


def test_prometheus_watches_where_the_hook_writes() -> None:
    job = yaml.safe_load((EXAMPLE / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    (watched,) = job["file_sd_configs"][0]["files"]
    written = read("prometheus", HOOKS["prometheus"]).path("qwen3-blue")
    assert Path(written).match(watched)
