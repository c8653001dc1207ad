# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How AWX is asked: by the client of awx.awx, with the settings that its modules take, and each failure is a sentence."""

from __future__ import annotations

import sys
import types
import typing as t

import pytest
from ansible.module_utils.basic import env_fallback

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.plugin_utils import _awx

PAGES = {
    "teams": {"results": [{"id": 1}], "next": "/teams/?page=2"},
    "/teams/?page=2": {"results": [{"id": 2}], "next": None},
}


class Client:
    """What the client of awx.awx has; what it was given is kept for the test."""

    AUTH_ARGSPEC: t.ClassVar[dict[str, t.Any]] = {
        "controller_host": {"fallback": (env_fallback, ["CONTROLLER_HOST", "TOWER_HOST"])},
        "controller_password": {"no_log": True, "fallback": (env_fallback, ["CONTROLLER_PASSWORD"])},
        "validate_certs": {"type": "bool", "fallback": (env_fallback, ["CONTROLLER_VERIFY_SSL"])},
    }
    made: t.ClassVar[list[Client]] = []

    def __init__(
        self, argument_spec: dict, direct_params: dict, error_callback: t.Callable, warn_callback: t.Callable
    ) -> None:
        self.params, self.fail, self.asked, self.closed = direct_params, error_callback, [], False
        self.host = direct_params.get("controller_host")
        Client.made.append(self)

    def get_endpoint(self, endpoint: str, data: t.Any = None) -> dict[str, t.Any]:
        self.asked.append((endpoint, data))
        if endpoint == "broken":
            self.fail(msg="Connection refused")
        if endpoint not in PAGES:
            return {"status_code": 403, "json": {"detail": "You do not have permission"}}
        return {"status_code": 200, "json": PAGES[endpoint]}

    def logout(self) -> None:
        self.closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    module = types.ModuleType(_awx._CLIENT)
    module.ControllerAPIModule = Client  # type: ignore[attr-defined]
    monkeypatch.setattr(
        _awx.importlib, "import_module", lambda name: module if name == _awx._CLIENT else sys.modules[name]
    )
    for name in ("CONTROLLER_HOST", "TOWER_HOST", "CONTROLLER_PASSWORD", "CONTROLLER_VERIFY_SSL"):
        monkeypatch.delenv(name, raising=False)
    return Client


def test_the_environment_counts_as_for_its_modules(client: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWER_HOST", "https://awx.example.com")
    monkeypatch.setenv("CONTROLLER_VERIFY_SSL", "no")
    _awx.Awx({"controller_password": "s3cr3t"})
    given = client.made[-1].params
    assert (given["controller_host"], given["controller_password"]) == ("https://awx.example.com", "s3cr3t")
    assert given["validate_certs"] is False
    _awx.Awx({"controller_host": "https://other"})
    assert client.made[-1].params["controller_host"] == "https://other"


def test_a_list_is_read_to_its_end(client: type[Client]) -> None:
    awx = _awx.Awx({})
    assert [one["id"] for one in awx.every("teams", {"name": "x"})] == [1, 2]
    assert client.made[-1].asked[0] == ("teams", {"page_size": "200", "name": "x"})
    awx.close()
    assert client.made[-1].closed


@pytest.mark.parametrize(
    ("endpoint", "says"), [("broken", "AWX could not be asked: Connection refused"), ("users", "answers 403 to users")]
)
def test_what_goes_wrong_says_where_awx_is_looked_for(client: type[Client], endpoint: str, says: str) -> None:
    with pytest.raises(PdError) as told:
        _awx.Awx({"controller_host": "https://x"}).get(endpoint)
    assert says in str(told.value)
    assert "CONTROLLER_HOST" in str(told.value)


def test_a_setting_that_there_is_not_is_told(client: type[Client]) -> None:
    with pytest.raises(PdError, match=r"awx_controller: .*controller_hosts"):
        _awx.Awx({"controller_hosts": "https://x"})


def test_without_the_collection_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> t.NoReturn:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(_awx.importlib, "import_module", missing)
    with pytest.raises(PdError, match="ansible-galaxy collection install awx"):
        _awx.Awx({})
