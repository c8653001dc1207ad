# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared cache services: the entries of `pd_caches`.

A service is deployed by the collection (`hosts`) or run by somebody else (`address`)."""

from __future__ import annotations

import difflib
import ipaddress
import typing as t

from ..base.address import bracketed, join, split
from ..base.finding import Findings
from ..base.reader import NAME, Reader
from ..base.sizes import UNITS, parse_size
from ..base.values import READERS
from ..recipes.cache_recipe import BINDS, CacheRecipe, Option
from ..runtimes import table
from . import row
from .fields import CacheService

# A service's entry is taken from here with the functions that read it.
__all__ = (
    "ANY",
    "ROLE",
    "CacheService",
    "client_values",
    "parse",
    "services_named",
    "users_by_service",
    "users_of",
)

ROLE = "cache"
KEYS = row.keys(CacheService, "cache")
ANY = ("0.0.0.0", "::")


# -- reading ---------------------------------------------------------------------------------------------------------------------------


def parse(
    raw: t.Mapping[str, t.Any],
    recipes: t.Mapping[str, CacheRecipe],
    findings: Findings,
    groups: t.Collection[str] = (),
) -> dict[str, CacheService]:
    """All of the merged pd_caches. What is wrong goes to `findings`; an entry that leaves nothing to go on with is left out. `groups` are
    the names of pd_groups, which no service may have: both are kept by their names on the hosts."""
    services = {}
    for name, entry in raw.items():
        service = _parse_one(str(name), entry, recipes, findings, groups)
        if service is not None:
            services[service.name] = service
    return services


def _parse_one(
    name: str,
    entry: t.Any,
    recipes: t.Mapping[str, CacheRecipe],
    findings: Findings,
    groups: t.Collection[str],
) -> CacheService | None:
    where = f"pd_caches.{name}"
    if not NAME.fullmatch(name):
        findings.error(
            "bad-cache-name",
            f"{where}: {name!r} is no name for a service.",
            "Use 1 to 48 lower-case letters, digits, dots and hyphens; it becomes part of unit, container and file names.",
        )
    elif name in groups:
        findings.error(
            "bad-cache-name",
            f"{where}: a group of pd_groups has this name too.",
            "Give one of them another name: on the hosts both are kept by their names.",
        )
    if not isinstance(entry, dict):
        findings.error("bad-value", f"{where}: a service is a dictionary.", "See docs/cache-services.md.")
        return None
    reader = Reader(findings)
    reader.whole(where, entry)
    provider = reader.text(where, entry, "provider", required="which kind of service it is") or ""
    recipe = recipes.get(provider)
    if recipe is None:
        if provider:
            near = difflib.get_close_matches(provider, recipes, 1, 0.5)
            findings.error(
                "unknown-cache-provider",
                f"{where}.provider: there is no kind of cache service {provider!r}.",
                f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(sorted(recipes))}.",
            )
        return None
    given, pattern = reader.text(where, entry, "address"), reader.pattern(where, entry, "hosts", "")
    if bool(given) == bool(pattern):
        findings.error(
            "cache-place",
            f"{where}: " + ("it has both hosts and address." if given else "it has neither hosts nor address."),
            "Write hosts: PATTERN to have it deployed, or address: HOST:PORT when somebody else runs it.",
        )
        return None
    beside = "it does not go beside address: the service is run by somebody else, and not deployed."
    known = row.keys(CacheService, "cache elsewhere" if given else "cache")
    reader.keys(where, entry, known, misplaced=dict.fromkeys(KEYS, beside) if given else {})
    options = _options(where, entry, recipe, reader, bool(given))
    if given:
        return _given(where, name, given, recipe, options, reader, entry)
    return _deployed(where, name, pattern, recipe, options, reader, entry)


def _given(
    where: str,
    name: str,
    address: str,
    recipe: CacheRecipe,
    options: dict[str, t.Any],
    reader: Reader,
    entry: dict[str, t.Any],
) -> CacheService | None:
    found = split(address)
    if found is None or found[0] in ANY:
        reader.bad(f"{where}.address", address, "HOST:PORT, an address that its clients can reach")
        return None
    return CacheService(
        name=name,
        provider=recipe.name,
        address=address,
        scope=recipe.scope,
        clients=recipe.clients,
        options=options,
        version=reader.text(where, entry, "version"),
        labels=row.labels(row.At(reader, where, entry, "labels")),
        given_host=found[0],
        given_port=found[1],
    )


def _deployed(
    where: str,
    name: str,
    pattern: str,
    recipe: CacheRecipe,
    options: dict[str, t.Any],
    reader: Reader,
    entry: dict[str, t.Any],
) -> CacheService:
    values = row.read(CacheService, "cache", reader, where, entry)
    runtime, image, env = values["runtime"], values["image"], values["env"]
    traits = table.traits_of(runtime)
    if entry.get("runtime") in (None, runtime) and traits.images and not image:
        reader.findings.error(
            "image-missing",
            f"{where}.image: runtime {runtime} needs an image that holds {recipe.executable or 'the service'}.",
            f"Name one, or choose runtime {' or '.join(table.without_images())}.",
        )
    bind = reader.text(where, entry, "bind") or recipe.bind
    _check_bind(f"{where}.bind", bind, reader)
    values |= {
        "hosts": pattern,
        "options": options,
        "image": image if traits.images else None,
        "executable": values["executable"] or recipe.executable,
        "bind": bind,
    }
    return CacheService(
        name=name,
        **values,
        scope=recipe.scope,
        clients=recipe.clients,
        environment={
            name: env.get(name, value) for name, value in recipe.environment.items() if name not in values["secrets"]
        },
    )


def _options(where: str, entry: dict[str, t.Any], recipe: CacheRecipe, reader: Reader, given: bool) -> dict[str, t.Any]:
    """Every option that has a value. Of a service that somebody else runs only those for its clients count."""
    known = {name: option for name, option in recipe.options.items() if option.clients or not given}
    written = reader.mapping(where, entry, "options")
    place = f"{where}.options"
    beside = "it does not go beside address: it is for the server, which somebody else runs."
    reader.keys(place, written, known, misplaced=dict.fromkeys(recipe.options, beside))
    values = {}
    for name, option in known.items():
        value = _option(place, option, written.get(name), reader)
        if value is not None:
            values[name] = value
        elif option.required and written.get(name) in (None, ""):
            reader.findings.error(
                "missing-value", f"{place}.{name}: missing: {option.summary}.", f"Write {name}: a {option.type}."
            )
    return values


def _option(place: str, option: Option, value: t.Any, reader: Reader) -> t.Any:
    if value is None:
        return option.default
    wanted, read = _WANTED[option.type]
    found = read(value)
    if found is None and option.type in ("integer", "number") and option.unit in UNITS:
        wanted, found = _amount(option, value, wanted)
    if found is not None and option.choices and found not in option.choices:
        wanted, found = f"one of {', '.join(option.choices)}", None
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        low, high = option.minimum, option.maximum
        if (low is not None and found < low) or (high is not None and found > high):
            wanted += f" from {low:g}" + (f" to {high:g}" if high is not None else " up")
            found = None
    if found is None:
        reader.bad(f"{place}.{option.name}", value, wanted + (f" ({option.unit})" if option.unit else ""))
        return option.default
    if option.type == "bind":
        _check_bind(f"{place}.{option.name}", found, reader)
    if option.opens and found:
        reader.findings.warning(
            "cache-open",
            f"{place}.{option.name}: with it the service listens on {option.opens}, whatever it is told.",
            "Leave it out, or keep others away from that port with a firewall.",
        )
    return found


def _amount(option: Option, value: t.Any, wanted: str) -> tuple[str, float | None]:
    """A size with its unit, as a number of the option's unit."""
    size = parse_size(value)
    number = size / UNITS[option.unit] if size is not None else None
    whole = number is not None and number == int(number)
    told = f"{wanted}, or a size with its unit such as 8GiB"
    return told, int(number) if whole and number is not None else number if option.type == "number" else None


def _words(value: t.Any) -> str | None:
    """Text that says something."""
    return READERS["text"](value) or None


def _size(value: t.Any) -> str | None:
    """As it is written: what a bare number would count is not said."""
    return str(value).strip() if READERS["size"](value) is not None else None


# What belongs there, and how it is read.
_WANTED: dict[str, tuple[str, t.Callable[[t.Any], t.Any]]] = {
    "integer": ("a whole number", READERS["integer"]),
    "number": ("a number", READERS["number"]),
    "boolean": ("true or false", READERS["boolean"]),
    "text": ("text", _words),
    "bind": ("text", _words),
    "size": ("a size with its unit, such as 4GiB", _size),
}


def _check_bind(place: str, bind: str, reader: Reader) -> None:
    if bind in BINDS:
        return
    try:
        address = ipaddress.ip_address(bind.strip("[]"))
    except ValueError:
        reader.bad(place, bind, f"one of {', '.join(BINDS)}, or an IP address")
        return
    if str(address) in ANY:
        reader.findings.warning(
            "cache-open",
            f"{place}: {bind} is every address of the host, and the service asks nobody for a key.",
            "Leave it out, or keep others away from its ports with a firewall.",
        )


def client_values(address: str, port: int) -> dict[str, t.Any]:
    """The placeholders of the service that a client uses."""
    return {
        "kv_cache.host": bracketed(address),
        "kv_cache.port": port,
        "kv_cache.address": join(address, port),
    }


# -- who uses it -----------------------------------------------------------------------------------------------------------------------


def services_named(spec: t.Any) -> list[str]:
    """The services that a group's spec names, in the group or in one of its roles; the spec may be of any shape."""
    if not isinstance(spec, t.Mapping):
        return []
    roles = spec.get("roles")
    parts = [spec, *(roles.values() if isinstance(roles, t.Mapping) else ())]
    caches = [part.get("kv_cache") for part in parts if isinstance(part, t.Mapping)]
    names = [cache.get("service") for cache in caches if isinstance(cache, t.Mapping)]
    return sorted({str(name) for name in names if name and not isinstance(name, (t.Mapping, list))})


def users_by_service(groups: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """The groups of pd_groups that name each service, by the name or HOST:PORT that they write."""
    found: dict[str, list[str]] = {}
    for group, spec in sorted(groups.items(), key=lambda item: str(item[0])):
        for name in services_named(spec):
            found.setdefault(name, []).append(str(group))
    return found


def users_of(name: str, groups: t.Mapping[str, t.Any]) -> list[str]:
    """The groups of pd_groups that name the service, in the group or in one of its roles."""
    return sorted(str(group) for group, spec in groups.items() if name in services_named(spec))
