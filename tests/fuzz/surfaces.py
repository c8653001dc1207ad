"""Where something comes in that others wrote, and what must hold of it whatever it is.

A surface has inputs, which are values of JSON so that one can be kept in a file, and a check. The check gives what the product made of the
input; it may refuse with a PdError, and raises for whatever else goes wrong."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import re
import sys
import tempfile
import typing as t
from dataclasses import dataclass
from unittest import mock

import yaml
from builders import ROOT, RUN, Fleet, judge, nixl_mode, spec
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.module_utils import _routers
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Finding, as_text
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed
from ansible_collections.inferops.pd.plugins.module_utils._core.model import kv_size, model_config
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status
from ansible_collections.inferops.pd.plugins.module_utils._core.watch import symptom
from ansible_collections.inferops.pd.plugins.module_utils._host import drain, lock, observe, proof, watch
from ansible_collections.inferops.pd.plugins.module_utils._host.wait import doubts, symptoms_of
from ansible_collections.inferops.pd.plugins.module_utils._probes import (
    command,
    elsewhere,
    firewall,
    gpus,
    health,
    http,
    links,
    logs,
    metrics,
    model,
    network,
    ports,
    space,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import (
    docker,
    docker_elsewhere,
    docker_host,
    docker_images,
    docker_said,
    script,
    supervisor,
    systemd_unit,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.folder import Folder
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

from .inputs import Json, huge, noise, odd, spoilt

Answer = t.Any


@dataclass(frozen=True)
class Surface:
    name: str
    inputs: st.SearchStrategy[Json]
    check: t.Callable[[Json], Answer]


SURFACES: dict[str, Surface] = {}


def surface(
    name: str, inputs: st.SearchStrategy[Json]
) -> t.Callable[[t.Callable[[Json], Answer]], t.Callable[[Json], Answer]]:
    def add(check: t.Callable[[Json], Answer]) -> t.Callable[[Json], Answer]:
        SURFACES[name] = Surface(name, inputs, check)
        return check

    return add


@functools.lru_cache(maxsize=1)
def documented() -> frozenset[str]:
    with open(os.path.join(ROOT, "docs", "findings.md"), encoding="utf-8") as handle:
        return frozenset(re.findall(r"^## (.+)$", handle.read(), re.M))


def told(findings: t.Sequence[Finding]) -> list[t.Any]:
    """Findings as they are returned: each with a code that the documents have, and shown without trouble."""
    for finding in findings:
        assert finding.code in documented(), finding
        assert finding.severity in ("error", "unverified", "warning"), finding
        assert finding.message, finding
    plain = [one.to_plain() for one in findings]
    as_text(plain)
    return json.loads(json.dumps(plain))


# -- what users write --------------------------------------------------------------------------------------------------

SPECS = (
    spec(),
    spec(
        runtime="docker",
        engine={"image": "e:1", "executable": ..., "args": ["-tp 2", "--max-model-len 128k"]},
        router={"executable": ...},
    ),
    spec(
        mode="sglang-mooncake", engine={"args": ["--tp-size=2"], "secrets": {"K": "v"}, "env": {"A": "b"}}, kv_lease=60
    ),
    spec(
        mode="vllm-ascend-mooncake",
        kv_cache={"provider": "mooncake", "roles": ["prefill"]},
        decode={"replicas": 2, "gpus": 2},
    ),
    spec(
        runtime="systemd",
        router={"membership": "restart", "resources": {"cpu": 2, "memory": "2GiB"}},
        labels={"team": "x"},
    ),
)


@surface("specs", spoilt(*SPECS) | odd)
def specs(raw: Json) -> Answer:
    verdict = judge(raw)
    found = told(verdict.findings.items)
    plain = verdict.group.to_plain() if verdict.group is not None else None
    if verdict.group is None or verdict.template is None or verdict.findings.errors:
        return [found, json.dumps(plain)]
    if not all(role.hosts in ("h1", "h2") for role in verdict.group.roles.values()):
        return [found, json.dumps(plain)]
    made = _fleet().plan(raw, run=RUN)
    return [told(made.findings.items), json.loads(json.dumps(made.plan))]


def _fleet() -> Fleet:
    return Fleet(h1={"gpus": 8}, h2={"gpus": 8})


@surface("modes", spoilt(nixl_mode()))
def modes(raw: Json) -> Answer:
    if isinstance(raw, dict):
        raw = {**raw, "name": "fuzz"}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "fuzz.yml"), "w", encoding="utf-8", errors="surrogatepass") as handle:
            try:
                yaml.safe_dump(raw, handle, allow_unicode=False)
            except yaml.YAMLError:
                return "no YAML"
        found = load_modes([folder])["fuzz"]
    made = judge(spec(mode="fuzz"), found)
    answer = [told(made.findings.items)]
    if made.group is not None and made.template is not None and not made.findings.errors:
        plan = Fleet(modes=[found], h1={"gpus": 8}).plan(spec(mode="fuzz"), run=RUN)
        answer.append(told(plan.findings.items))
    return answer


# -- what hosts say ----------------------------------------------------------------------------------------------------

RAW = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"}, router={"hosts": "h3", "membership": "restart"})


@functools.lru_cache(maxsize=1)
def deployed() -> tuple[Fleet, dict[str, t.Any]]:
    """A fleet that runs a group, and what each of its hosts says."""
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2}, h3={})
    fleet.deploy(RAW)
    return fleet, {name: _plain(fleet, name) for name in fleet.facts}


def _plain(fleet: Fleet, name: str) -> dict[str, t.Any]:
    return copy.deepcopy(dict(fleet.hosts()[name].plain))


def _seen(name: str, facts: Json) -> Answer:
    """Plans and states with one host that says this, and two that say what is right. The others are as without it."""
    fleet, good = deployed()
    other = copy.copy(fleet)
    other.runs = 0
    host = observed.read_host(name, facts)
    hosts = {**{one: observed.read_host(one, copy.deepcopy(its)) for one, its in good.items()}, name: host}
    other.hosts = lambda: dict(hosts)  # type: ignore[method-assign]
    answer: list[t.Any] = [list(host.unread), [(one.path, one.why) for one in host.damaged]]
    for action, counts in (("deploy", {}), ("restart", {}), ("scale", {"decode": 2}), ("remove", {})):
        more: dict[str, t.Any] = {"counts": counts} if counts else {}
        try:
            made = other.plan(RAW, action, **more)
        except PdError as exc:
            answer.append(str(exc))
            continue
        answer += [told(made.findings.items), json.loads(json.dumps(made.plan))]
    answer.append(json.loads(json.dumps(other.status(RAW))))
    answer.append(json.loads(json.dumps(other.status(None))))
    for state in answer[-2:]:
        status.table(state)
    return answer


@functools.lru_cache(maxsize=4)
def _facts(name: str) -> dict[str, t.Any]:
    return deployed()[1][name]


def _named_facts() -> st.SearchStrategy[Json]:
    return st.one_of(*(st.tuples(st.just(name), spoilt(_facts(name))).map(list) for name in ("h1", "h2", "h3")))


@surface("facts", st.deferred(_named_facts))
def facts(given: Json) -> Answer:
    name, raw = given
    return _seen(name, raw)


@surface(
    "labels", st.deferred(lambda: spoilt(*(one["label"] for name in ("h1", "h3") for one in _facts(name)["members"])))
)
def labels(raw: Json) -> Answer:
    """A label among the facts of its host, in a file, and on a container."""
    name = "h3" if isinstance(raw, dict) and raw.get("role") == "router" else "h1"
    good = copy.deepcopy(_facts(name))
    good["members"][0]["label"] = raw
    entry = {"Id": "0", "Names": ["/x"], "State": "running", "Labels": {f"{docker.LABEL}.label": json.dumps(raw)}}
    (entry,) = docker_said.entries([entry])
    own = docker._own_label(entry)
    docker._damage(entry)
    return [_seen(name, good), own, _kept({"groups/demo/members/demo-prefill-0/label.json": json.dumps(raw)})]


@surface("records", st.deferred(lambda: st.tuples(st.booleans(), spoilt(_facts("h1")["records"]["demo"])).map(list)))
def records(given: Json) -> Answer:
    """A record of one host, newer than the others' or not."""
    newer, raw = given
    if newer and isinstance(raw, dict):
        raw = {**raw, "serial": 99}
    good = copy.deepcopy(_facts("h1"))
    good["records"]["demo"] = raw
    return [_seen("h1", good), _kept({"groups/demo/record.json": json.dumps(raw)})]


# -- what a host keeps -------------------------------------------------------------------------------------------------

KEPT = {
    "groups/demo/record.json": json.dumps(
        {"schema": 2, "group": "demo", "generation": 1, "formation": "f", "members": []}
    ),
    "groups/demo/lock.json": json.dumps({"who": "a@b", "run": "r", "since": 1.0, "host": "h", "pid": 1}),
    "groups/demo/holds.json": json.dumps(
        {"holds": [{"group": "demo", "member": "demo-decode-0", "formation": "f", "ports": [40000]}]}
    ),
    "groups/demo/members/demo-prefill-0/label.json": json.dumps(
        {"group": "demo", "member": "demo-prefill-0", "role": "prefill", "index": 0, "revision": "r", "generation": 1}
    ),
    "groups/demo/members/demo-prefill-0/starts": "1795965600 31 0f3b6e0c-5d7a 77\n1795965601 32\n",
    "groups/demo/members/demo-prefill-0/env": "export A='b'\nset -- UID='7' \"$@\"\n",
    "groups/demo/members/demo-prefill-0/draining": "1.0\n",
    "id": "x\n",
}
texts = st.one_of(
    noise,
    st.sampled_from(sorted(KEPT.values())),
    odd.map(lambda value: json.dumps(value, default=str)),
    huge,
    st.sampled_from(["", "{}", "\ufeff{}", "²²²² ²²"]),
)


@surface("state-folders", st.dictionaries(st.sampled_from(sorted(KEPT)), texts, min_size=1, max_size=3))
def kept(files: Json) -> Answer:
    return _kept(files)


def _kept(files: t.Mapping[str, str]) -> Answer:
    """A state directory with these files instead of good ones, as an observation reads it. The other group is as without them."""
    with tempfile.TemporaryDirectory() as root:
        good = {
            path.replace("demo", "other"): text.replace("demo", "other") for path, text in KEPT.items() if path != "id"
        }
        for path, text in {**KEPT, **files, **good}.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8", errors="surrogatepass") as handle:
                handle.write(text)
        state = State(root)
        found, noted = state.labels(), state.records()
        assert [one["member"] for one in found if one["group"] == "other"] == ["other-prefill-0"]
        assert "other" in noted
        digests = {group: observed.digest_of_group(group, found, noted.get(group)) for group in ("demo", "other")}
        holder = {"run": "mine", "who": "me"}
        held = _refused(lambda: lock.taken(state.group_lock("demo"), holder, "demo", 1000.0))
        answer = [
            held,
            *(found, noted, digests, observed.digest(found), state.holds(), state.group_locks()),
            *([list(one) for one in state.damaged()], state.draining("demo", "demo-prefill-0")),
            Folder(state, "demo", "demo-prefill-0").starts(),
            Folder(state, "demo", "demo-prefill-0").masked(["b"], {"secrets": ["A"]}),
        ]
        return json.loads(json.dumps(answer, default=str).replace(root, "ROOT"))


LABEL = {
    **json.loads(KEPT["groups/demo/members/demo-prefill-0/label.json"]),
    "schema": 2,
    "formation": "f",
    "runtime": "supervisor",
    "address": "192.0.2.1",
    "port": 40000,
    "url": "http://192.0.2.1:40000",
    "health": "/health",
    "backend": "vLLM",
    "gpus": ["0"],
    "ports": {"kv": {"base": 40001, "count": 1}},
    "secrets": ["A"],
    "probe": {"listening": [{"name": "http", "port": 40000}], "busy": ["a"], "held": ["b"], "metrics": "/metrics"},
    "source": {"model": "/models/m", "executable": "/opt/vllm"},
}
ROUTER = {
    **LABEL,
    "role": "router",
    "dialect": "vllm-router",
    "policy": "dynamic",
    "peers": [{"member": "m", "role": "prefill", "url": "u"}],
}


LISTENING = "sl local rem st\n   0: 0100007F:9C40 00000000:0000 0A 0:0 0:0 0 0 0 1 1\n"


class _Runs:
    """A runtime whose members run, with a log."""

    name = "supervisor"

    def __init__(self, state: State) -> None:
        self.state = state

    def members(self) -> list[t.Any]:
        now = {"state": "running", "pid": 1, "since": 1.0, "restarts": 0, "exit": None, "why": "", "log": None}
        return [{"label": label, **now} for label in self.state.labels()]

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        found = ["ERROR Mooncake transfer failed, ret: -1"][-lines:]
        return Folder(self.state, group, member).masked(found, self.state.label(group, member))


@surface(
    "looks",
    st.tuples(
        spoilt(LABEL, ROUTER), st.sampled_from([200, 500]), st.sampled_from(["{}", '{"workers": [{"url": "u"}]}'])
    ).map(list),
)
def looks(given: Json) -> Answer:
    """A look at a host with this label among its own."""
    label, code, body = given
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**KEPT, "groups/demo/members/demo-prefill-0/label.json": json.dumps(label)}.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8", errors="surrogatepass") as handle:
                handle.write(text)
        state = State(root)
        driver = t.cast("t.Any", _Runs(state))
        with answering(lambda method, url, *_a, **_m: http.Answer(f"{method} {url}", code, body.encode(), 0.0)):
            found = observe._members(driver.members(), {"supervisor": driver}, state, ports.parse(LISTENING))
        told_ = observe._kept(observe.Request(), state, {"supervisor": driver}, False)
        told_.pop("state")
        return json.loads(
            json.dumps([found, told_, elsewhere.held(label if isinstance(label, dict) else {})]).replace(root, "ROOT")
        )


ADDRS = [
    {
        "ifname": "eth1",
        "flags": ["UP"],
        "operstate": "UP",
        "mtu": 9000,
        "link": "bond0",
        "linkinfo": {"info_kind": "vlan"},
        "addr_info": [{"local": "192.0.2.1", "prefixlen": 24, "family": "inet"}],
    },
    {"ifname": "veth0", "flags": ["UP"], "link": "peer0", "master": "br0", "linkinfo": {"info_kind": "veth"}},
]
ROUTES = [
    {"dst": "default", "dev": "eth1", "metric": 100, "type": "unicast", "nexthops": [{"dev": "eth2"}]},
    {"dst": "default", "dev": "eth3"},
]
RULES = {
    "nftables": [
        {"chain": {"family": "ip", "table": "t", "name": "n", "hook": "input", "policy": "accept"}},
        {"rule": {"family": "ip", "table": "t", "chain": "n", "expr": [{"reject": None}]}},
    ]
}
CARDS = {
    "card0": {"Card series": "MI300X", "VRAM Total Memory (B)": "206158430208"},
    "card10": {"Card model": "x", "Device name": "y"},
}
LINES = [
    *(
        "0, GPU-1, H100, 81559\n",
        "GPU-1, 31, 1000, python\n",
        "| 0 910B | OK |\n",
        "| 0 | 0000:C1:00.0 | 0 / 65536 |\n",
        "Process id\n",
    ),
    *(
        "| 0 0 | 31 | python | 1 |\n",
        "²",
        "٣",
        "Id=a.service\nStatus=x\n\n",
        "[X-Inferops-pd]\nGroup=g\nMember=m\n",
        "=",
        "-j DROP\n",
    ),
    *(
        "Max locked memory     unlimited  unlimited  bytes\n",
        "   0: 0100007F:9C40 00000000:0000 0A 0:0 0:0 0 0 0 1 1\n",
        "9" * 5000,
    ),
]


@surface(
    "tools",
    st.one_of(
        spoilt(ADDRS, ROUTES, RULES, CARDS).map(lambda value: json.dumps(value, default=str)),
        st.lists(st.sampled_from(LINES) | st.text(max_size=6), max_size=12).map("".join),
        noise,
        huge,
    ),
)
def tools(text: Json) -> Answer:
    """Whatever a tool of the host says: it is read, or taken for no answer."""
    said = command.Said(text, "")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(command, "run", return_value=said))
        root = stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(os.path.join(root, "class", "net"))
        answer = [
            *(gpus.find(), gpus.names([{"id": "0"}]), space.users(), space.on_gpus(), links.default_routes(root)),
            *(firewall.nft_drops(text), firewall.iptables_drops(text)),
            *([one.plain() for one in ports.parse(text)], systemd_unit.parse_show(text), systemd_unit.marks_of(text)),
            systemd_unit.memlock(text),
        ]
        seen = network.interfaces(root)
        answer += [one.plain() for one in seen]
        answer.append(network.choose(seen, [], "data", None).to_plain())
    return json.loads(json.dumps(answer))


OWN = {
    f"{docker.LABEL}.state": "ROOT",
    f"{docker.LABEL}.group": "demo",
    f"{docker.LABEL}.member": "demo-prefill-0",
    f"{docker.LABEL}.label": json.dumps({**LABEL, "runtime": "docker"}),
}
ENGINE = {
    "info": {
        "ServerVersion": "28.2",
        "DefaultRuntime": "runc",
        "LoggingDriver": "json-file",
        "BuildahVersion": "1.39.3",
        "NCPU": 8,
        "MemTotal": 2**36,
        "Runtimes": {"runc": {}, "nvidia": {}},
        "SecurityOptions": ["name=userns"],
        "DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}],
    },
    "containers": [
        {"Id": "0a", "Names": ["/x"], "State": "running", "Labels": OWN, "HostConfig": {"NetworkMode": "host"}},
        {"Id": "0b", "Names": ["/y"], "State": "exited", "Labels": {f"{docker.LABEL}.state": "ROOT"}},
    ],
    "inspect_container": {
        "Id": "0a",
        "State": {
            "Status": "exited",
            "Pid": 31,
            "StartedAt": "2026-11-29T15:00:00.5+01:00",
            "ExitCode": 137,
            "OOMKilled": False,
            "Error": "e",
        },
        "Config": {"Labels": OWN, "Env": ["A=b"], "Image": "e:1", "User": "app"},
        "RestartCount": 2,
        "LogPath": "/var/lib/x-json.log",
    },
    "inspect_image": {"Id": "sha256:1", "RepoDigests": ["e@sha256:2"], "Size": 7, "Config": {"User": "app:app"}},
    "inspect_distribution": {"Descriptor": {"digest": "sha256:2"}},
    "pull": [{"status": "x"}, {"error": "no"}],
    "logs": "ERROR b\n",
    "supervisor.getAllProcessInfo": [
        {"name": "demo-prefill-0", "statename": "BACKOFF", "pid": 31, "start": 1, "stop": 2, "spawnerr": "e"}
    ],
    "supervisor.getPID": 31,
}


class _Engine:
    """A container engine and a supervisord that answer this, whatever they are asked."""

    path = url = "/run/engine.sock"

    def __init__(self, answers: Json, root: str) -> None:
        whole = json.dumps(answers).replace("ROOT", root)
        self.answers = json.loads(whole) if isinstance(answers, dict) else {}

    def call(self, doing: str, what: t.Any = None, *_more: t.Any, **_named: t.Any) -> t.Any:
        if not callable(what):
            return self.answers.get(doing)
        try:
            return what(self)
        except ValueError as exc:  # what Api.call makes of whatever is raised
            raise HostError(doing, str(exc), "") from exc

    def __getattr__(self, name: str) -> t.Any:
        return lambda *_words, **_named: self.answers.get(name)

    def logs(self, *_words: t.Any, **_named: t.Any) -> bytes:
        return str(self.answers.get("logs")).encode("utf-8", "surrogatepass")

    def pull(self, *_words: t.Any, **_named: t.Any) -> list[t.Any]:
        """The library makes events of whatever is sent."""
        said = self.answers.get("pull")
        return said if isinstance(said, list) else [said]


@surface("runtimes", spoilt(ENGINE))
def runtimes(answers: Json) -> Answer:
    """Whatever a container engine and a supervisord say of themselves and of what they run."""
    with tempfile.TemporaryDirectory() as root:
        state = State(root)
        engine = t.cast("t.Any", _Engine(answers, root))
        driver, programs = docker.Docker(state, "unix:///run/engine.sock"), supervisor.Supervisor(state)
        driver.api, programs._rpc = engine, engine
        made = [
            *(driver.facts(["e:1"]), driver.damaged(), _refused(driver.members)),
            *(_refused(lambda: driver.logs("demo", "demo-prefill-0", 5)), repr(docker_host.traits(driver._info()))),
            *(_refused(lambda: docker_images.ensure(engine, "e:1", "always")), docker_elsewhere.containers(engine)),
        ]
        state.write_label({**LABEL, "runtime": "supervisor"})
        made += [programs.members(), len(programs._hidden())]
        return json.loads(json.dumps(made, default=repr).replace(root, "ROOT"))


CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 40960,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    "sliding_window": 4096,
    "layer_types": ["full_attention", "sliding_attention", "linear_attention"],
    "text_config": {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_experts": 8, "hybrid_override_pattern": "M-*"},
    "quantization_config": {"kv_cache_scheme": {"num_bits": 8}},
    "compress_ratios": [4, 128],
    "index_topk": 2048,
    "index_head_dim": 128,
}


@surface("model-configs", spoilt(CONFIG))
def configs(raw: Json) -> Answer:
    """What a model's config.json says, in a folder and in the facts of a host."""
    with tempfile.TemporaryDirectory() as root:
        with open(os.path.join(root, "config.json"), "w", encoding="utf-8", errors="surrogatepass") as handle:
            json.dump(raw, handle)
        seen = model.facts(root)
    config = model_config.read(seen["config"])
    if config is None:
        return [seen["why"]]
    answer = [
        *(
            config.mla,
            config.layer_kinds,
            config.recurrent,
            config.compressed,
            config.hybrid,
            config.partial_attention,
            config.chunked,
        ),
        *(
            config.experts,
            config.kv_heads,
            config.head_size,
            config.layers,
            config.context_length,
            config.dtype,
            config.plain_kv_cache,
        ),
        *(model_config.from_file(config, option, None) for option in ("dtype", "kv_cache_dtype", "context_length")),
    ]
    sizes = [
        getattr(kv_size, name) for name in dir(kv_size) if name.startswith(("bytes_per_token", "of_token", "per_token"))
    ]
    answer += [size(config) for size in sizes if callable(size)]
    facts_ = copy.deepcopy(_facts("h1"))
    facts_["models"] = {"/models/m": {**seen, "stamp": None, "weights": None}}
    _seen("h1", facts_)
    return json.loads(json.dumps(answer, default=sorted))


# -- what processes write and answer -----------------------------------------------------------------------------------


@surface("logs", noise)
def read_logs(text: Json) -> Answer:
    lines = logs.clean(text)[-logs.TAIL_LINES :]
    answer: list[t.Any] = [lines, symptom.last_line(lines), watch.since_start(lines, 1795965600.0)]
    for role, backend in (("decode", "vLLM"), ("decode", "SGLang"), ("router", None), ("prefill", "Custom")):
        rows = symptoms_of(role, backend)
        for fatal in (False, True):
            found = symptom.diagnose(lines, rows, fatal)
            answer.append(found.to_plain() if found else None)
        live = {"label": {"role": role, "backend": backend}, "state": "running", "restarts": 1, "since": 1795965600.0}
        answer.append(doubts(live, lines))
    return answer


@surface("metrics", noise)
def pages(text: Json) -> Answer:
    page = metrics.parse(text)
    answer: list[t.Any] = [repr(page.total(name)) for name in ("a", 'a{b="c"}', "vllm:x", "vllm:x_total")]
    try:
        answer.append(metrics.Selector.parse(text).name)
    except PdError as exc:
        answer.append(str(exc))
    script.parse_env(text)
    return answer


COMPLETION = {
    "choices": [
        {"text": "hello", "logprobs": {"tokens": ["he", "llo"], "top_logprobs": [{"he": -0.1}, {"llo": -0.2}]}}
    ],
    "usage": {"prompt_tokens": 21, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "192.0.2.1"},
}
WORKERS = {
    "workers": [{"url": "http://192.0.2.1:1", "worker_type": "prefill", "is_healthy": True, "id": "u", "model_id": "m"}]
}
MODELS = {"data": [{"id": "m", "max_model_len": 8192}]}
ERROR = {"error": {"message": "no", "type": "x"}, "message": "y"}
bodies = st.one_of(
    spoilt(COMPLETION, WORKERS, MODELS, ERROR).map(lambda value: json.dumps(value, default=str)),
    noise,
    huge,
    st.sampled_from(["null", "[1]", '{"choices":[0]}', '{"data": 7}', '{"usage": {"prompt_tokens": 1e999}}']),
)
ASKED = {
    "group": "demo",
    "endpoint": {"served_model_name": "m"},
    "router": {"member": {"url": "http://192.0.2.9:8000"}},
    "members": [
        {"id": "demo-prefill-0", "role": "prefill", "url": "http://192.0.2.1:1"},
        {"id": "demo-decode-0", "role": "decode", "url": "http://192.0.2.2:1"},
    ],
    "proof": {"handoff": "nixl", "counters": {"moved": "a", "recomputed": 'a{b="c"}', "must_not_grow": ["b"]}},
}


@surface("http-answers", st.tuples(st.sampled_from([200, 200, 200, 404, 500, 503, 999]), bodies).map(list))
def answers(given: Json) -> Answer:
    """Whatever is asked of a member or a router, this is the answer."""
    code, text = given
    body = text.encode("utf-8", "surrogatepass")

    def request(method: str, url: str, *_args: t.Any, **_more: t.Any) -> http.Answer:
        return http.Answer(f"{method} {url}", code, body, 0.0)

    got: list[t.Any] = [request("GET", "http://x").excerpt()]
    with answering(request):
        for name in ("vllm-router", "sglang-router"):
            got.append(_refused(lambda name=name: _routers.dialect(name).list("http://192.0.2.9:8000", 1.0)))
        got.append(health.ask("http://192.0.2.1:1", None, 1.0))
        got.append(drain.drain({"url": "http://192.0.2.1:1", "busy": ["a"], "held": []}, 0.01))
        made = proof.Proof(Asked.from_plain(ASKED), 1.0, 30.0, 4)
        made.run_id = "fuzz"
        result = made.run()
        got += [result["good"], result["table"]]
    json.dumps(got)
    return got


def _refused(ask: t.Callable[[], t.Any]) -> t.Any:
    try:
        return ask()
    except PdError as exc:
        return str(exc)


def answering(request: t.Callable[..., t.Any]) -> t.Any:
    """Nothing is sent, and nothing waited for."""
    real, stack = http.request, contextlib.ExitStack()
    ours = [m for m in list(sys.modules.values()) if ".inferops.pd." in str(getattr(m, "__name__", ""))]
    for module in ours:
        if getattr(module, "request", None) is real:
            stack.enter_context(mock.patch.object(module, "request", request))
    for name, value in (("SETTLE_FOR", 0.0), ("SETTLE_EVERY", 0.0), ("ATTEMPTS", 1)):
        stack.enter_context(mock.patch.object(proof, name, value))
    for name in ("POLL", "SETTLE"):
        stack.enter_context(mock.patch.object(drain, name, 0.0))
    return stack
