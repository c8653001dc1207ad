"""Writes the tables of the engines' flags, plugins/module_utils/_engines/*_flags.py: vLLM's from its own parser, SGLang's from its
published source. What a flag means to us is not in them: that is written by people, in *_classes.py beside each.

    .build/demo/engine/bin/python tests/parsers/flag_tables.py vllm [OLDER_SOURCE...]
    python3 tests/parsers/flag_tables.py sglang .build/parsers/sglang [OLDER_SOURCE...]

OLDER_SOURCE is a folder that an older wheel was unpacked in: flags that it has, and the engine of the table has not, are its former ones.
With --print the text goes to stdout, which is how tests/integration/test_real_parsers.py looks whether a table is stale."""

from __future__ import annotations

import ast
import datetime
import re
import sys
import textwrap
import typing as t
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "plugins" / "module_utils" / "_engines"
WIDTH = 140
Flag = t.Tuple[str, t.List[str], str, t.Any]  # noqa: UP006 - (group, names, takes, default)

HEAD = '''# Copyright (c) {year}, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of {engine} {version}, by group of its parser. Written by tests/parsers/flag_tables.py, not by hand.

A line is the flag's names, `|` and what it takes (one value where nothing is said), `=` and its default where that is a plain word."""

VERSION = "{version}"
# The oldest version whose flags were looked at as well.
SINCE = "{since}"

TABLE = """
{table}
"""

# Flags that versions between the two had, and {version} has not.
FORMER = """
{former}
"""
'''


def of_vllm() -> tuple[str, list[Flag]]:
    """From the parser of the vLLM that this Python has. What is computed from the machine has no default here."""
    sys.path.insert(0, str(HERE))
    import vllm
    import vllm_lines

    serve = vllm_lines.parser().serve
    found = []
    for group in serve._action_groups:
        for action in group._group_actions:
            names = [name for name in action.option_strings if name not in ("-h", "--help")]
            if names:
                takes = {0: "none", "+": "many", "*": "many", "?": "maybe"}.get(action.nargs, "one")
                found.append((str(group.title), names, takes, action.default))
    return vllm.__version__.partition("+")[0], found


def of_sglang(folder: Path) -> tuple[str, list[Flag]]:
    sys.path.insert(0, str(HERE.parent))
    from parsers import sglang_flags

    version = folder.resolve().name.rpartition("-")[2]
    found = [(flag.group, flag.names, flag.takes, flag.default) for flag in sglang_flags.read(folder).flags]
    return version, found


def names_in(folder: Path) -> set[str]:
    """All that looks like a flag in a source's parsers, and the fields of the classes that flags are made of. More than its flags: it only
    has to hold every flag of that version."""
    found: set[str] = set()
    for name in ("engine/arg_utils.py", "entrypoints/**/cli_args.py", "entrypoints/cli/serve.py", "srt/server_args.py"):
        for path in folder.glob(f"*/{name}"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and re.fullmatch(r"--[a-z][a-z0-9-]+", str(node.value)):
                    found.add(str(node.value))
                elif _is_field(node) and "args" in name:
                    found.add("--" + node.target.id.replace("_", "-"))  # type: ignore[attr-defined]
    return found


def _is_field(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_"


def lines_of(flags: list[Flag]) -> t.Iterator[str]:
    groups = list(dict.fromkeys(group for group, *_rest in flags))
    for group in groups:
        yield f"# {group}"
        for of, names, takes, default in flags:
            if of == group:
                plain = isinstance(default, (str, int, float, bool)) and re.fullmatch(r"[\w.+-]+", str(default))
                yield " ".join(names) + (f" | {takes}" if takes != "one" else "") + (f" = {default}" if plain else "")


def text_of(engine: str, version: str, flags: list[Flag], older: list[Path]) -> str:
    mine = {"--help", *(name for _group, names, *_rest in flags for name in names)}
    theirs = {name for folder in older for name in names_in(folder)} - mine
    former = textwrap.fill(" ".join(sorted(theirs)), WIDTH, break_long_words=False, break_on_hyphens=False)
    versions = [folder.resolve().name.rpartition("-")[2] for folder in older] or [version]
    since = min(versions, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])
    year = datetime.date(2026, 1, 1).year
    table = "\n".join(lines_of(flags))
    return HEAD.format(year=year, engine=engine, version=version, since=since, table=table, former=former)


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--print"]
    engine, folders = words[0], [Path(word) for word in words[1:]]
    if engine == "vllm":
        made = text_of("vLLM", *of_vllm(), folders)
    else:
        made = text_of("SGLang", *of_sglang(folders[0]), folders[1:])
    if "--print" in sys.argv:
        print(made, end="")
    else:
        (OUT / f"{engine}_flags.py").write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
