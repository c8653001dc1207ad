"""What the installed vLLM makes of command lines, without an engine: run inside the engine's environment, one process for all lines.

On stdin a JSON list of argv, from the word after `vllm serve` on; a text instead of a list is the content of a Mooncake Store's file, whose
line is what the engine reads from it. On stdout JSON: {version, flags: every spelling that the parser
knows, lines}. A line is {error}, or {model, host, port, tensor, data, pipeline, served, hybrid: whether its flag turns the hybrid KV cache
manager off, kv: {name, role, policy, port, extra}, connector: the class that the connector's factory finds, or why none, hma: whether the
whole supports that manager, or why that cannot be told, children: {name: {registered, connector, hma}} of a composed one}.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import sys
import tempfile
import typing as t

import vllm
from vllm.config.kv_transfer import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

Line = t.Dict[str, t.Any]  # noqa: UP006


def parser() -> argparse.ArgumentParser:
    """The parser of `vllm`, with `serve` alone under it, that raises instead of ending the process."""
    root = FlexibleArgumentParser(prog="vllm")
    serve = ServeSubcommand().subparser_init(root.add_subparsers(dest="subparser", required=True))

    def fail(message: str) -> t.NoReturn:
        raise ValueError(message)

    for each in (root, serve):
        each.error = fail  # type: ignore[method-assign]
    root.serve = serve
    return root


def read(root: argparse.ArgumentParser, argv: list[str]) -> Line:
    args = root.parse_args(["serve", *argv])
    args.model = args.model_tag or args.model
    ServeSubcommand().validate(args)
    engine = AsyncEngineArgs.from_cli_args(args)
    told: Line = {
        "model": engine.model,
        "host": args.host,
        "port": args.port,
        "tensor": engine.tensor_parallel_size,
        "data": engine.data_parallel_size,
        "pipeline": engine.pipeline_parallel_size,
        "served": engine.served_model_name,
        "hybrid": engine.disable_hybrid_kv_cache_manager,
    }
    config = engine.kv_transfer_config
    if config is not None:
        told["kv"] = {
            "name": config.kv_connector,
            "role": config.kv_role,
            "policy": config.kv_load_failure_policy,
            "port": config.kv_port,
            "extra": config.kv_connector_extra_config,
        }
        told["connector"] = told_of(lambda: KVConnectorFactory.get_connector_class(config).__name__)
        told["hma"] = told_of(lambda: KVConnectorFactory.supports_hma_config(config))
        children = config.kv_connector_extra_config.get("connectors") or []
        told["children"] = {child["kv_connector"]: child_of(child) for child in children}
    return told


def store(text: str) -> Line:
    from vllm.distributed.mooncake_store import MooncakeStoreConfig

    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        return dataclasses.asdict(MooncakeStoreConfig.from_file(file.name))


def told_of(ask: t.Callable[[], t.Any]) -> t.Any:
    try:
        return ask()
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"


def child_of(child: Line) -> Line:
    """One child, as MultiConnector makes it: with the engine id of the whole."""
    config = KVTransferConfig(**child, engine_id="whole")
    return {
        "registered": child["kv_connector"] in KVConnectorFactory._registry,
        "connector": told_of(lambda: KVConnectorFactory.get_connector_class(config).__name__),
        "hma": told_of(lambda: KVConnectorFactory.supports_hma_config(config)),
    }


def main() -> None:
    root = parser()
    lines: list[Line] = []
    for argv in json.load(sys.stdin):
        try:
            lines.append(read(root, argv) if isinstance(argv, list) else store(argv))
        except Exception as exc:
            lines.append({"error": f"{type(exc).__name__}: {exc}"})
    flags = sorted(flag for action in root.serve._actions for flag in action.option_strings)
    answer = {
        "version": vllm.__version__,
        "package": importlib.metadata.version("vllm"),
        "flags": flags,
        "lines": lines,
    }
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
