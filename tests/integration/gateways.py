# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands before groups in tests: a real HAProxy and a real nginx on ports of their own, and endpoints that say who they are."""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from integration import support_runtime
from ports import free_block
from support import ROOT


def need() -> None:
    """Have both programs on this machine, or skip."""
    made = subprocess.run([ROOT / "tests/gateway/setup.sh"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(made.stderr.strip())


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    assert found, name
    return found


def get(url: str, timeout: float = 20) -> tuple[int, str]:
    """(status, text); status 0 where nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()
    except OSError as exc:
        return 0, str(exc)


class Endpoint:
    """An HTTP server that answers with its name; /slow does so once it is told to (`go`)."""

    def __init__(self, name: str) -> None:
        self.name, self.go, self.slow = name, threading.Event(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/slow":
                    outer.slow.set()
                    outer.go.wait(30)
                body = outer.name.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: t.Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def end(self) -> None:
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


class Gateway:
    """One program before groups, with a folder of its own. `port` is where clients ask, `hook` the entry of pd_endpoint_hooks."""

    kind = ""

    def __init__(self) -> None:
        # A socket's path is short, whatever pytest calls its folders.
        self.folder = Path(tempfile.mkdtemp(prefix="pd-gw-"))
        self.pd = self.folder / "pd"
        self.pd.mkdir()
        self.port = free_block(1)
        self.pid_file = self.folder / "pid"
        self.configure()

    def configure(self) -> None:
        raise NotImplementedError

    def argv(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        subprocess.run(self.argv(), check=True, capture_output=True, timeout=30)
        support_runtime.wait_for(self.listens, 10, f"{self.kind} to listen")

    def listens(self) -> bool:
        return get(self.url)[0] != 0

    def stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            pid = int(self.pid_file.read_text())
            os.kill(pid, signal.SIGTERM)
            support_runtime.wait_for(
                lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), 15, f"{self.kind} to end"
            )

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reload(self, number: int) -> list[str]:
        return ["sh", "-c", f"echo reloaded >> {self.folder}/reloads; kill -{number} $(cat {self.pid_file})"]

    @property
    def reloads(self) -> int:
        """How often it was reloaded."""
        file = self.folder / "reloads"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def asked(self, times: int) -> dict[str, int]:
        """How many of some requests each endpoint answered."""
        found: dict[str, int] = {}
        for _time in range(times):
            status, text = get(self.url)
            who = text if status == 200 else str(status)
            found[who] = found.get(who, 0) + 1
        return found


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class HAProxy(Gateway):
    kind = "haproxy"

    def configure(self) -> None:
        self.socket = self.folder / "admin.sock"
        self.file = self.pd / "llm.cfg"
        self.main = self.folder / "haproxy.cfg"
        self.main.write_text(
            "global\n"
            f"    stats socket {self.socket} mode 600 level admin\n"
            "defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n"
            f"frontend clients\n    bind 127.0.0.1:{self.port}\n    default_backend llm\n"
        )
        self.file.write_text("backend llm\n")

    def argv(self) -> list[str]:
        return [program("haproxy"), "-W", "-D", "-p", str(self.pid_file), "-f", str(self.main), "-f", str(self.pd)]

    def hook(self, **changes: t.Any) -> dict[str, t.Any]:
        return {
            "kind": "haproxy",
            "hosts": "gw",
            "backend": "llm",
            "file": str(self.file),
            "socket": str(self.socket),
            "lines": ["balance roundrobin"],
            "reload": self.reload(signal.SIGUSR2),
            "check": [program("haproxy"), "-c", "-f", str(self.main), "-f", str(self.pd)],
            "drain": 20,
            **changes,
        }


class Nginx(Gateway):
    kind = "nginx"

    def configure(self) -> None:
        (self.pd / "llm.d").mkdir()
        self.main = self.folder / "nginx.conf"
        self.main.write_text(
            f"pid {self.pid_file};\nerror_log {self.folder}/error.log;\nevents {{}}\n"
            f"http {{\n  access_log off;\n  client_body_temp_path {self.folder}/body;\n  proxy_temp_path {self.folder}/proxy;\n"
            f"  fastcgi_temp_path {self.folder}/fcgi;\n  uwsgi_temp_path {self.folder}/uwsgi;\n  scgi_temp_path {self.folder}/scgi;\n"
            f"  upstream llm {{\n    server 127.0.0.1:9 down;\n    include {self.pd}/llm.d/*.conf;\n  }}\n"
            f"  server {{\n    listen 127.0.0.1:{self.port};\n    location / {{ proxy_pass http://llm; }}\n  }}\n}}\n"
        )

    def argv(self) -> list[str]:
        return [program("nginx"), "-c", str(self.main), "-p", str(self.folder)]

    def hook(self, **changes: t.Any) -> dict[str, t.Any]:
        return {
            "kind": "nginx",
            "hosts": "gw",
            "file": f"{self.pd}/llm.d/${{group}}.conf",
            "reload": self.reload(signal.SIGHUP),
            "check": [program("nginx"), "-t", "-c", str(self.main), "-p", str(self.folder)],
            **changes,
        }
