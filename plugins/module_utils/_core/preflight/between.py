# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Between hosts of a preflight: do they reach each other, how fast, and are they alike."""

from __future__ import annotations

import typing as t

from ..base.finding import Findings
from ..cluster.places import asking
from ..model import kv_size, model_config
from ..model.kv_size import KvSize
from ..model.layers import Unknown
from ..spec.known import configs_of
from .hosts import Preflight, rate, size

PROMPT = 4096
# Below this share of the link something is wrong with the way; a few streams of TCP do not fill a link beyond the other.
SHARE, TCP_LIMIT = 0.5, 20_000
# A prompt that waits longer than this for its KV cache had better be computed where it is answered.
SLOW = 1.0
CLOCK = 1.0
MANAGER = "hybrid_kv_cache_manager"


def judge_between(flight: Preflight, findings: Findings) -> None:
    _reached(flight, findings)
    _mtu(flight, findings)
    _speed(flight, findings)
    _clocks(flight, findings)
    _alike(flight, findings)


# -- reaching ---------------------------------------------------------------------------------------------------------------------------


def _reached(flight: Preflight, findings: Findings) -> None:
    for name in flight.tour["hosts"]:
        peers = (flight.reaches.get(name) or {}).get("peers") or {}
        for peer, told in peers.items():
            failed = told["failed"]
            way = f"{name} to {peer}"
            if not failed:
                flight.row("reached", way, f"{told['tried']} of {told['tried']} ports")
                continue
            high = set(((flight.looks.get(peer) or {}).get("listening") or {}).get("random", {}).values())
            ports = sorted({f["port"] for f in failed} - high)
            missed = ", ".join(
                [*([_spans(ports)] if ports else []), *(["a high port"] if high & {f["port"] for f in failed} else [])]
            )
            why = "; ".join(dict.fromkeys(f"{f['address']}: {f['why']}" for f in failed))
            all_of = "none" if len(failed) == told["tried"] else f"{told['tried'] - len(failed)}"
            findings.error(
                "peer-unreachable",
                f"{name} reaches {all_of} of {told['tried']} ports of {peer}, expected are all ({why}; not reached: {missed}).",
                _opening(flight, name, peer),
                [],
                peer,
            )
            flight.row("reached", way, f"{told['tried'] - len(failed)} of {told['tried']} ports", "all", "error")
        silent = [
            p
            for p in flight.tour["hosts"][name]["peers"]
            if p not in peers and name in flight.looks and p in flight.looks
        ]
        for peer in silent if name not in flight.reaches else ():
            flight.row("reached", f"{name} to {peer}", "not tried", "all", "error")
        if name in flight.looks and name not in flight.reaches and flight.tour["hosts"][name]["peers"]:
            findings.error(
                "preflight-silent",
                f"{name} did not try its peers.",
                f"Make it answer: {asking(name)}",
                [],
                name,
            )


def _opening(flight: Preflight, name: str, peer: str) -> str:
    """The rules that let one host's members to another's, in the words of the firewall that is there."""
    host = flight.hosts[name]
    sources = [a for a in dict.fromkeys((host.kv_address, host.address)) if a]
    walls = (flight.looks.get(peer) or {}).get("firewall") or {"active": [], "seen": False}
    kind = next(iter(walls["active"]), "")
    lead = f"Let every TCP port of the members through on {peer} (connectors take random ones)"
    if not kind:
        unseen = "" if walls["seen"] else ", or none that this user may see"
        return (
            f"There is no firewall on {peer}{unseen}: see the one of {name}, a security group or a switch between"
            f" them, and the routes. {lead},"
            f" from {' and '.join(sources)}."
        )
    return f"{lead}: " + "; ".join(rule(kind, source) for source in sources)


def rule(kind: str, source: str) -> str:
    six = ":" in source
    if kind == "firewalld":
        return f"firewall-cmd --permanent --zone=trusted --add-source={source} && firewall-cmd --reload"
    if kind == "ufw":
        return f"ufw allow proto tcp from {source}"
    if kind == "nftables":
        return f"nft insert rule inet filter input {'ip6' if six else 'ip'} saddr {source} meta l4proto tcp accept"
    return f"{'ip6tables' if six else 'iptables'} -I INPUT -p tcp -s {source} -j ACCEPT"


def _spans(ports: t.Sequence[int]) -> str:
    """40000-40003, 40010"""
    spans: list[list[int]] = []
    for port in ports:
        if spans and port == spans[-1][1] + 1:
            spans[-1][1] = port
        else:
            spans.append([port, port])
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in spans[:8]) + (", ..." if len(spans) > 8 else "")


def _mtu(flight: Preflight, findings: Findings) -> None:
    sizes: dict[int, list[str]] = {}
    for name, part in flight.tour["hosts"].items():
        mtu = flight.hosts[name].kv.mtu
        if mtu and set(part["roles"]) & {"prefill", "decode"}:
            sizes.setdefault(mtu, []).append(name)
    if len(sizes) > 1:
        told = "; ".join(f"{mtu} on {', '.join(names)}" for mtu, names in sorted(sizes.items()))
        findings.warning(
            "mtu-differs",
            f"the KV interfaces' MTU is not the same on all hosts: {told}; expected is one.",
            "Set one MTU on all interfaces and switches of the KV network: RDMA takes the smaller one, TCP across"
            " a switch may stall.",
        )
        flight.row("MTU", "all", told, "one", "warning")
    for name, reach in flight.reaches.items():
        for path in reach.get("mtu") or ():
            if path["passed"] is None:
                continue
            way = f"{name} to {path['peer']}"
            if path["passed"]:
                flight.row("packets", way, f"{path['mtu']} bytes pass")
                continue
            findings.error(
                "mtu-path",
                f"{name}: packets of {path['mtu']} bytes do not get through to {path['peer']} ({path['address']}),"
                " though both interfaces have that MTU and"
                " small ones do"
                + (f"; the way takes {path['limit']}" if path.get("limit") else "")
                + ". Transfers would stall.",
                "Raise the MTU of the switches between them, or lower it on both interfaces.",
                [],
                name,
            )
            flight.row("packets", way, f"{path['mtu']} bytes do not pass", "pass", "error")


# -- speed ------------------------------------------------------------------------------------------------------------------------------


def _speed(flight: Preflight, findings: Findings) -> None:
    told_size = kv_size_of(flight)
    cache = told_size if isinstance(told_size, KvSize) else None
    if cache:
        told = f"{cache}; {_at_least(cache)}{size(cache.of(PROMPT))} for {PROMPT} tokens"
        flight.row("KV cache", flight.request.workload.name, told)
    elif isinstance(told_size, Unknown):
        flight.row("KV cache", flight.request.workload.name, f"not known: {told_size.why}", "", "unverified")
    for name, reach in flight.reaches.items():
        for told in reach.get("measured") or ():
            peer = told["peer"]
            way = f"{name} to {peer}"
            if not told.get("bytes"):
                if told.get("stalled"):
                    findings.error(
                        "mtu-path",
                        f"{name}: a transfer to {peer} ({told['address']}) stalls: {told['why']}.",
                        "Compare the MTU of both interfaces and of the switches between them.",
                        [],
                        name,
                    )
                flight.row(
                    "bandwidth",
                    way,
                    f"not measured: {told.get('why')}",
                    "",
                    "error" if told.get("stalled") else "unverified",
                )
                continue
            got = told["bytes"] * 8 / told["seconds"] / 1e6
            speeds = [flight.hosts[one].kv.speed for one in (name, peer)]
            link = min(speed for speed in speeds if speed) if all(speeds) else None
            verdict = _slow(flight, way, name, got, link, cache, findings)
            took = f", {PROMPT} tokens in {kv_size.seconds(cache.of(PROMPT), got):.2g} s" if cache else ""
            of_link = f" of {rate(link)}" if link else ""
            flight.row("bandwidth", way, f"{rate(got)}{of_link} by TCP{took}", "", verdict)
    if flight.tour["left_out"]:
        flight.row("bandwidth", flight.request.workload.name, f"{flight.tour['left_out']} more pairs were not measured")


def _slow(
    flight: Preflight, way: str, name: str, got: float, link: float | None, cache: KvSize | None, findings: Findings
) -> str:
    verdict = "ok"
    rdma = bool(flight.hosts[name].kv_devices)
    if link and got < SHARE * min(link, TCP_LIMIT):
        verdict = "warning"
        findings.warning(
            "kv-bandwidth",
            f"{way}: TCP moves {rate(got)} between the KV interfaces, whose link is {rate(link)}; expected are"
            f" {rate(SHARE * min(link, TCP_LIMIT))} at least" + (" (RDMA is not measured)." if rdma else "."),
            "Look for another user of the network, a wrong route (ip route get), errors on the link (ethtool -S), a small MTU.",
            [],
            name,
        )
    took = kv_size.seconds(cache.of(PROMPT), link if rdma and link else got) if cache else 0
    if cache and took > SLOW:
        verdict = "warning"
        findings.warning(
            "kv-transfer-slow",
            f"{way}: the KV cache of a prompt of {PROMPT} tokens is {_at_least(cache)}{size(cache.of(PROMPT))}"
            f" ({cache}) and takes {took:.2g} s at"
            f" {rate(link if rdma and link else got)}; expected is {SLOW:g} s at most: computing it where it is"
            " answered may be faster.",
            "Use a faster KV interface (pd_kv_interface), RDMA, an FP8 KV cache on both roles, or no"
            " disaggregation for this model.",
            [],
            name,
        )
    return verdict


def _at_least(cache: KvSize) -> str:
    return "at least " if cache.missing else ""


def kv_size_of(flight: Preflight) -> KvSize | Unknown | None:
    """By the config.json of the first host that has read it, and what decode's arguments make of it; None where nobody has one."""
    group, template = flight.request.workload, flight.request.template
    found = (config for host in flight.hosts.values() for config in configs_of(host, group))
    config = model_config.read(next(found, None))
    decode = template.roles["decode"]
    engine = template.engines.get("decode")
    if config is None or engine is None:
        return None
    argv = engine.arguments(decode.argv)
    dtype = argv.value(engine.names("kv_cache_dtype"))
    if dtype in (None, "auto") and not config.kv_cache_brought:
        dtype = argv.value(engine.names("dtype"))
    speculation = engine.speculation(argv)
    drafting = bool(speculation and not speculation.draftless)
    told = kv_size.of_model(config, dtype, decode.sizes.attention if decode.sizes else 1, drafting)
    on, off, _default = engine.toggles.get(MANAGER, ("", "", None))
    # Without it the engine keeps and sends every token of layers with a window.
    return told.unbounded() if isinstance(told, KvSize) and off and argv.toggle(on, off) is False else told


# -- alike ------------------------------------------------------------------------------------------------------------------------------


def _clocks(flight: Preflight, findings: Findings) -> None:
    """Between hosts by what they tell each other, to the controller as far as a call can tell."""
    for name, reach in flight.reaches.items():
        worst = max(
            (
                (abs(p["clock"]) - p["within"], peer, p["clock"])
                for peer, p in (reach.get("peers") or {}).items()
                if p.get("clock") is not None
            ),
            default=None,
        )
        if worst is None:
            continue
        far = worst[0] > CLOCK
        if far:
            findings.warning(
                "clock-offset",
                f"{name}: the clock of {worst[1]} is {worst[2]:+.1f} s off its own; expected is {CLOCK:g} s at most.",
                "Run a time service on all hosts (chrony, systemd-timesyncd): logs, metrics and certificates compare times.",
                [],
                name,
            )
        flight.row(
            "clock",
            name,
            f"{worst[2]:+.1f} s to {worst[1]}" if far else f"within {CLOCK:g} s of its peers",
            f"{CLOCK:g} s",
            "warning" if far else "ok",
        )
    for name, (before, after) in flight.clocks.items():
        now = (flight.looks.get(name) or {}).get("time")
        off = min(now - before, 0) or max(now - after, 0) if now else 0
        if abs(off) > CLOCK:
            findings.warning(
                "clock-offset",
                f"{name}: its clock is {off:+.1f} s off the controller's, at least; expected is {CLOCK:g} s at most.",
                "Run a time service on it and on the controller.",
                [],
                name,
            )
            flight.row("clock", name, f"{off:+.1f} s to the controller", f"{CLOCK:g} s", "warning")


def _alike(flight: Preflight, findings: Findings) -> None:
    engines = [n for n, part in flight.tour["hosts"].items() if set(part["roles"]) & {"prefill", "decode"}]
    drivers: dict[tuple[str, str], list[str]] = {}
    for name in engines:
        for vendor, version in ((flight.looks.get(name) or {}).get("drivers") or {}).items():
            drivers.setdefault((vendor, version), []).append(name)
    for vendor in sorted({v for v, _version in drivers}):
        versions = {version: names for (v, version), names in drivers.items() if v == vendor}
        told = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(versions.items()))
        if len(versions) > 1:
            findings.warning(
                "driver-differs",
                f"the {vendor} driver is not the same on all hosts: {told}; expected is one version.",
                "Install one version on all: what an engine chooses by it (kernels, graphs) would differ between"
                " prefill and decode.",
            )
            flight.row("driver", "all", told, "one version", "warning")
        else:
            flight.row("driver", ", ".join(next(iter(versions.values()))), f"{vendor} {next(iter(versions))}")
    _gid(flight, engines, findings)
    _digests(flight, engines, findings)


def _gid(flight: Preflight, engines: t.Sequence[str], findings: Findings) -> None:
    indexes: dict[str, list[str]] = {}
    for name in engines:
        host = flight.hosts[name]
        if any(port.roce for port in host.rdma_ports):
            indexes.setdefault(str(host.kv.gid_index), []).append(name)
    missing = indexes.get("None") or []
    if missing:
        findings.warning(
            "gid-index",
            f"{', '.join(missing)}: no single GID of RoCE v2 carries the KV interface's address; expected is one index.",
            "See show_gids, or /sys/class/infiniband/*/ports/*/gid_attrs/types: the interface needs an IPv4"
            " address, and its driver RoCE v2.",
            [],
            missing[0],
        )
        flight.row("GID index", ", ".join(missing), "none", "one of RoCE v2", "warning")
    if len(indexes) > 1 and not missing:
        told = "; ".join(f"{index} on {', '.join(names)}" for index, names in sorted(indexes.items()))
        findings.warning(
            "gid-index",
            f"the GID index of RoCE v2 is not the same on all hosts: {told}; expected is one.",
            "Where your env sets an index (UCX_IB_GID_INDEX, MC_GID_INDEX, NCCL_IB_GID_INDEX) it fits some hosts"
            " only: let the mode fill it in.",
        )
        flight.row("GID index", "all", told, "one", "warning")


def _digests(flight: Preflight, engines: t.Sequence[str], findings: Findings) -> None:
    if not flight.traits.images:
        return
    found: dict[str, dict[str, list[str]]] = {}
    for name in engines:
        for image, told in flight.hosts[name].images.items():
            digest = told.get("digest") or told.get("id")
            if digest and any(p.image == image for _m, p in flight.parts_on(name)):
                found.setdefault(image, {}).setdefault(str(digest), []).append(name)
    for image, digests in found.items():
        if len(digests) > 1:
            told_ = "; ".join(f"{digest[:19]} on {', '.join(names)}" for digest, names in sorted(digests.items()))
            findings.error(
                "image-differs",
                f"image {image} is not the same on all hosts: {told_}; expected is one digest.",
                "Write the image with its digest, and pull it on all hosts.",
            )
            flight.row("image", "all", told_, "one digest", "error")
