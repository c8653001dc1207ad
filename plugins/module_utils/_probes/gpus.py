# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of this host: what its owner says, else what the vendors' own tools say."""

from __future__ import annotations

import re
import typing as t

from .._core.base import json_text
from .._core.base.printable import printable
from .._core.base.values import integer
from . import command

Gpu = dict[str, t.Any]


def find(given: t.Sequence[t.Any] | None = None) -> tuple[list[Gpu], list[str]]:
    """(GPUs, what went wrong in looking). A tool that is not there is no error: the host has no such GPUs."""
    if given is not None:
        return [_given(number, item) for number, item in enumerate(given)], []
    problems = []
    for argv, parse in _TOOLS:
        said = command.run(argv)
        if said is None:
            continue
        if said.error:
            problems.append(said.error)
            continue
        try:
            found = parse(said.out)
        except ValueError as exc:
            problems.append(f"{argv[0]}: its output could not be read ({exc})")
            continue
        if found:
            return [{**gpu, "model": gpu["model"] and printable(gpu["model"], 100)} for gpu in found], problems
    return [], problems


def tools() -> list[str]:
    """The drivers' tools that this host has."""
    return [argv[0] for argv, _parse in _TOOLS if command.find(argv[0])]


def names(
    devices: t.Sequence[t.Mapping[str, t.Any]], ask: t.Callable[[t.Sequence[str]], command.Said | None] = command.run
) -> dict[str, list[str]]:
    """The ids in `devices` of each GPU, by what the driver's tool calls it in its list of processes: NVIDIA's uuid, Ascend's NPU and chip.

    Where the owner says which GPUs there are (pd_gpus), an id is the tool's index or the uuid itself, and the tool is asked for both."""
    found: dict[str, list[str]] = {}
    for told in devices:
        for name in dict.fromkeys(str(one) for one in (told.get("uuid"), told.get("chip"), told["id"]) if one):
            found.setdefault(name, []).append(str(told["id"]))
    if not devices or any(told.get("uuid") or told.get("chip") for told in devices):
        return found
    for argv, parse, key in ((_NVIDIA, parse_nvidia, "uuid"), (_ASCEND, parse_ascend, "chip")):
        said = ask(argv)
        for gpu in parse(said.out) if said and not said.error else ():
            if gpu[key] not in found and gpu["id"] in found:
                found[gpu[key]] = found[gpu["id"]]
    return found


def _given(number: int, item: t.Any) -> Gpu:
    """One entry of pd_gpus: a dictionary, or just the id."""
    if not isinstance(item, dict):
        return {"id": str(item), "model": None, "vendor": None, "memory_mib": None}
    plain = {"model": None, "vendor": None, "memory_mib": None, **item, "id": str(item.get("id", number))}
    if plain["vendor"]:
        plain["vendor"] = str(plain["vendor"]).lower()
    return plain


def parse_nvidia(text: str) -> list[Gpu]:
    """nvidia-smi --query-gpu=index,uuid,name,memory.total --format=csv,noheader,nounits"""
    found = []
    for line in text.splitlines():
        fields = [f.strip() for f in line.split(",")]
        if len(fields) >= 4 and integer(fields[0]) is not None:
            memory = integer(fields[-1])
            found.append(
                {
                    "id": fields[0],
                    "uuid": fields[1],
                    "model": ", ".join(fields[2:-1]),
                    "vendor": "nvidia",
                    "memory_mib": memory,
                }
            )
    return found


def parse_amd(text: str) -> list[Gpu]:
    """rocm-smi --showproductname --showmeminfo vram --json: an object by card; the names of its keys differ by version. Raises ValueError
    when it is no JSON."""
    found = []
    for card, facts in json_text.mapping(json_text.loads(text[text.index("{") :] if "{" in text else "{}")).items():
        number = re.fullmatch(r"card([0-9]{1,4})", card)
        if not number:
            continue
        values = {k.lower(): v for k, v in json_text.mapping(facts).items()}
        called = (json_text.text(values.get(k)) for k in ("card series", "card model", "device name"))
        model = next((name for name in called if name not in ("", "N/A")), None)
        memory = integer(values.get("vram total memory (b)"))
        found.append(
            {
                "id": number[1],
                "model": model,
                "vendor": "amd",
                "memory_mib": None if memory is None else memory // 2**20,
            }
        )
    return sorted(found, key=lambda g: int(g["id"]))


def parse_ascend(text: str) -> list[Gpu]:
    """npu-smi info: a table with two rows a chip; the first has NPU and name, the second chip, bus and memory. Devices are numbered in
    its order, which is what ASCEND_RT_VISIBLE_DEVICES counts."""
    found: list[Gpu] = []
    name = npu = None
    for line in text.splitlines():
        if "Process id" in line:
            break
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        first = re.fullmatch(r"(\d+)\s+(\S.*)", cells[0])
        if first and len(cells) > 1 and cells[1] in ("OK", "Warning", "Alarm", "Critical", "UNKNOWN"):
            npu, name = first[1], first[2].strip()
        elif name and len(cells) > 2 and re.match(r"[0-9A-Fa-f]{4}:", cells[1]):
            memory = re.findall(r"\b\d{1,9}\s*/\s*(\d{1,9})\b", cells[2])
            found.append(
                {
                    "id": str(len(found)),
                    # How the tool's list of processes names it: "NPU.CHIP".
                    "chip": f"{npu}.{cells[0].split()[0]}" if cells[0] else None,
                    "model": f"Ascend {name}",
                    "vendor": "ascend",
                    "memory_mib": int(memory[-1]) if memory else None,
                }
            )
    return found


_NVIDIA = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits"]
_ASCEND = ["npu-smi", "info"]
_TOOLS: t.Sequence[tuple[list[str], t.Callable[[str], list[Gpu]]]] = (
    (_NVIDIA, parse_nvidia),
    (["rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"], parse_amd),
    (_ASCEND, parse_ascend),
)
