# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane of Kubernetes on loopback: without nodes, which tests write themselves."""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from ports import free_ports

CACHE = Path(
    os.environ.get("PD_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "inferops-pd"
)
BINARIES = CACHE / "kubernetes-1.20.2"
NEEDED = "tests/kube/build.sh builds it from Debian's sources"


class Server:
    """The API server. Tokens are made before it starts: `token` is an administrator's, those of `users` have no rights of their own."""

    def __init__(self, folder: Path, users: t.Sequence[str] = ()) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.users = {name: secrets.token_hex(16) for name in users}
        self.port, self._etcd, self._peers, self._scheduler, self._controllers = free_ports(5)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> Server:
        self.folder.mkdir(parents=True, exist_ok=True)
        key, tokens = self.folder / "sa.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60)
        lines = [
            f"{self.token},admin,1,system:masters",
            *(f"{token},{name},{name}" for name, token in self.users.items()),
        ]
        tokens.write_text("\n".join(lines) + "\n")
        peers = f"http://127.0.0.1:{self._peers}"
        self._run(
            "etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{self._etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--unsafe-no-fsync",
        )  # fmt: skip
        self._run(
            str(BINARIES / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{self._etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.port}", f"--cert-dir={self.folder}/pki",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC", f"--token-auth-file={tokens}", "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        )  # fmt: skip
        self._wait()
        # Pods get their nodes, and Services their endpoints. What looks after nodes is left out: they are the tests' own.
        self._run(
            str(BINARIES / "kube-scheduler"), f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--port=0",
            "--bind-address=127.0.0.1", f"--secure-port={self._scheduler}", f"--cert-dir={self.folder}/scheduler",
        )  # fmt: skip
        self._run(
            str(BINARIES / "kube-controller-manager"), f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--port=0",
            "--bind-address=127.0.0.1", f"--secure-port={self._controllers}", f"--cert-dir={self.folder}/controllers",
            "--controllers=endpoint,garbagecollector,namespace", f"--service-account-private-key-file={key}",
        )  # fmt: skip
        return self

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self._processes.clear()

    def kubeconfig(self, user: str = "") -> Path:
        """A file for the administrator, or for one of the users."""
        file = self.folder / f"kubeconfig-{user or 'admin'}"
        token = self.users[user] if user else self.token
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
                    "users": [{"name": "u", "user": {"token": token}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        file.chmod(0o600)
        return file

    def _run(self, *words: str) -> None:
        with (self.folder / f"{Path(words[0]).name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            )

    def _wait(self) -> None:
        trusts_all = ssl.create_default_context()
        trusts_all.check_hostname, trusts_all.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"})
        end = time.monotonic() + 120
        while time.monotonic() < end:
            died = next((one for one in self._processes if one.poll() is not None), None)
            assert died is None, f"{died.args} ended: see {self.folder}" if died else ""
            try:
                with urllib.request.urlopen(request, timeout=5, context=trusts_all) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.2)
        raise AssertionError(f"the API server is not ready: see {self.folder}")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Server]:
    """One for the session; each test has a namespace of its own."""
    if not (BINARIES / "kube-apiserver").exists() or not shutil.which("etcd"):
        pytest.skip(f"no API server of Kubernetes here: {NEEDED}")
    server = Server(tmp_path_factory.mktemp("kube"), users=("deployer", "nobody"))
    try:
        yield server.start()
    finally:
        server.stop()
