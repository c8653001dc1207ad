# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of the stand-in: reads the file as AWX's API shows objects. A test changes the file to be somebody in AWX."""

from __future__ import annotations

import json
import os

from ansible.module_utils.basic import env_fallback

NAMED = {
    "organization": "organizations",
    "project": "projects",
    "source_project": "projects",
    "inventory": "inventories",
    "execution_environment": "execution_environments",
    "default_environment": "execution_environments",
    "unified_job_template": "job_templates",
    "credential_type": "credential_types",
    "credential": "credentials",
}
LISTED = {"credentials": "credentials", "galaxy_credentials": "credentials"}


def load(path):
    with open(path, encoding="utf-8") as handle:
        return json.load(handle)


def save(path, store):
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump(store, handle, indent=1)
    os.replace(path + ".new", path)


def at(found, key):
    """What a query of AWX means by key: organization__name."""
    for word in key.split("__")[:-1]:
        found = next((one for one in STORE.get(NAMED[word], []) if one["name"] == found.get(word)), {})
    return found.get(key.split("__")[-1])


STORE = {}
AUTH = {
    "controller_host": {"fallback": (env_fallback, ["CONTROLLER_HOST"])},
    "controller_username": {},
    "controller_password": {"no_log": True},
    "controller_oauthtoken": {"no_log": True},
    "validate_certs": {"type": "bool"},
    "request_timeout": {"type": "float"},
    "controller_config_file": {"type": "path"},
}


class ControllerAPIModule:
    AUTH_ARGSPEC = AUTH

    def __init__(self, argument_spec, direct_params=None, error_callback=None, warn_callback=None):
        self.host = (direct_params or {}).get("controller_host")
        self.fail = error_callback

    def logout(self):
        pass

    def get_endpoint(self, endpoint, data=None, **_more):
        try:
            STORE.clear()
            STORE.update(load(self.host))
        except (OSError, TypeError) as exc:
            self.fail(msg=str(exc))
        kind, number, what = [*endpoint.strip("/").split("/"), "", ""][:3]
        one = next((each for each in STORE.get(kind, []) if str(each["id"]) == number), None)
        if what in ("survey_spec", "playbooks"):
            return {"status_code": 200, "json": one.get(what) or ({} if what == "survey_spec" else [])}
        if what == "workflow_nodes":
            return self._list(one.get("nodes") or [])
        if what == "galaxy_credentials":
            names = one.get("galaxy_credentials") or []
            return self._list([each for name in names for each in STORE["credentials"] if each["name"] == name])
        query = {key: value for key, value in (data or {}).items() if key != "page_size"}
        return self._list([e for e in STORE.get(kind, []) if all(at(e, k) == v for k, v in query.items())], kind)

    def _list(self, found, kind=""):
        return {"status_code": 200, "json": {"results": [self._shown(kind, one) for one in found], "next": None}}

    def _shown(self, kind, one):
        """Secrets as AWX shows them, names of others in the summary, and where the parts of an object are."""
        if not kind:
            return one
        shown = {key: value for key, value in one.items() if key not in ("survey_spec", "nodes", "galaxy_credentials")}
        summary = {key: {"name": shown[key]} for key in NAMED if shown.get(key)}
        summary |= {key: [{"name": name} for name in shown[key]] for key in LISTED if key in shown}
        if "secrets" in shown:
            hidden = dict.fromkeys(shown.pop("secrets"), "$encrypted$")
            shown["inputs"] = {**shown.get("inputs", {}), **hidden}
        parts = ("survey_spec", "playbooks", "workflow_nodes", "galaxy_credentials")
        related = {part: f"/{kind}/{one['id']}/{part}/" for part in parts}
        return {**shown, "summary_fields": summary, "related": related}
