# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module of the stand-in; which one, and what it takes, is written in by `make`."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.awx.awx.plugins.module_utils.controller_api import AUTH, LISTED, NAMED, load, save

KIND = ""
SPEC = {}
ENDPOINTS = {"inventory": "inventories"}


def same(one, params):
    keys = ["name", "organization", "inventory"] if KIND == "inventory_source" else ["name"]
    return all(one.get(key) == params.get(key) for key in keys if params.get(key))


def nodes(wanted):
    """As AWX lists the nodes of a workflow."""
    numbers = {node["identifier"]: number for number, node in enumerate(wanted)}
    made = []
    for node in wanted:
        job = node["unified_job_template"]
        shown = {**job, "unified_job_type": "workflow_approval" if job["type"] == "workflow_approval" else "job"}
        after = {
            key: [numbers[one["identifier"]] for one in node.get("related", {}).get(key, ())]
            for key in ("success_nodes", "failure_nodes", "always_nodes")
        }
        rest = {"extra_data": node.get("extra_data") or {}, "summary_fields": {"unified_job_template": shown}}
        made.append({"id": numbers[node["identifier"]], "identifier": node["identifier"], **rest, **after})
    return made


def stands(store, params):
    """What of all that an object names is not there, as awx.awx says it."""
    for key, endpoint in [*NAMED.items(), *LISTED.items()]:
        given = params.get(key)
        for name in given if isinstance(given, list) else [given] if given else []:
            builtin = key == "credential_type" and name in store["builtin"]
            if not builtin and not any(name in (one["name"], str(one["id"])) for one in store.get(endpoint, [])):
                return f"The {endpoint} {name} was not found on the controller instance server"
    if KIND == "job_template":
        (project,) = (one for one in store["projects"] if one["name"] == params["project"])
        if params["playbook"] not in project["playbooks"]:
            return "Unable to create job_template: {'playbook': ['Playbook not found for project.']}"
    return None


def fields(store, params, there):
    """What is kept of the parameters of a module."""
    skipped = ("state", "wait", "update_project", "destroy_current_nodes", "update_secrets", "workflow_nodes")
    made = {key: value for key, value in params.items() if value is not None and key not in skipped}
    made = {
        key: value for key, value in made.items() if not key.startswith(("controller_", "validate_certs", "request_"))
    }
    if params.get("workflow_nodes"):
        made["nodes"] = nodes(params["workflow_nodes"])
    if KIND == "project" and (there is None or params.get("update_project")):
        made["playbooks"] = store["pushed"]
    if "galaxy_credentials" in made:
        by_number = {str(one["id"]): one["name"] for one in store["credentials"]}
        made["galaxy_credentials"] = [by_number.get(name, name) for name in made["galaxy_credentials"]]
    if KIND == "credential":
        secret = {key: value for key, value in made.get("inputs", {}).items() if key != "url"}
        kept = (there or {}).get("secrets", {})
        made["secrets"] = {
            key: kept.get(key) if value == "$encrypted$" else value for key, value in secret.items()
        } or kept
        made["inputs"] = {key: value for key, value in made.get("inputs", {}).items() if key == "url"}
    return made


def granted(params):
    """(who, may what, of what), each."""
    actors = [*(params["teams"] or ()), *(params["users"] or ())]
    things = [*(params["job_templates"] or ()), *(params["workflows"] or ())]
    return [(actor, params["role"], thing) for actor in actors for thing in things]


def main():
    module = AnsibleModule(argument_spec={**SPEC, **AUTH}, supports_check_mode=True)
    params, path = module.params, module.params["controller_host"]
    store = load(path)
    if KIND == "role":
        before = [tuple(one) for one in store["grants"]]
        meant = granted(params)
        after = [*before, *meant] if params["state"] == "present" else [one for one in before if one not in meant]
        store["grants"] = sorted(set(after))
        changed = store["grants"] != before
    else:
        listed = store.setdefault(ENDPOINTS.get(KIND, KIND + "s"), [])
        there = next((one for one in listed if same(one, params)), None)
        if params["state"] == "absent":
            changed = there is not None
            store[ENDPOINTS.get(KIND, KIND + "s")] = [one for one in listed if one is not there]
        else:
            wrong = stands(store, params)
            if wrong:
                module.fail_json(msg=wrong)
            store["last"] = store.get("last", 0) + 1
            made = {**(there or {"id": store["last"]}), **fields(store, params, there)}
            # Nobody can tell whether a secret is another one.
            changed = made != there or (KIND == "credential" and len(params.get("inputs") or {}) > len(made["inputs"]))
            store[ENDPOINTS.get(KIND, KIND + "s")] = [*(one for one in listed if one is not there), made]
    store["calls"] = [*store.get("calls", []), KIND]
    if changed and not module.check_mode:
        save(path, store)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
