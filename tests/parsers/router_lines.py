"""What a router's own parser makes of command lines: run inside the router's environment, with the name of its package.

On stdin a JSON list of argv, without the program's name; on stdout JSON: {version, lines: [{error} or the router's settings]}.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import sys
import typing as t


def fail(self: argparse.ArgumentParser, message: str) -> t.NoReturn:
    raise ValueError(message)


def main() -> None:
    package = sys.argv[1]
    # The launcher that the command runs, up to where it would hand over to the server.
    launcher = importlib.import_module(f"{package}.launch_router")
    argparse.ArgumentParser.error = fail  # type: ignore[assignment, method-assign]
    lines: list[t.Any] = []
    for argv in json.load(sys.stdin):
        try:
            read = launcher.parse_router_args(argv)
            read._validate_router_args()
            lines.append(
                {
                    k: v
                    for k, v in dataclasses.asdict(read).items()
                    if v is None or isinstance(v, (str, int, float, list))
                }
            )
        except Exception as exc:
            lines.append({"error": f"{type(exc).__name__}: {exc}"})
    print(json.dumps({"version": importlib.metadata.version(package.replace("_", "-")), "lines": lines}))


if __name__ == "__main__":
    main()
