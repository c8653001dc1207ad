"""The documentation and the code say the same: every finding, every key, every placeholder."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from builders import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.base import placeholders
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes import mode
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import pairing, pairing_flags
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import fields, row
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes

DOCS = os.path.join(ROOT, "docs")
# Codes that are put together from parts: the expression in the code, and what comes of it.
COMPOSED = {
    "'pairing-' + factor.option.replace('_', '-')": [
        "pairing-" + factor.option.replace("_", "-") for factor in pairing.TEXT_FACTORS
    ],
    "f'pairing-engine-{what}'": ["pairing-engine-image", "pairing-engine-version"],
    "'pairing-' + name.replace('_', '-')": ["pairing-hybrid-kv-cache-manager"],
    # Given by the caller, as the first argument of `differ`; or a constant of the file, which such a call has, too.
    "code": [],
    "_CODE": [],
    "CONSEQUENCE[reason][0]": [code for code, _why in pairing_flags.CONSEQUENCE.values()],
}


def text(name: str) -> str:
    with open(os.path.join(DOCS, name), encoding="utf-8") as handle:
        return handle.read()


def sources():
    for root, _folders, files in os.walk(os.path.join(ROOT, "plugins")):
        for name in (f for f in files if f.endswith(".py")):
            with open(os.path.join(root, name), encoding="utf-8") as handle:
                yield ast.parse(handle.read())


def codes_in_code() -> set[str]:
    """The first argument of every findings.error(...), findings.warning(...), say(...) and differ(...); `unverified` has one code for all
    factors."""
    found: set[str] = set()
    for tree in sources():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) in ("say", "pair.differ") and isinstance(call.args[0], ast.Constant):
                found.add(call.args[0].value)
            if not isinstance(call.func, ast.Attribute) or not ast.unparse(call.func.value).endswith("findings"):
                continue
            if call.func.attr == "unverified":
                found.add("pairing-unverified")
            elif call.func.attr == "unread":
                found.add("identity-unverified")
            elif call.func.attr in ("error", "warning"):
                code = call.args[0]
                found.update([code.value] if isinstance(code, ast.Constant) else COMPOSED[ast.unparse(code)])
    return found


def test_every_code_of_a_finding_has_its_heading_and_every_heading_its_code():
    headings = re.findall(r"^## (.+)$", text("findings.md"), re.M)
    assert len(headings) == len(set(headings))
    assert set(headings) == codes_in_code()


def entries(name: str) -> set[str]:
    """What stands in code in the first column of a table."""
    cells = re.findall(r"^\| *(`[^|]*?) *\|", text(name), re.M)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


# Which page explains the keys of a place.
EXPLAINED = {
    **dict.fromkeys(("group", "engine", "prefill", "decode", "router"), ("spec.md", "")),
    "cache": ("cache-services.md", ""),
    "cache elsewhere": ("cache-services.md", ""),
    "kv_cache": ("caches.md", "kv_cache."),
}


@pytest.mark.parametrize("place", row.PLACES)
def test_every_key_of_a_spec_is_explained(place):
    page, prefix = EXPLAINED[place]
    told = {f"{prefix}{key}" for table in fields.TABLES.values() for key in row.keys(table, place)}
    assert told
    assert told <= entries(page)
    assert {f"limits.{key}" for key in fields.LIMITS} <= entries("spec.md")


def test_the_table_of_fields_is_the_codes():
    """docs/fields.md is written from the table: PD_GOLDEN=rewrite does it."""
    path = os.path.join(DOCS, "fields.md")
    if os.environ.get("PD_GOLDEN") == "rewrite":
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(fields_page())
    assert text("fields.md") == fields_page(), f"if the change is meant: PD_GOLDEN=rewrite pytest {__file__}"


FIELDS_HEAD = """# Every field of a spec

Written from the table of fields in the code (`_core/spec/fields.py`); what each means is in [spec.md](spec.md), [caches.md](caches.md) and
[cache-services.md](cache-services.md).

- **Where**: the places that take the key. `engine` is what roles inherit from; `cache` is a service of `pd_caches` that the collection
  deploys, `cache elsewhere` one that somebody else runs, by its `address`.
- **Inherited by**: the roles that take the engine's value where they write none. What a role writes replaces it whole; the key under
  **added by** adds to it instead.
- **In the revision**: whether a change makes a group [pending](spec.md#what-makes-a-group-pending): as it stands, through what is
  rendered of it (a command line, a variable, a file), or not at all.
"""
IN_REVISION = {"rendered": "through what is rendered", "always": "yes", "where set": "yes, where it is set", "no": "no"}


def fields_page() -> str:
    parts = [FIELDS_HEAD]
    for title, table in fields.TABLES.items():
        parts += [
            f"\n## {title[0].upper()}{title[1:]}\n",
            "| key | where | default | inherited by | added by | in the revision |",
            "|---|---|---|---|---|---|",
        ]
        inherited = {name for base in table.__bases__ if base is not object for name in row.rows(base)}
        parts += [field_line(one) for name, one in row.rows(table).items() if name not in inherited]
    return "\n".join(parts) + "\n"


def field_line(one: row.Row) -> str:
    default = one.told or (f"`{json.dumps(row.plain(one.default))}`" if one.default is not None else "none")
    inherited = "all roles" if set(one.inherited_by) == set(row.ROLES) else ", ".join(one.inherited_by)
    adds = f"`{one.adds}`" if one.adds else ""
    return f"| `{one.key}` | {', '.join(one.at)} | {default} | {inherited} | {adds} | {IN_REVISION[one.revision]} |"


def test_every_host_variable_is_explained():
    assert {"pd_address", "pd_kv_interface", "pd_port_range", "pd_gpus", "pd_state_dir", "pd_supervisord"} <= entries(
        "spec.md"
    )


def test_every_placeholder_is_explained_and_no_other():
    told = {word[2:-1] for name in ("spec.md", "modes.md") for word in entries(name) if word.startswith("${")}
    assert set(placeholders.OF_MEMBER) | set(placeholders.OF_ROLE) <= told
    bands = ["BAND"]
    of_peer = {name for name in told if name.startswith(("peer.", "kv_cache."))}
    assert set(placeholders.OF_CACHE) <= told
    unknown = {name for name in told - of_peer if not placeholders.known(name.replace("ROLE", "prefill"), bands)}
    assert unknown == set()


def keys_of(schema, prefix: str = "") -> set[str]:
    """Every key of a mode file, as a path; lists and free names are passed through."""
    found: set[str] = set()
    for key, inner in (schema.get("properties") or {}).items():
        found.add(f"{prefix}{key}")
        found |= keys_of(inner, f"{prefix}{key}.")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and "$ref" not in schema[key]:
            found |= keys_of(schema[key], prefix)
    return found


def test_every_key_of_a_mode_file_is_explained():
    with open(os.path.join(ROOT, "pd_modes", "schema.json"), encoding="utf-8") as handle:
        schema = json.load(handle)
    told = entries("modes.md")
    keys = keys_of(schema) | keys_of(schema["definitions"]["router"], "router.")
    missing = {key for key in keys if key not in told}
    assert missing == set()
    for name, place in {
        "membership": "router.membership.POLICY",
        "provider": "kv_cache_providers.NAME",
        "option": "kv_cache_providers.NAME.options.OPTION",
        "provider_role": "kv_cache_providers.NAME.ROLE",
    }.items():
        keys = {f"{place}.{key}" for key in schema["definitions"][name]["properties"]}
        assert {key for key in keys if key not in told} == set(), name


def test_every_key_of_a_cache_service_and_of_its_recipe_is_explained():
    told = entries("cache-services.md")
    with open(os.path.join(ROOT, "pd_modes", "caches", "schema.json"), encoding="utf-8") as handle:
        assert keys_of(json.load(handle)) <= told
    for recipe in load_recipes().values():
        plain = {name for name in recipe.placeholders() if not name.startswith(("ports.", "options."))}
        assert {f"${{{name}}}" for name in plain} <= told
        assert set(recipe.options) <= told, recipe.name


def test_every_size_that_a_band_may_be_as_wide_as_is_explained():
    assert all(f"`{width}`" in text("modes.md") for width in mode.WIDTHS)


@pytest.mark.parametrize("name", sorted(f for f in os.listdir(DOCS) if f.endswith(".md")))
def test_links_within_the_documentation_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", text(name)):
        if "://" in target:
            continue
        file, _hash, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(DOCS, file)) if file else os.path.join(DOCS, name)
        assert os.path.exists(path), target
        if anchor:
            with open(path, encoding="utf-8") as handle:
                headings = re.findall(r"^#+ (.+)$", handle.read(), re.M)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, target


@pytest.mark.parametrize("role", sorted(os.listdir(os.path.join(ROOT, "roles"))))
def test_a_roles_readme_has_its_entry_points_and_its_own_variables(role):
    folder = os.path.join(ROOT, "roles", role)
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as readme:
        told = set(re.findall(r"`([a-z_]+)(?:: [^`]*)?`", readme.read()))
    with open(os.path.join(folder, "meta", "argument_specs.yml"), encoding="utf-8") as specs:
        points = yaml.safe_load(specs)["argument_specs"]
    assert set(points) - told == set()
    assert {name for point in points.values() for name in point["options"]} - told == set()


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_the_commands_of_the_first_pages_exist(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as handle:
        told = handle.read()
    called = set(re.findall(r"ansible-playbook (?:-i \S+ )?inferops\.pd\.(\w+)", told))
    there = {name[: -len(".yml")] for name in os.listdir(os.path.join(ROOT, "playbooks")) if name.endswith(".yml")}
    assert called
    assert called <= there
    assert set(re.findall(r"-e (pd_\w+)=", told)) <= set(re.findall(r"`(pd_\w+)`", text("playbooks.md")))


def documented(name: str) -> dict[str, dict]:
    """The options of a module, with those of its fragments. What is read first is what a module has itself."""
    tree = ast.parse((Path(ROOT) / "plugins/modules" / f"{name}.py").read_text(encoding="utf-8"))
    (doc,) = (n.value.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "DOCUMENTATION")
    doc = yaml.safe_load(doc)
    options: dict[str, dict] = {}
    for fragment in doc.get("extends_documentation_fragment", []):
        _namespace, _collection, file, *attribute = fragment.split(".")
        made = importlib.import_module(
            f"ansible_collections.inferops.pd.plugins.doc_fragments.{file}"
        ).ModuleDocFragment
        options |= yaml.safe_load(getattr(made, attribute[0].upper() if attribute else "DOCUMENTATION"))["options"]
    return options | (doc.get("options") or {})


@pytest.mark.parametrize("name", sorted(f.stem for f in (Path(ROOT) / "plugins/action").glob("[a-z]*.py")))
def test_what_an_action_takes_is_what_its_module_documents(name):
    """Of a module that runs on hosts, some options are filled in by its action: these are only the module's. An action without arguments
    of its own hands them on as they are."""
    path = f"ansible_collections.inferops.pd.plugins.action.{name}"
    taken = getattr(importlib.import_module(path).ActionModule, "ARGUMENTS", None)
    if not taken:
        return
    told = documented(name)
    own = {option for option, one in told.items() if "Filled in by the action plugin" not in str(one["description"])}
    assert own - set(taken) == set(), "documented, and refused"
    assert set(taken) - set(told) == set(), "taken, and not documented"
    for option, one in taken.items():
        for key in ("type", "elements", "default"):
            assert (option, key, told[option].get(key)) == (option, key, one.get(key))
        assert (option, sorted(told[option].get("choices", []))) == (option, sorted(one.get("choices", [])))
