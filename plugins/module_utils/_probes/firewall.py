# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firewalls of this host that could keep others out, and by whose words each is changed; and proxies that stand between."""

from __future__ import annotations

import glob
import os
import re
import typing as t
import urllib.parse

from .._core.base import json_text
from . import command
from .links import text

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
# Of `nft -j`, what is read and what each is.
_CHAIN: json_text.Readers = dict.fromkeys(("family", "table", "name", "hook", "policy"), json_text.text)
_RULE: json_text.Readers = {**dict.fromkeys(("family", "table", "chain"), json_text.text), "expr": json_text.objects}


def firewall(etc: str = "/etc") -> dict[str, t.Any]:
    """{active, seen}: the managers that are at work, the one that a person edits first; `seen` is false where nobody but root may look."""
    active = []
    said = command.run(["firewall-cmd", "--state"])
    if said and said.out.strip() == "running":
        active.append("firewalld")
    if re.search(r"^ENABLED=yes", text(f"{etc}/ufw/ufw.conf"), re.M):
        active.append("ufw")
    seen = True
    for argv, kind, drops in (
        (["nft", "-j", "list", "ruleset"], "nftables", nft_drops),
        (["iptables", "-S", "INPUT"], "iptables", iptables_drops),
        (["ip6tables", "-S", "INPUT"], "iptables", iptables_drops),
    ):
        said = command.run(argv)
        if said is None:
            continue
        if said.error:
            seen = seen and os.geteuid() == 0
        elif drops(said.out) and kind not in active:
            active.append(kind)
    return {"active": active, "seen": seen}


def iptables_drops(said: str) -> bool:
    """Whether `iptables -S INPUT` turns anything away."""
    return any(
        re.match(r"-P INPUT (DROP|REJECT)", line) or re.search(r"-j (DROP|REJECT)\b", line)
        for line in said.splitlines()
    )


def nft_drops(said: str) -> bool:
    """Whether `nft -j list ruleset` turns anything away on the way in."""
    try:
        ruleset = json_text.loads(said or "{}")
    except ValueError:
        return False
    items = json_text.objects(json_text.member(ruleset, "nftables"))
    chains = {
        (c["family"], c["table"], c["name"]): c["policy"]
        for c in (json_text.fields(item.get("chain"), _CHAIN) for item in items)
        if c["hook"] == "input"
    }
    rules = [json_text.fields(item["rule"], _RULE) for item in items if "rule" in item]
    inside = [r for r in rules if (r["family"], r["table"], r["chain"]) in chains]
    return "drop" in chains.values() or any(word in e for r in inside for e in r["expr"] for word in ("drop", "reject"))


def proxies(environment: t.Mapping[str, str] | None = None, etc: str = "/etc") -> dict[str, dict[str, str]]:
    """Proxies in the environment of programs started here, and in that of the container engine; without the passwords in them."""
    mine = {
        name.lower(): bare(value)
        for name, value in (os.environ if environment is None else environment).items()
        if name.lower() in PROXIES and value
    }
    daemon = {}
    for path in [*sorted(glob.glob(f"{etc}/systemd/system/docker.service.d/*.conf")), f"{etc}/default/docker"]:
        for name, value in re.findall(r"(?i)\b(https?_proxy|all_proxy)=[\"']?([^\s\"']+)", text(path)):
            daemon[name.lower()] = bare(value)
    return {"environment": mine, "daemon": daemon}


def bare(url: str) -> str:
    """A URL without user and password."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"//{url}")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if parts.scheme else host
