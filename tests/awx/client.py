# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX as a user of its API meets it: what is found by its name, launched, waited for and read."""

from __future__ import annotations

import base64
import json
import time
import typing as t
import urllib.error
import urllib.request
from urllib.parse import quote

OVER = ("successful", "failed", "error", "canceled")
Object = dict[str, t.Any]


class RefusedError(Exception):
    """AWX answered with an error: its status, and what it says."""

    def __init__(self, what: str, status: int, said: str) -> None:
        super().__init__(f"{what}: {status}: {said[:3000]}")
        self.status, self.said = status, said


class Client:
    """Somebody at an AWX: with a name and a password, or with a token."""

    def __init__(self, url: str, user: str = "", password: str = "", token: str = "") -> None:
        self.url, self.user, self.password = url, user, password
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.authorization = f"Bearer {token}" if token else f"Basic {basic}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self, method: str, path: str, data: t.Any = None) -> bytes:
        request = urllib.request.Request(
            self.url + path,
            None if data is None else json.dumps(data).encode(),
            {"Authorization": self.authorization, "Content-Type": "application/json"},
            method=method,
        )
        try:
            with self._opener.open(request, timeout=120) as answer:
                return t.cast("bytes", answer.read())
        except urllib.error.HTTPError as exc:
            raise RefusedError(f"{method} {path}", exc.code, exc.read().decode(errors="replace")) from exc

    def call(self, method: str, path: str, data: t.Any = None) -> Object:
        return t.cast("Object", json.loads(self.read(method, path, data) or b"{}"))

    def get(self, path: str) -> Object:
        return self.call("GET", path)

    def all(self, path: str) -> list[Object]:
        """What a list has, at most 200."""
        return t.cast("list[Object]", self.get(f"{path}{'&' if '?' in path else '?'}page_size=200")["results"])

    def find(self, kind: str, name: str) -> Object:
        """The one object of a kind (`job_templates`) and name."""
        found = self.all(f"/api/v2/{kind}/?name={quote(name)}")
        if len(found) != 1:
            there = sorted(each["name"] for each in self.all(f"/api/v2/{kind}/"))
            raise LookupError(f"{len(found)} of {kind} are named {name!r}; there are {there}")
        return found[0]

    # --- Jobs and workflows.

    def launch(self, name: str, kind: str = "job_templates", extra_vars: t.Any = None, **more: t.Any) -> Object:
        """The job, or the workflow, that was started."""
        body = {**more, **({} if extra_vars is None else {"extra_vars": extra_vars})}
        started = self.call("POST", self.find(kind, name)["related"]["launch"], body)
        ignored = {key: value for key, value in started.get("ignored_fields", {}).items() if value}
        if ignored:
            raise AssertionError(f"AWX started {name!r}, and ignored {ignored}")
        return self.get(started["url"])

    def wait(self, job: Object, limit: float = 420) -> Object:
        """The job, once it is over."""
        end = time.monotonic() + limit
        while True:
            job = self.get(job["url"])
            if job["status"] in OVER:
                return job
            if time.monotonic() > end:
                raise AssertionError(
                    f"{job['name']} is {job['status']} after {limit:.0f} s\n{self.stdout(job)[-3000:]}"
                )
            time.sleep(0.5)

    def run(self, name: str, kind: str = "job_templates", **how: t.Any) -> Object:
        """Launched, and over."""
        return self.wait(self.launch(name, kind, **how))

    def stdout(self, job: Object) -> str:
        """What a job printed."""
        if "stdout" not in job.get("related", {}):
            return f"({job['type']} {job['id']}: {job['status']} {job.get('job_explanation', '')})"
        # A job's last lines come a moment after its status.
        end = time.monotonic() + 20
        while job.get("event_processing_finished") is False and time.monotonic() < end:
            time.sleep(0.2)
            job = self.get(job["url"])
        return self.read("GET", f"{job['related']['stdout']}?format=txt").decode()

    def nodes(self, workflow: Object) -> list[Object]:
        """The nodes of a workflow's run: each with its job as `job`, where it has one."""
        found = []
        for node in self.all(workflow["related"]["workflow_nodes"]):
            job = node["related"].get("job")
            found.append({**node, "job": self.get(job) if job else None})
        return found
