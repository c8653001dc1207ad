# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API of a cluster: plain JSON both ways. The client library reads kubeconfigs, does TLS and asks credential plugins; objects are
ours, so that one code speaks to all versions."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
import typing as t
import warnings
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from .._core.base import json_text
from .._core.base.printable import printable
from .._runtimes.errors import HostError

DEADLINE = 30.0
PAGE = 500
# What an answer may be; a page of 500 Pods is some MiB.
LIMIT = 64 * 2**20
LOG_LIMIT = 2**20
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "inferops-pd"
NOT_FOUND, CONFLICT = 404, 409
# What is tried again: the server is busy, or is being started.
_AGAIN = (429, 500, 502, 503, 504)
_PAUSE = (0.2, 2.0)
Query = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Access:
    """Where a cluster is, and as whom it is asked (pd_cluster). What is left out is as the client library finds it: in the environment
    variables that AWX sets (K8S_AUTH_*), in a kubeconfig, or in the Pod that this runs in."""

    namespace: str
    kubeconfig: str | None = None
    context: str | None = None
    host: str | None = None
    api_key: str | None = None
    ca_cert: str | None = None
    verify_ssl: bool = True

    def __repr__(self) -> str:
        return f"Access({self.namespace!r}, {self.host or self.kubeconfig or 'as it is found'!r})"


class ApiError(HostError):
    """What the API server refused, or why it did not answer: then `status` is 0. `reason_word` is the API's own (NotFound, Conflict)."""

    def __init__(self, doing: str, status: int, why: str, hint: str = "", word: str = "") -> None:
        super().__init__(doing, why, hint)
        self.status, self.reason_word = status, word


class Api:
    """Calls to one API server. Threads may share it."""

    def __init__(self, access: Access) -> None:
        self.access, self.namespace = access, access.namespace
        self._mutex = threading.Lock()
        self._made: t.Any = None

    # -- calls ---------------------------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: t.Any) -> dict[str, t.Any]:
        return self.call("GET", path, query)

    def find(self, path: str) -> dict[str, t.Any] | None:
        """An object, None where there is none."""
        with contextlib.suppress(NotFoundError):
            return self.get(path)
        return None

    def listed(self, path: str, **query: t.Any) -> list[dict[str, t.Any]]:
        """All objects of a list, page by page."""
        found: list[dict[str, t.Any]] = []
        more: dict[str, t.Any] = {}
        while True:
            page = self.get(path, limit=PAGE, **query, **more)
            found += json_text.objects(page.get("items"))
            following = json_text.text(json_text.mapping(page.get("metadata")).get("continue"))
            if not following:
                return found
            more = {"continue": following}

    def create(self, path: str, body: t.Mapping[str, t.Any], dry: bool = False) -> dict[str, t.Any]:
        return self.call("POST", path, _written(dry), body)

    def replace(self, path: str, body: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Write an object; one with a resourceVersion only where it is still that."""
        return self.call("PUT", path, _written(False), body)

    def patch(self, path: str, body: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Change some keys of an object; null takes one away."""
        return self.call("PATCH", path, _written(False), body, MERGE)

    def apply(self, path: str, body: t.Mapping[str, t.Any], dry: bool = False) -> dict[str, t.Any]:
        """Server-side apply, never by force: another manager of a field is told."""
        return self.call("PATCH", path, _written(dry), body, APPLY)

    def delete(self, path: str, **options: t.Any) -> None:
        """Delete an object; not being there is no error."""
        with contextlib.suppress(NotFoundError):
            body = {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
            self.call("DELETE", path, {}, body)

    def text(self, path: str, **query: t.Any) -> str:
        """What is no object: a log."""
        status, body = self._ask("GET", path, query, None, JSON, DEADLINE, LOG_LIMIT)
        if status >= 400:
            raise self._refused("GET", path, status, body)
        return body.decode("utf-8", "replace")

    def call(
        self,
        verb: str,
        path: str,
        query: Query | None = None,
        body: t.Mapping[str, t.Any] | None = None,
        kind: str = JSON,
        deadline: float = DEADLINE,
    ) -> dict[str, t.Any]:
        """One call and its answer. What a server that is busy or comes up refuses is asked again until the deadline. Raises ApiError."""
        end, pause = time.monotonic() + deadline, _PAUSE[0]
        while True:
            left = end - time.monotonic()
            try:
                status, answer = self._ask(verb, path, query or {}, body, kind, max(1.0, left), LIMIT)
            except ApiError as exc:
                # Who was cut off does not know whether it was done: only what may be done twice is asked again.
                if verb == "POST" or exc.status or left < pause:
                    raise
            else:
                if status < 400:
                    return self._object(verb, path, status, answer)
                if status not in _AGAIN or left < pause:
                    raise self._refused(verb, path, status, answer)
            time.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(_PAUSE[1], 2 * pause)

    # -- one of them ---------------------------------------------------------------------------------------------------------------

    def _ask(
        self, verb: str, path: str, query: Query, body: t.Any, kind: str, timeout: float, limit: int
    ) -> tuple[int, bytes]:
        client = self._client()
        headers = {"Accept": JSON, **({"Content-Type": kind} if body is not None else {})}
        # The library's own way to put this into a call has changed between its versions; what it is has not. A token that expires is
        # renewed where it is asked for.
        settings = client.configuration.auth_settings().values()
        headers.update({one["key"]: one["value"] for one in settings if one.get("in") == "header" and one.get("value")})
        text = urlencode({key: value for key, value in query.items() if value not in (None, "")})
        url = client.configuration.host.rstrip("/") + path + (f"?{text}" if text else "")
        doing = self._doing(verb, path)
        try:
            answer = client.rest_client.pool_manager.request(
                verb,
                url,
                headers=headers,
                body=json.dumps(body).encode() if body is not None else None,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
            try:
                read = answer.read(limit + 1)
            finally:
                answer.release_conn()
        except Exception as exc:  # the pool raises what TLS, sockets and HTTP raise
            raise _unreached(doing, client.configuration.host, exc) from exc
        if len(read) > limit:
            raise ApiError(doing, 0, f"it answered with more than {limit >> 20} MiB")
        return int(answer.status), read

    def _client(self) -> t.Any:
        with self._mutex:
            if self._made is None:
                self._made = _client_of(self.access)
            return self._made

    def _doing(self, verb: str, path: str) -> str:
        return f"{verb} {path.partition('?')[0]}"

    def _object(self, verb: str, path: str, status: int, body: bytes) -> dict[str, t.Any]:
        try:
            found = json_text.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ApiError(
                self._doing(verb, path), 0, f"it answered {status}, but not as the API of Kubernetes does", _NOT_API
            )
        return found

    def _refused(self, verb: str, path: str, status: int, body: bytes) -> ApiError:
        try:
            said = json_text.mapping(json_text.loads(body))
        except ValueError:
            said = {}
        word = json_text.text(said.get("reason"))
        why = printable(json_text.text(said.get("message")) or body[:300].decode("utf-8", "replace")).strip()
        kinds: dict[int, type[ApiError]] = {NOT_FOUND: NotFoundError, CONFLICT: ConflictError}
        made = kinds.get(status, ApiError)
        return made(self._doing(verb, path), status, why or f"it answered {status}", _HINTS.get(status, ""), word)


class NotFoundError(ApiError):
    """There is no such object."""


class ConflictError(ApiError):
    """The object is there already, or is another one than the one that was read."""


_NOT_API = "Is that the address of an API server, or of a proxy before it?"
_HINTS = {
    401: "The token or certificate is not, or no longer, the cluster's: renew the credential, then run again.",
    403: "inferops.pd.validate -e pd_show_rbac=true prints the Role that is needed.",
}


def path_of(kind: str, namespace: str | None = None, name: str | None = None, under: str = "") -> str:
    """The path of a kind of objects such as pods or apps/v1/deployments, or of one of them; `under` such as log."""
    group, _slash, plural = kind.rpartition("/")
    start = f"/apis/{group}" if group else "/api/v1"
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    one = f"/{quote(name, safe='')}" if name else ""
    return f"{start}{within}/{plural}{one}" + (f"/{under}" if under else "")


def _written(dry: bool) -> dict[str, str]:
    """What goes with each write: unknown fields are refused, where the server knows how (from 1.25 on; others ignore it)."""
    return {
        "fieldManager": FIELD_MANAGER,
        "fieldValidation": "Strict",
        **({"dryRun": "All"} if dry else {}),
    }


def _client_of(access: Access) -> t.Any:
    """The library's client. Raises HostError where there is no library, or it finds no cluster."""
    try:
        from kubernetes import client, config
    except ImportError as exc:
        raise HostError(
            "Asking a cluster",
            f"this Python has no library kubernetes ({exc})",
            "Install it for the Python that Ansible uses on the cluster's inventory host: pip install 'kubernetes>=28'.",
        ) from exc
    configuration = client.Configuration()
    host = access.host or os.environ.get("K8S_AUTH_HOST")
    try:
        if host:
            _by_token(configuration, access, host)
        elif access.kubeconfig or os.environ.get("KUBECONFIG") or os.path.exists(config.KUBE_CONFIG_DEFAULT_LOCATION):
            config.load_kube_config(
                config_file=access.kubeconfig, context=access.context, client_configuration=configuration
            )
        else:
            config.load_incluster_config(client_configuration=configuration)
    except Exception as exc:  # the library raises what its files make it raise
        raise HostError("Reading how the cluster is reached", printable(str(exc)), _NO_CLUSTER) from exc
    configuration.retries = False
    if not configuration.verify_ssl:
        # It was asked for. The library would say so at each call, where nobody reads it.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
    return client.ApiClient(configuration, pool_threads=1)


_NO_CLUSTER = "Write pd_cluster: {namespace: ..., kubeconfig: PATH, context: NAME}, or host and api_key."


def _by_token(configuration: t.Any, access: Access, host: str) -> None:
    configuration.host = host
    key = access.api_key or os.environ.get("K8S_AUTH_API_KEY")
    if key:
        configuration.api_key = {"authorization": key}
        configuration.api_key_prefix = {"authorization": "Bearer"}
    configuration.ssl_ca_cert = access.ca_cert or os.environ.get("K8S_AUTH_SSL_CA_CERT")
    said = os.environ.get("K8S_AUTH_VERIFY_SSL", "").strip().lower()
    configuration.verify_ssl = access.verify_ssl and said not in ("false", "no", "0")


def _unreached(doing: str, host: str, exc: Exception) -> ApiError:
    """Why no answer came, in a sentence."""
    text, kind = printable(str(exc)), type(exc).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "Give the cluster's own certificate authority: ca_cert in pd_cluster, or in the kubeconfig."
        return ApiError(doing, 0, f"the certificate of {host} is not one that is trusted here", hint)
    if "Timeout" in kind or "timed out" in text:
        return ApiError(
            doing, 0, f"{host} did not answer in time", "Is the API server overloaded, or behind a firewall?"
        )
    if "refused" in text:
        return ApiError(doing, 0, f"{host} refuses connections", "Is the API server up, and is that its port?")
    if "Name or service" in text or "NameResolution" in kind or "getaddrinfo" in text:
        return ApiError(doing, 0, f"the name of {host} is not known here", "")
    return ApiError(doing, 0, f"{host}: {text[:300]}", "")
