# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading AWX, by the client that the modules of awx.awx have: the same settings count, from parameters, environment and files."""

from __future__ import annotations

import contextlib
import importlib
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._core.base.errors import PdError

_CLIENT = "ansible_collections.awx.awx.plugins.module_utils.controller_api"
_MOST = 200
MISSING = (
    "The collection awx.awx is not installed, and nothing can be made in AWX without it. Install it: ansible-galaxy collection install"
    " awx.awx, or `ansible-galaxy collection install -r collections/requirements.yml` in a copy of examples/awx."
)


class Awx:
    """One login. `controller` are the parameters by which the modules reach AWX: controller_host, controller_username and so on."""

    def __init__(self, controller: t.Mapping[str, t.Any]) -> None:
        try:
            module = importlib.import_module(_CLIENT)
        except ImportError as exc:
            raise PdError(MISSING) from exc
        self._warned: list[str] = []
        # What a module takes of its environment, its client does not: parameters that are given to it directly are all that it has.
        read = ArgumentSpecValidator(module.ControllerAPIModule.AUTH_ARGSPEC).validate(dict(controller))
        if read.error_messages:
            raise PdError(f"awx_controller: {'; '.join(read.error_messages)}. {_WAY_OUT}")
        self._client = module.ControllerAPIModule(
            argument_spec={},
            direct_params=read.validated_parameters,
            error_callback=_fail,
            warn_callback=self._warned.append,
        )

    def every(self, endpoint: str, query: t.Mapping[str, str] | None = None) -> list[dict[str, t.Any]]:
        """All objects of a list that a query finds."""
        found: list[dict[str, t.Any]] = []
        answer = self.get(endpoint, {"page_size": str(_MOST), **(query or {})})
        while True:
            found += answer.get("results") or []
            if not answer.get("next"):
                return found
            answer = self.get(answer["next"])

    def get(self, endpoint: str, query: t.Mapping[str, str] | None = None) -> t.Any:
        """What AWX answers to one request. Raises PdError where that is an error, or none."""
        asked = {"data": dict(query)} if query else {}
        answer = self._client.get_endpoint(endpoint, **asked)
        if answer.get("status_code") != 200:
            said = answer.get("json")
            raise PdError(
                f"AWX at {self._client.host} answers {answer.get('status_code')} to {endpoint}: {said}. {_WAY_OUT}"
            )
        return answer["json"]

    def close(self) -> None:
        """End the session: AWX keeps a token of each."""
        with contextlib.suppress(PdError):
            self._client.logout()


_WAY_OUT = (
    "awx_controller of role awx, or CONTROLLER_HOST, CONTROLLER_USERNAME and CONTROLLER_PASSWORD (or CONTROLLER_OAUTH_TOKEN) in the"
    " environment, say where AWX is and who asks."
)


def _fail(**said: t.Any) -> t.NoReturn:
    raise PdError(f"AWX could not be asked: {said.get('msg')}. {_WAY_OUT}")
