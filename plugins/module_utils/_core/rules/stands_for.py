# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands for what: the one table of variables, flags and connector keys by which a user's text names a thing that the plan gives
members, or that belongs to one host. What is in no row is free.

Read in vllm 0.32 (engine/arg_utils.py, envs.py, distributed/kv_events.py) and sglang 0.5.23 (srt/arg_groups/fields, srt/environ.py); the
variables of NCCL, Gloo, HCCL, UCX and Mooncake by their documentation. Flags of routers and cache servers are those of their recipes."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ..base.arguments import Arguments
from ..facts.observed import Host
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..spec.spec import Group, Role
from ..template.template import GroupTemplate
from ..work.member import Member

# cards            the GPUs that a process sees, by number or uuid
# cards within     the same, counted among those that the plan's own mask leaves
# cards granted    the GPUs that a container runtime puts into a container; for a process of the host it has no meaning
# first card, card step   how an engine counts its way through the cards that it sees
# port             a TCP port that the process listens on
# HOST:PORT        the same, behind an address of its own host
# endpoint         a ZeroMQ endpoint that it binds; endpoints, ranks: the first of as many as it has data-parallel ranks
# endpoints        JSON with ZeroMQ endpoints that it binds
# connector        JSON of a connector, some keys of which are ports
# address          an address of its own host
# interfaces       network interfaces, all of which must be there
# interfaces, any  the same as prefixes with = and ^, one of which must be there
# RDMA             RDMA devices, all of which must be there; RDMA, any: as prefixes, one of which must be there
# net devices      RDMA devices and interfaces, one of which must be there (UCX)
# folder           a folder of the host that is one process's own
Kind = t.Literal[
    "cards", "cards within", "cards granted", "first card", "card step", "port", "HOST:PORT", "endpoint", "endpoints, ranks", "endpoints",
    "connector", "address", "interfaces", "interfaces, any", "RDMA", "RDMA, any", "net devices", "folder",
]  # fmt: skip

VARIABLES: t.Mapping[str, Kind] = {
    "CUDA_VISIBLE_DEVICES": "cards",
    "HIP_VISIBLE_DEVICES": "cards",
    "ASCEND_RT_VISIBLE_DEVICES": "cards",
    "ROCR_VISIBLE_DEVICES": "cards within",
    "GPU_DEVICE_ORDINAL": "cards within",
    "NVIDIA_VISIBLE_DEVICES": "cards granted",
    "AMD_VISIBLE_DEVICES": "cards granted",
    "ASCEND_VISIBLE_DEVICES": "cards granted",
    "MASTER_PORT": "port",
    "VLLM_PORT": "port",
    "VLLM_DP_MASTER_PORT": "port",
    "VLLM_NIXL_SIDE_CHANNEL_PORT": "port",
    "VLLM_P2P_SIDE_CHANNEL_PORT": "port",
    "VLLM_EC_SIDE_CHANNEL_PORT": "port",
    "VLLM_MOONCAKE_BOOTSTRAP_PORT": "port",
    "SGLANG_PORT": "port",
    "SGLANG_GRPC_PORT": "port",
    "LMCACHE_INTERNAL_API_SERVER_PORT_START": "port",
    "HOST_IP": "address",
    "VLLM_HOST_IP": "address",
    "VLLM_DP_MASTER_IP": "address",
    "VLLM_NIXL_SIDE_CHANNEL_HOST": "address",
    "VLLM_P2P_SIDE_CHANNEL_HOST": "address",
    "VLLM_EC_SIDE_CHANNEL_HOST": "address",
    "SGLANG_HOST_IP": "address",
    "SGLANG_ZMQ_SOURCE_IP": "address",
    "HCCL_IF_IP": "address",
    "MC_TCP_BIND_ADDRESS": "address",
    "MOONCAKE_LOCAL_HOSTNAME": "address",
    "GLOO_SOCKET_IFNAME": "interfaces",
    "TP_SOCKET_IFNAME": "interfaces",
    "SGLANG_LOCAL_IP_NIC": "interfaces",
    "NCCL_SOCKET_IFNAME": "interfaces, any",
    "HCCL_SOCKET_IFNAME": "interfaces, any",
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "interfaces, any",
    "MOONCAKE_DEVICE": "RDMA",
    "NCCL_IB_HCA": "RDMA, any",
    "UCX_NET_DEVICES": "net devices",
    "PROMETHEUS_MULTIPROC_DIR": "folder",
}
FLAGS: t.Mapping[str, Kind] = {
    "device-ids": "cards within",
    "base-gpu-id": "first card",
    "gpu-id-step": "card step",
    "port": "port",
    "grpc-port": "port",
    "http-port": "port",
    "http-metadata-server-port": "port",
    "metrics-port": "port",
    "prometheus-port": "port",
    "rpc-port": "port",
    "master-port": "port",
    "data-parallel-rpc-port": "port",
    "data-parallel-supervisor-port": "port",
    "nccl-port": "port",
    "gated-launch-port": "port",
    "smg-http-sidecar-port": "port",
    "engine-info-bootstrap-port": "port",
    "encoder-bootstrap-port": "port",
    "dist-init-addr": "HOST:PORT",
    "decoupled-spec-bind-endpoint": "endpoint",
    "load-publish-endpoint": "endpoints, ranks",
    "kv-events-config": "endpoints",
    "kv-transfer-config": "connector",
    "ec-transfer-config": "connector",
    "master-addr": "address",
    "data-parallel-address": "address",
    "disaggregation-ib-device": "RDMA",
    "mooncake-ib-device": "RDMA",
}
# Flags of a port, an address or a device that two members of a host may say alike, and that a host need not have; with the reason.
HARMLESS: t.Mapping[str, str] = {
    "decoupled-spec-connect-endpoints": "it connects to them",
    "encoder-register-urls": "it connects to them",
    "encoder-urls": "it connects to them",
    "otlp-traces-endpoint": "it connects to it",
    "remote-instance-weight-loader-seed-instance-ip": "the instance that it loads weights from, where that is",
    "remote-instance-weight-loader-seed-instance-service-port": "the same instance's",
    "remote-instance-weight-loader-send-weights-group-ports": "the same instance listens there",
    "tool-server": "it connects to it",
    "device": "a kind of card, as cuda",
    "numa-bind": "a switch",
    "numa-bind-cpus": "CPUs may be shared",
    "numa-bind-nodes": "NUMA nodes may be shared",
    "numa-node": "NUMA nodes may be shared",
}
# Keys of a connector, by its name, that are ports which the member listens on. Others have the key and listen elsewhere (NIXL's kv_port).
CONNECTOR_PORTS: t.Mapping[str, tuple[str, ...]] = {
    "P2pNcclConnector": ("kv_port",),
    "MooncakeConnectorV1": ("kv_port",),
    "MooncakeHybridConnector": ("kv_port",),
    "MooncakeLayerwiseConnector": ("kv_port",),
    "MoRIIOConnector": ("handshake_port", "notify_port"),
    "ECMooncakeConnector": ("ec_port",),
}


_NO_CARD = ("", "-1", "void", "none", "NoDevFiles")


@dataclass(frozen=True)
class Stated:
    """A user's text that stands for something. `name` is the variable, or the flag with its dashes; `place` is where it is written."""

    name: str
    kind: Kind
    text: str
    place: str
    role: str

    @property
    def literal(self) -> bool:
        """Whether it is the same for every member of the role."""
        return "${" not in self.text


# Members on a host, by its name.
Others = t.Callable[[str], t.Sequence[Member]]


def _nobody(_host: str) -> t.Sequence[Member]:
    return ()


@dataclass(frozen=True)
class Placed:
    """Members as a plan has them, and those that `come`, by id: what runs already is not judged anew. `others` says of a host who of other
    workloads this run has planned there before."""

    group: Group
    template: GroupTemplate
    members: t.Sequence[Member]
    come: t.Collection[str]
    hosts: t.Mapping[str, Host]
    others: Others = _nobody

    @property
    def mode(self) -> Mode:
        return self.template.mode

    @property
    def engines(self) -> t.Mapping[str, Engine]:
        return self.template.engines

    def coming(self) -> list[Member]:
        return [m for m in self.members if m.id in self.come and m.revision == self.template.revision]


def stated(role: Role, arguments: Arguments, env: t.Mapping[str, str]) -> list[Stated]:
    """What of a role's command line in its engine's reading, and of the variables that its user writes, stands for something, as a template
    has it or a member."""
    found = [
        Stated(name, VARIABLES[name], str(env[name]).strip(), f"{place_of(role, 'env', 'extra_env')}.{name}", role.name)
        for name in role.env
        if name in VARIABLES and name in env
    ]
    said = {option.name.partition(".")[0]: option.value for option in arguments.options if option.value is not None}
    for name, text in said.items():
        if name in FLAGS:
            whole = text if FLAGS[name] not in _OBJECTS else _object(arguments, name)
            found.append(Stated(f"--{name}", FLAGS[name], (whole or text).strip(), role.args_place, role.name))
    return found


_OBJECTS = ("endpoints", "connector")


def _object(arguments: Arguments, name: str) -> str:
    """An object whose keys are written singly (`--name.key=value`) as its text; empty for one that is written whole."""
    singly = any(option.name.startswith(f"{name}.") for option in arguments.options)
    return json.dumps(arguments.object(name)) if singly else ""


def place_of(role: Role, *keys: str) -> str:
    """Where the first of these keys is written: at the role, or at the engine that it inherits them from."""
    return f"roles.{role.name}.{keys[0]}" if role.own & {*keys} else f"engine.{keys[0]}"


def names_of(*kinds: Kind) -> tuple[str, ...]:
    """The variables of these kinds."""
    return tuple(name for name, kind in VARIABLES.items() if kind in kinds)


def cards_of(text: str) -> list[str]:
    """The cards in a list of them; empty for a word that means none."""
    found = [word.strip() for word in text.split(",")]
    return [] if text.strip() in _NO_CARD else [word for word in found if word and word != "-1"]


def told(one: Stated) -> str:
    """Where and what is written, as a person is told it."""
    return f"{one.place}: {one.text!r}" if one.place.endswith(one.name) else f"{one.place}: {one.name}={one.text}"


@dataclass
class Gathered:
    """The same text of several roles, told once: roles by (name, text)."""

    first: dict[tuple[str, str], Stated] = field(default_factory=dict)
    roles: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, every: t.Iterable[Stated]) -> Gathered:
        made = cls()
        for one in every:
            made.first.setdefault((one.name, one.text), one)
            made.roles.setdefault((one.name, one.text), []).append(one.role)
        return made

    def __iter__(self) -> t.Iterator[tuple[Stated, list[str]]]:
        return ((one, self.roles[key]) for key, one in self.first.items())
