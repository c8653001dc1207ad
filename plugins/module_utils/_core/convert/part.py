# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine's command line and environment, flag by flag and variable by variable: what goes into the spec, what the recipe does
already, what is left out, and why."""

from __future__ import annotations

import json
import re
import shlex
import typing as t
from dataclasses import dataclass, field

from ..base.arguments import Arguments, Option, is_flag, normal
from ..base.shell import instead, is_secret
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from .container import gpu_count
from .found import VLLM
from .launch import Launch, Note, Outcome, secret_name, secret_value, unknown
from .roles import connector_of

# Secrets that are flags, beside the engine's key, and the variable that a library reads in their place.
_SECRET_FLAGS = {"hf-token": "HF_TOKEN"}
# A member whose parts are on several hosts.
_SEVERAL_HOSTS = re.compile(
    r"nnodes|node-rank|dist-init-addr|headless|master-(addr|port)"
    r"|data-parallel-(address|rank|start-rank|rpc-port|size-local|external-lb|hybrid-lb)|dp[alrs]|dpn|dist-timeout"
)
_GPU_FLAGS = ("base-gpu-id", "gpu-id-step", "device-ids")
_GPU_MASKS = re.compile(r"(CUDA|HIP|NVIDIA|ROCR|ASCEND_RT|ASCEND)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|CUDA_DEVICE_ORDER")
# What processes of one member, or of a group of hosts, find each other by.
_RENDEZVOUS = re.compile(
    r"MASTER_(ADDR|PORT)|VLLM_PORT|RANK|LOCAL_RANK|WORLD_SIZE|VLLM_DP_\w+|SERVER_PORT|DYN_\w+|(ETCD|NATS)_\w+"
)
_INTERFACES = re.compile(r"(GLOO|NCCL|TP|HCCL|RCCL|UCCL|SGLANG_LOCAL_IP)_(SOCKET_IFNAME|NIC)")
_ADDRESSES = re.compile(r"\w*(HOST_IP|_IF_IP|LOCAL_IP|SIDE_CHANNEL_HOST)")
_ADAPTERS = "the router cannot address LoRA adapters"
# Of a connector: what is the engine's own matter, or the plan's.
_OF_PLAN = {
    **dict.fromkeys(
        ("kv_port", "kv_ip", "proxy_ip", "proxy_port", "http_ip", "http_port", "bootstrap_port"),
        "ports and addresses are the plan's",
    ),
    **dict.fromkeys(("kv_rank", "kv_parallel_size", "kv_buffer_size", "kv_producers_size"), "the recipe's connector does not use it"),
    "engine_id": "every process makes its own",
    "kv_connector_module_path": "the recipe names its connector, which its engine has",
}  # fmt: skip
_SIZES = ("prefill", "decode")


@dataclass
class Part:
    """What one role's launch comes to. `args` are (name, entry), `group` keys of the group that it says."""

    role: str
    launch: Launch
    args: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    # What it asks its clients for, to be compared with its peer's: it comes out in nothing. And where it stands.
    key: str | None = field(default=None, repr=False)
    key_flag: str = ""
    # How many cards a variable shows it.
    masked: int | None = None
    group: dict[str, t.Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def note(self, what: str, outcome: Outcome, why: str, line: int | None = None) -> None:
        self.notes.append(Note(self.role, self.launch.line_of(what) if line is None else line, what, outcome, why))


def read(role: str, launch: Launch, mode: Mode, modes: t.Iterable[Mode], engine: Engine) -> Part:
    """One engine's launch."""
    part = Part(role, launch)
    _read_words(part, mode, engine)
    _read_env(part, mode, modes, engine)
    sizes = engine.sizes(Arguments([word for _name, entry in part.args for word in shlex.split(entry)]), None)
    masked = part.masked if part.masked is not None else launch.gpus
    if masked and masked > 1 and not sizes.written:
        why = f"it is given {masked} and writes no parallel size: it uses one. Write gpus: {masked} at the role to use all"
        part.note("GPUs", "decide", why, launch.line)
    if launch.executable:
        part.note(launch.executable, "taken", f"executable: {launch.executable}")
    if launch.image:
        part.note("image", "taken", f"image: {launch.image}", launch.line_of(launch.image))
    return part


# -- the command line --------------------------------------------------------------------------------------------------------------------


def _read_words(part: Part, mode: Mode, engine: Engine) -> None:
    words = list(part.launch.words)
    models = {normal(name) for name in (*engine.names("model"), "model", "model-path")}
    at = _positional(words, models, engine) if part.launch.program == VLLM else None
    if at is not None:
        _read_model(part, "the model", words.pop(at))
    ours = {o.name for role in ("", "prefill", "decode") for o in engine.arguments(_arguments(mode, role)).options}
    served = {normal(name) for name in engine.names("served_model_name")}
    for option in engine.arguments(words).options:
        if option.name in models:
            _read_model(part, option.flag, option.value or "")
        elif option.name in served:
            _read_served(part, option)
        elif (
            mode.connector and option.name.partition(".")[0] == normal(mode.connector.flag)
        ) or option.name.startswith("kv-transfer-config"):
            continue
        elif option.name in ours or option.name in ("host", "port") or option.name.startswith("disaggregation-"):
            _read_owned(part, option, ours)
        else:
            _read_option(part, option, engine)
    if part.launch.program == VLLM:
        _read_connector(part, mode)


def _positional(words: t.Sequence[str], models: t.Collection[str], engine: Engine) -> int | None:
    """Where the model stands that no flag names: in front of all flags, or behind one that takes no value, or has its own."""
    if words and not is_flag(words[0]):
        return 0
    found = engine.arguments(words).options
    if any(option.name in models for option in found):
        return None
    for option in found:
        flag = engine.flags.flag(option.flag) if engine.flags else None
        takes = flag.takes if flag else "none" if engine.takes_none(option.flag) else "many"
        # The words behind the flag, the value after an equals sign not among them.
        behind = option.stop - option.start - 1
        own = 0 if "=" in words[option.start] or takes == "none" else 1
        if behind > own and (own == 0 or takes != "many"):
            return option.stop - 1
    return None


def _read_model(part: Part, what: str, value: str) -> None:
    part.group["model"] = value
    line = part.launch.line_of(value if what == "the model" else what)
    shell = unknown(value)
    told = f"{_shown(shell)} is only known where the text is run" if shell else f"model: {value}"
    part.note(what, "decide" if shell else "taken", told, line)


def _arguments(mode: Mode, role: str) -> tuple[str, ...]:
    return mode.role_arguments.get(role, ()) if role else mode.arguments


def _read_served(part: Part, option: Option) -> None:
    names = (option.value or "").split()
    part.group["served_model_name"] = names[0] if names else ""
    more = f"; a group has one name: {', '.join(names[1:])} is left out" if len(names) > 1 else ""
    part.note(option.flag, "decide" if more else "taken", f"served_model_name: {part.group['served_model_name']}{more}")


def _read_owned(part: Part, option: Option, ours: t.Collection[str]) -> None:
    if option.name in ("disaggregation-ib-device",):
        part.note(
            option.flag, "decide", "pd_kv_interface names the interface of each host; its RDMA devices follow from it"
        )
    elif option.name in ours or option.name in ("host", "port"):
        plan = option.name in ("host", "port") or option.name.endswith("-port")
        part.note(
            option.flag, "recipe", "the plan gives it to each member" if plan else "the recipe writes it for each role"
        )
    elif option.name in ("disaggregation-bootstrap-port",):
        part.note(option.flag, "recipe", "ports are the plan's")
    elif part.launch.program == VLLM:
        part.note(option.flag, "recipe", "the recipe says which role it is")
    else:
        _keep(part, option)


def _read_option(part: Part, option: Option, engine: Engine) -> None:
    value = option.value or ""
    # The text says no version that could be trusted: it is judged as the spec will be.
    lack = engine.lack(option.flag, None)
    if option.name in engine.key_flags:
        _read_key(part, option, engine)
    elif option.name in _SECRET_FLAGS:
        _secret(part, _SECRET_FLAGS[option.name], option.flag, part.launch.line_of(option.flag))
    elif is_secret(option.name):
        why = "a secret on a command line is seen by everybody, and the engine reads no variable in its place"
        part.note(option.flag, "decide", why)
    elif option.name in _GPU_FLAGS:
        part.note(option.flag, "recipe", "which GPUs a member has is the plan's")
    elif _SEVERAL_HOSTS.fullmatch(option.name):
        alone = option.name in ("nnodes", "node-rank", "data-parallel-rank", "data-parallel-size-local") and value in (
            "0",
            "1",
        )
        why = (
            "a member runs on one host"
            if alone
            else "a member that spans several hosts is not carried out: choose sizes that fit one"
        )
        part.note(option.flag, "recipe" if alone else "decide", why)
    elif option.name in {normal(flag) for flag in engine.adapter_flags}:
        part.note(option.flag, "decide", _ADAPTERS)
    elif lack and lack.begun:
        part.note(option.flag, "decide", f"it {lack.why}: write the one that you mean in full")
    elif lack:
        nearest = f"; {lack.instead} is nearest" if lack.instead else ""
        part.note(option.flag, "dropped", f"it {lack.why}{nearest}")
    elif secret_value(value):
        part.note(option.flag, "decide", "its value looks like a secret, and is left out")
    else:
        _read_value(part, option, engine)


def _read_value(part: Part, option: Option, engine: Engine) -> None:
    """A flag of the engine's that is the user's, by what is known of its value."""
    shell = unknown(option.value or "")
    if option.value and engine.takes_none(option.flag):
        _keep(part, Option(option.flag, None, option.start, option.start + 1))
        why = (
            f"{_shown(shell)} behind it is only known where the text is run: write what it adds under args"
            if shell
            else "it takes no value: what stands behind it is left out"
        )
        part.note(option.flag, "decide", why)
    elif shell:
        part.note(option.flag, "decide", f"{_shown(shell)} is only known where the text is run. {instead(shell[0])}")
    else:
        _keep(part, option)


def _read_key(part: Part, option: Option, engine: Engine) -> None:
    """The engine's key: a variable of its own in its place; or the file of --config, where it reads none."""
    part.key, part.key_flag = option.value or "", option.flag
    if engine.key_env:
        _secret(part, engine.key_env[0], option.flag, part.launch.line_of(option.flag))


def _keep(part: Part, option: Option) -> None:
    entry = entry_of(option, part.launch.words)
    part.args.append((option.name, entry))
    part.note(option.flag, "taken", f"args: {entry if len(entry) <= 100 else entry[:97] + '...'}")


def entry_of(option: Option, words: t.Sequence[str]) -> str:
    """An option as one entry of `args`, which is read back as the same words."""
    if option.value is None:
        return option.flag
    if _json(option.value) or " " not in option.value:
        value = option.value if _json(option.value) or _plain(option.value) else shlex.quote(option.value)
        return f"{option.flag}={value}" if option.flag.startswith("--") else f"{option.flag} {value}"
    # One value with spaces, or several values.
    if option.value in words or any(word.endswith(f"={option.value}") for word in words):
        return f"{option.flag}={shlex.quote(option.value)}"
    return f"{option.flag} {option.value}"


def _plain(value: str) -> bool:
    return re.fullmatch(r"[\w@%+=:,./~-]+", value) is not None


def _json(value: str) -> bool:
    try:
        return isinstance(json.loads(value), (dict, list))
    except ValueError:
        return False


def _shown(found: t.Sequence[str]) -> str:
    return ", ".join(f"${one}" if re.fullmatch(r"\w+", one) else f"$({one})" for one in found)


# -- the connector -----------------------------------------------------------------------------------------------------------------------


def _read_connector(part: Part, mode: Mode) -> None:
    connector = connector_of(part.launch)
    flag, line = "--kv-transfer-config", part.launch.line_of("kv-transfer-config")
    if connector is None:
        written = any("kv-transfer-config" in word.replace("_", "-") for word in part.launch.words)
        why = (
            f"it cannot be read here: mode {mode.name} writes its own"
            if written
            else f"it is not written: mode {mode.name} writes it"
        )
        part.note(flag, "decide" if written else "recipe", why, line if written else part.launch.line)
        return
    name = str(connector.get("kv_connector") or "none")
    known = mode.connector.names if mode.connector else ()
    extra = connector.get("kv_connector_extra_config")
    children = (
        [c for c in (extra or {}).get("connectors") or () if isinstance(c, dict)] if isinstance(extra, dict) else []
    )
    if name in known or children or "vllm_ascend" in str(connector.get("kv_connector_module_path")):
        part.note(flag, "recipe", f"mode {mode.name} writes it for each role", line)
    else:
        part.note(
            flag,
            "decide",
            f"{name} is not what mode {mode.name} moves the KV cache with: its own connector takes its place",
            line,
        )
    for child in children:
        _read_child(part, child, mode, line)
    own = {**connector, **(extra if isinstance(extra, dict) and not children else {})}
    for key, value in own.items():
        if key not in ("kv_connector", "kv_role", "kv_connector_extra_config", "connectors"):
            _read_connector_key(part, key, value, mode, line)


def _read_child(part: Part, child: t.Mapping[str, t.Any], mode: Mode, line: int) -> None:
    name = str(child.get("kv_connector"))
    if mode.connector and name in mode.connector.names:
        return
    providers = [
        p.name
        for p in mode.kv_cache_providers.values()
        if any((recipe.connector or {}).get("kv_connector") == name for recipe in p.roles.values())
    ]
    why = (
        f"a KV cache beside the transfer is kv_cache: {{provider: {providers[0]}}}"
        if providers
        else f"mode {mode.name} has no cache that uses it"
    )
    part.note(f"--kv-transfer-config {name}", "decide", f"{why} (docs/caches.md)", line)


def _read_connector_key(part: Part, key: str, value: t.Any, mode: Mode, line: int) -> None:
    what = f"--kv-transfer-config {key}"
    if key == "kv_load_failure_policy" and value in mode.kv_load_failure_policies:
        part.group[key] = value
        part.note(what, "taken", f"{key}: {value}", line)
    elif key == "kv_lease_duration" and str(value).isdigit():
        part.group["kv_lease"] = int(value)
        part.note(what, "taken", f"kv_lease: {value}", line)
    elif key in _OF_PLAN:
        part.note(what, "recipe", _OF_PLAN[key], line)
    elif key in _SIZES:
        part.note(what, "recipe", "the sizes of both roles are written from their args", line)
    elif (key, value) == ("kv_buffer_device", "cuda"):
        part.note(what, "recipe", "it is the engine's default", line)
    else:
        why = f"mode {mode.name} does not write it: a --kv-transfer-config of your own in args stands in place of the recipe's"
        part.note(what, "decide", why, line)


# -- the environment ---------------------------------------------------------------------------------------------------------------------


def _read_env(part: Part, mode: Mode, modes: t.Iterable[Mode], engine: Engine) -> None:
    recipe = mode.environment_of(part.role)
    others = {name for one in modes for role in _SIZES for name in one.environment_of(role)}
    for variable in part.launch.env:
        name, value = variable.name, variable.value
        line = part.launch.line_of(name) if variable.line == part.launch.line else variable.line
        if secret_name(name) or secret_value(value or ""):
            _secret(part, name, name, line)
            if name in engine.key_env and part.key is None:
                part.key, part.key_flag = f"${name}" if value is None else value, name
        elif name in recipe:
            part.note(name, "recipe", f"mode {mode.name} sets it", line)
        elif _GPU_MASKS.fullmatch(name):
            part.masked = gpu_count(f"device={value}") if value and name != "CUDA_DEVICE_ORDER" else part.masked
            part.note(name, "recipe", "which GPUs a member has is the plan's", line)
        elif _INTERFACES.fullmatch(name):
            _put(part, name, "${member.kv_interface}", line, "the host's KV interface, which pd_kv_interface names")
        elif name in others:
            part.note(
                name,
                "recipe",
                f"ports and addresses of the transport are the plan's, and mode {mode.name} does not use it",
                line,
            )
        elif _RENDEZVOUS.fullmatch(name):
            part.note(name, "dropped", "ports, addresses and ranks are the plan's", line)
        elif _ADDRESSES.fullmatch(name):
            _put(part, name, "${member.kv_address}", line, "the member's address on its KV interface")
        elif value is None:
            part.note(name, "decide", "it is taken from where the text is run: write its value under env", line)
        elif unknown(value):
            part.note(
                name,
                "decide",
                f"{_shown(unknown(value))} is only known where the text is run. {instead(unknown(value)[0])}",
                line,
            )
        else:
            _put(part, name, value, line, "")


def _put(part: Part, name: str, value: str, line: int, why: str) -> None:
    # A dollar that is no placeholder of ours stays one.
    part.env[name] = value
    part.note(
        name, "taken", f"env: {value if len(value) <= 80 else value[:77] + '...'}" + (f", {why}" if why else ""), line
    )


def _secret(part: Part, variable: str, what: str, line: int) -> None:
    if variable not in part.secrets:
        part.secrets.append(variable)
    part.note(what, "taken", f"secrets: {variable}; put its value into {vault(variable)}, with ansible-vault", line)


def vault(variable: str) -> str:
    """The variable of the inventory that a secret is to be put into."""
    return f"vault_{variable.lower()}"
