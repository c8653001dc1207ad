"""SGLang's flags as its published source declares them: a parser made from the text of srt/arg_groups/fields and
srt/server_args.py, of which nothing is run (the package needs a GPU build of torch to import).

Two ways of declaring one are read: `name: A[type, Arg(...)] = default` (0.5.2x), which becomes `--name`, and a call of `add_argument`.
"""

from __future__ import annotations

import argparse
import ast
import typing as t
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Flag:
    """`choices` is None where there are none, or where they are put together by code."""

    names: list[str]
    takes: str = "one"  # one, none or many
    choices: list[str] | None = None
    # The file that declares it, and its default where that is written as a plain value.
    group: str = ""
    default: t.Any = None


@dataclass
class Source:
    flags: list[Flag] = field(default_factory=list)

    @property
    def spellings(self) -> set[str]:
        return {name for flag in self.flags for name in flag.names}

    def flag(self, name: str) -> Flag:
        return next(flag for flag in self.flags if name in flag.names)

    def parse(self, argv: t.Sequence[str]) -> argparse.Namespace:
        """As `sglang.launch_server` does it: a plain argparse, which takes unambiguous abbreviations too. Raises ValueError."""
        made = argparse.ArgumentParser(prog="sglang", exit_on_error=False, conflict_handler="resolve")
        for flag in self.flags:
            kind = {"none": {"action": "store_true"}, "many": {"nargs": "+"}, "one": {}}[flag.takes]
            made.add_argument(*flag.names, **kind, **({"choices": flag.choices} if flag.choices else {}))

        def fail(message: str) -> t.NoReturn:
            raise ValueError(message)

        made.error = fail  # type: ignore[method-assign]
        try:
            return made.parse_args(list(argv))
        except argparse.ArgumentError as exc:
            raise ValueError(str(exc)) from exc


def read(folder: Path) -> Source:
    """The flags of the package unpacked in `folder`."""
    srt = folder / "sglang" / "srt"
    lists: dict[str, list[str]] = {}
    for path in (srt / "arg_groups" / "choices.py", srt / "server_args.py"):
        if path.exists():
            lists |= _lists(ast.parse(path.read_text(encoding="utf-8")))
    source = Source()
    for path in [*sorted((srt / "arg_groups" / "fields").glob("*.py")), srt / "server_args.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            flag = _field(node, lists) or _call(node, lists)
            if flag:
                flag.group = path.stem
                source.flags.append(flag)
    return source


def _lists(tree: ast.Module) -> dict[str, list[str]]:
    """The module's constants that are plain lists of texts."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _texts(node.value, {})
            if value is not None:
                found[node.targets[0].id] = value
    return found


def _texts(node: ast.AST | None, lists: t.Mapping[str, list[str]]) -> list[str] | None:
    if isinstance(node, ast.Name):
        return lists.get(node.id)
    try:
        value = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
    return [str(v) for v in value] if isinstance(value, (list, tuple, set)) else None


def _field(node: ast.AST, lists: t.Mapping[str, list[str]]) -> Flag | None:
    """`name: A[type, Arg(...)] = default`, or with the help text alone in the second place."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return None
    annotation = node.annotation
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) not in ("A", "Annotated"):
        return None
    kind, *meta = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    said = {
        k.arg: k.value for m in meta if isinstance(m, ast.Call) and ast.unparse(m.func) == "Arg" for k in m.keywords
    }
    if not said and not any(isinstance(m, (ast.Constant, ast.JoinedStr, ast.BinOp)) for m in meta):
        return None
    if "no_cli" in said and ast.literal_eval(said["no_cli"]):
        return None
    name = ast.literal_eval(said["cli_name"]) if "cli_name" in said else "--" + node.target.id.replace("_", "-")
    outer, inner = _within(kind)
    if outer == "Optional":
        outer, inner = _within(inner)
    choices = _texts(said.get("choices"), lists)
    if outer == "Literal":
        choices = choices or _texts(inner if isinstance(inner, ast.Tuple) else ast.Tuple([inner], ast.Load()), lists)
    takes = "none" if outer == "bool" and "action" not in said else _takes(said)
    if outer in ("List", "list") and "type_parser" not in said:
        takes = "many"
    names = [name, *(_texts(said.get("aliases"), lists) or [])]
    if "BooleanOptionalAction" in ast.unparse(said.get("action", ast.Constant(None))):
        names += ["--no-" + n[2:] for n in names]
        takes = "none"
    return Flag(names, takes, choices, default=_plain(node.value))


def _plain(node: ast.AST | None) -> t.Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def _takes(said: t.Mapping[str | None, ast.expr]) -> str:
    """What follows a flag with these keywords of argparse."""
    action = ast.unparse(said["action"]) if "action" in said else ""
    if "true" in action.lower() or "false" in action.lower():
        return "none"
    return "many" if "nargs" in said and ast.unparse(said["nargs"]) != "None" else "one"


def _within(kind: ast.expr) -> tuple[str, ast.expr]:
    """The name of a type and what it is about: ("Optional", int) of Optional[int], ("int", int) of int."""
    if isinstance(kind, ast.Subscript):
        return ast.unparse(kind.value), kind.slice
    return ast.unparse(kind), kind


def _call(node: ast.AST, lists: t.Mapping[str, list[str]]) -> Flag | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
        return None
    names = [a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")]
    if not names:
        return None
    said = {k.arg: k.value for k in node.keywords}
    return Flag(names, _takes(said), _texts(said.get("choices"), lists))
