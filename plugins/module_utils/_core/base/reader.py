# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what a user wrote, one key at a time: what does not fit becomes a finding that names the place, the value and what would fit."""

from __future__ import annotations

import difflib
import re
import shlex
import typing as t

from .finding import Findings
from .process_words import LONGEST, VARIABLE, is_held, unfit

# What a plan of one group may hold: more is a slip of the finger.
MAX_COUNT = 100_000
RESOURCES = {"cpu": r"\d{1,15}(\.\d{1,9})?", "memory": r"\d{1,15}(\.\d{1,9})?\s*([KMGT]i?B?|B)?"}
# Keys that mean something this product refuses: the reason is the answer.
REFUSED = {
    "scaling_schedule": "scheduled scaling does not go with prefill/decode groups: a schedule would change one role's count while the other"
    " serves. Scale with the playbook inferops.pd.scale.",
    "schedule": "scheduled scaling does not go with prefill/decode groups. Scale with the playbook inferops.pd.scale.",
    "lora_list": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "lora": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "lora_modules": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "adapters": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
}
# A group's and a cache service's: it becomes part of unit, container and file names.
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,46}[a-z0-9])?$")
# Keys of compose files, of `docker run` and of Kubernetes that a spec has under another name: what to write.
FOREIGN = {
    **dict.fromkeys(("environment", "envs"), "Write env: {NAME: value}; what is secret goes under secrets."),
    **dict.fromkeys(
        ("env_file", "envFrom", "environment_file"),
        "Write env: {NAME: value}; what is secret goes under secrets. Files of variables are not read.",
    ),
    **dict.fromkeys(("volumes", "volume", "volumeMounts"), 'Write mounts: ["/path:/path:ro"].'),
    **dict.fromkeys(
        ("ports", "expose"),
        "Remove it: members use the host's network, and ports are the plan's (pd_port_range). The router's is roles.router.port.",
    ),
    **dict.fromkeys(
        ("network_mode", "network", "networks", "hostNetwork"), "Remove it: members always use the host's network."
    ),
    **dict.fromkeys(
        ("shm_size", "shm-size", "ipc"),
        "Remove it: /dev/shm of a container is 16 GiB, or half of a smaller host's memory.",
    ),
    **dict.fromkeys(
        ("entrypoint",), "Write command: [...], the first words of the command line, where the recipe's do not fit."
    ),
    **dict.fromkeys(("model_path", "model-path", "model_name"), "Write model: PATH, at the group."),
    **dict.fromkeys(("runtime_class", "driver"), "Write runtime: docker, systemd or supervisor, at the group."),
    **dict.fromkeys(("restart", "restart_policy"), "Remove it: how a member is started again is the recipe's."),
    **dict.fromkeys(
        ("healthcheck", "readinessProbe", "livenessProbe"), "Remove it: members are asked as their engine needs it."
    ),
    **dict.fromkeys(("depends_on",), "Remove it: the order of a group's life is the plan's."),
    **dict.fromkeys(("container_name", "hostname"), "Remove it: members get their names from the group."),
    **dict.fromkeys(
        ("deploy", "nvidia_visible_devices", "gpu_ids", "device_ids"),
        "Write gpus: N at the role, the GPUs of one member; which they are is the plan's.",
    ),
    **dict.fromkeys(("count", "scale", "instances"), "Write replicas: N at the role."),
    **dict.fromkeys(
        ("cap_add", "privileged", "ulimits", "security_opt"),
        "Remove it: containers get the rights that their engine and its transport need.",
    ),
    **dict.fromkeys(("build",), "Write image: NAME; the collection builds none."),
    **dict.fromkeys(("pull_policy", "imagePullPolicy"), "Write pull: missing, always or never."),
}
# Roles that take whole GPUs, and so no share of a CPU.
GPU_ROLES = ("prefill", "decode")


# Text that may be repeated in a message: a short word, or a number with a unit. All else may be a secret at a wrong place.
_HARMLESS = re.compile(r"[A-Za-z]{1,10}|[-+]?[\d.]{1,12} ?[A-Za-z]{0,3}|")


def told(value: t.Any) -> str:
    """A value as a message may show it: what may be a secret, or hold one, by its kind alone."""
    if isinstance(value, str) and not _HARMLESS.fullmatch(value.strip()):
        return f"text of {len(value)} characters"
    return kind(value) if isinstance(value, (dict, list, type(None))) else repr(value)


NO_SECRET = "Write its text: a variable that is not set, or an empty entry of a vault, comes to this. Without a secret leave the key out."


def no_secret(value: t.Any) -> str:
    """Why a value cannot be a secret's, without it; empty when it can. As text these would be `None`, or `True`: a key that anybody
    guesses."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "the secret is empty"
    if isinstance(value, bool):
        return "the secret is a boolean, not text"
    return f"the secret is {kind(value)}, not text" if isinstance(value, (t.Mapping, list, tuple)) else ""


def kind(value: t.Any) -> str:
    names = {
        dict: "a dictionary",
        list: "a list",
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "empty",
    }
    return names.get(type(value), type(value).__name__)


_WORD = re.compile(r"[A-Za-z_][\w-]{0,63}")


def _nearest(key: str, known: t.Sequence[str], written: t.Container[str]) -> str:
    """What an unknown key was meant for."""
    if key in FOREIGN:
        return FOREIGN[key]
    # What is written already is hardly what was meant.
    absent = [k for k in known if k not in written]
    near = difflib.get_close_matches(key, absent, 1, 0.6) or difflib.get_close_matches(key, known, 1, 0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}."


def is_text(item: t.Any) -> bool:
    """Whether an entry of a list is text, or a number in its place."""
    return not isinstance(item, (dict, list, bool)) and item is not None


class Reader:
    """Reads one key at a time; what does not fit becomes a finding that names the place, the value and what would fit."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def bad(self, place: str, value: t.Any, wanted: str, roles: t.Iterable[str] = ()) -> None:
        self.findings.error("bad-value", f"{place}: {told(value)} is not {wanted}.", f"Write {wanted}.", roles)

    def keys(
        self,
        where: str,
        mapping: t.Mapping[str, t.Any],
        known: t.Iterable[str],
        role: str = "",
        misplaced: t.Mapping[str, str] | None = None,
    ) -> None:
        """Keys that are not `known`. `misplaced` says of keys that exist elsewhere why they are none here."""
        known = list(known)
        roles = [role] if role else []
        for number, key in enumerate(mapping, 1):
            key = str(key)
            if key in known:
                continue
            if self._glued(where, key, number, mapping[key], roles):
                continue
            if misplaced and key in misplaced:
                self.findings.error("unknown-key", f"{where}.{key}: {misplaced[key]}", f"Remove {key} here.", roles)
            elif key in REFUSED:
                self.findings.error("refused-key", f"{where}.{key}: {REFUSED[key]}", f"Remove {key}.", roles)
            elif key == "replicas":
                self.findings.error(
                    "refused-key",
                    f"{where}.{key}: a group has no count of its own.",
                    "Set replicas on prefill and decode.",
                    roles,
                )
            elif key == "resources" and role in GPU_ROLES:
                self.findings.error(
                    "refused-key",
                    f"{where}.{key}: CPU and memory limits are for the router alone.",
                    "An engine takes whole GPUs: set gpus.",
                    roles,
                )
            else:
                self.findings.error(
                    "unknown-key", f"{where}.{key}: there is no such key.", _nearest(key, known, mapping), roles
                )

    def _glued(self, where: str, key: str, number: int, value: t.Any, roles: t.Sequence[str]) -> bool:
        """A key that YAML read with its value in it, since the space behind the colon is missing: the value may be a secret."""
        name, colon, _rest = key.partition(":")
        if not colon or value is not None:
            return False
        shown = name if _WORD.fullmatch(name) else f"key {number}"
        self.findings.error(
            "bad-value",
            f"{where}.{shown}: there is no space behind its colon, so that name and value are one key.",
            f"Write {shown if shown == name else 'NAME'}: value, with a space.",
            roles,
        )
        return True

    def whole(self, where: str, written: t.Any) -> None:
        """All that is written at a place: what nothing can be started with is told by its place alone."""
        for place, wrong in unfit(written, where):
            self.findings.error("bad-value", f"{place}: {wrong}.", "Remove it.")

    def text(self, where: str, mapping: t.Mapping[str, t.Any], key: str, required: str = "") -> str | None:
        value = mapping.get(key)
        blank = isinstance(value, str) and not value.strip()
        if blank and value and not required:
            self.findings.error("bad-value", f"{where}.{key}: it is blank.", f"Write {key}: ..., or leave it out.")
            return None
        if value is None or blank:
            if required:
                self.findings.error("missing-value", f"{where}.{key}: missing: {required}.", f"Write {key}: ...")
            return None
        if isinstance(value, (dict, list, bool)):
            self.bad(f"{where}.{key}", value, "text")
            return None
        return str(value)

    def choice(
        self, where: str, mapping: t.Mapping[str, t.Any], key: str, choices: tuple[str, ...], default: t.Any
    ) -> t.Any:
        value = mapping.get(key)
        if value is None:
            return default
        if value not in choices:
            near = difflib.get_close_matches(str(value), choices, 1, 0.5)
            self.findings.error(
                "bad-value",
                f"{where}.{key}: {repr(value) if near else told(value)} is not one of {', '.join(choices)}.",
                f"Did you mean {near[0]!r}?" if near else f"Write one of {', '.join(choices)}.",
            )
            return default
        return value

    def integer(
        self,
        where: str,
        mapping: t.Mapping[str, t.Any],
        key: str,
        default: int | None,
        minimum: int,
        role: str = "",
        maximum: int = MAX_COUNT,
    ) -> int | None:
        """A count; text such as "2" (from `-e`) is read as one."""
        value = mapping.get(key)
        if value is None or value == "":
            return default
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value.strip()):
            number = int(value)
        if number is None or not minimum <= number <= maximum:
            wanted = f"a whole number of at least {minimum}"
            if (number is not None and number > maximum) or (isinstance(value, str) and len(value) > 9):
                wanted = f"a whole number from {minimum} to {maximum}"
            self.bad(f"{where}.{key}", value, wanted, [role] if role else [])
            return default
        return number

    def mapping(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> dict[str, t.Any]:
        value = mapping.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            # The value is not repeated: it may be a secret, or hold one.
            self.findings.error(
                "bad-value", f"{where}.{key}: a dictionary belongs here, this is {kind(value)}.", "Write a dictionary."
            )
            return {}
        return value

    def pattern(self, where: str, mapping: t.Mapping[str, t.Any], key: str, role: str) -> str:
        """A host pattern, as text or as a list of patterns."""
        value = mapping.get(key)
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return ":".join(value)
        if value is None or isinstance(value, str):
            return value or ""
        self.bad(f"{where}.{key}", value, "a host pattern, as text or a list", [role])
        return ""

    def resources(self, where: str, mapping: t.Mapping[str, t.Any], role: str) -> dict[str, t.Any]:
        given = self.mapping(where, mapping, "resources")
        self.keys(f"{where}.resources", given, RESOURCES, role)
        for key, form in RESOURCES.items():
            value = given.get(key)
            if value is not None and (
                isinstance(value, bool) or not re.fullmatch(form, str(value)) or not str(value).strip("0.")
            ):
                self.bad(
                    f"{where}.resources.{key}", value, "an amount above zero, such as 2, or 2GiB for memory", [role]
                )
        return given

    def sequence(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> list[t.Any]:
        value = mapping.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.bad(f"{where}.{key}", value, "a list")
            return []
        return value

    def texts(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> list[str]:
        out = []
        for number, item in enumerate(self.sequence(where, mapping, key)):
            if not is_text(item):
                self.bad(f"{where}.{key}[{number}]", item, "text such as --flag=value")
            else:
                out.append(str(item))
                self.fits(f"{where}.{key}[{number}]", out[-1])
        return out

    def command(self, where: str, mapping: t.Mapping[str, t.Any]) -> tuple[str, ...] | None:
        value = mapping.get("command")
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                words = tuple(shlex.split(value))
            except ValueError:
                self.bad(f"{where}.command", value, "a command line whose quotes close")
                return None
        else:
            words = tuple(self.texts(where, {"command": value}, "command"))
            if not isinstance(value, list) or len(words) < len(value):
                return words  # what is wrong has been said
        if not words or not words[0].strip():
            self.findings.error(
                "bad-value",
                f"{where}.command: it names no program.",
                "Write the program first, or leave command out for the recipe's.",
            )
        return words

    def env(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> dict[str, str]:
        out = {}
        for name, value in self._variables(where, mapping, key):
            if isinstance(value, (dict, list)):
                # A secret's value must not be repeated in a message.
                self.findings.error(
                    "bad-value", f"{where}.{key}.{name}: the value is not text.", "Write text; JSON in quotes."
                )
            elif isinstance(value, bool):
                out[name] = "1" if value else "0"
            else:
                out[name] = "" if value is None else str(value)
                self.fits(f"{where}.{key}.{name}", f"{name}={out[name]}")
        return out

    def secrets(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> tuple[str, ...]:
        """The names of secrets. Of a value it is looked at whether it can be one; it is in no message."""
        found = []
        for name, value in self._variables(where, mapping, key):
            found.append(name)
            why = no_secret(value)
            if why:
                self.findings.error("bad-secret", f"{where}.{key}.{name}: {why}.", NO_SECRET)
            elif is_held(name):
                self.findings.error(
                    "bad-secret",
                    f"{where}.{key}.{name}: shells hold a variable of that name for themselves, so no secret can be handed on in it.",
                    "Give the secret the name of a variable that the engine reads.",
                )
            else:
                self.fits(f"{where}.{key}.{name}", f"{name}={value}")
        return tuple(sorted(found))

    def fits(self, place: str, word: str) -> None:
        """One word of a command line, or NAME=value: the kernel executes nothing with a longer one."""
        size = len(word.encode("utf-8", "surrogatepass"))
        if size > LONGEST:
            self.findings.error(
                "bad-value",
                f"{place}: {size} bytes are more than one argument or variable can have ({LONGEST}).",
                "Put it into a file on the hosts, and name that.",
            )

    def _variables(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> t.Iterator[tuple[str, t.Any]]:
        """The entries of a mapping whose names can be those of environment variables; the others are told."""
        place = f"{where}.{key}"
        for number, (name, value) in enumerate(self.mapping(where, mapping, key).items(), 1):
            name = str(name)
            if not self._glued(place, name, number, value, ()) and self._is_variable(place, name, number):
                yield name, value

    def _is_variable(self, place: str, name: str, number: int) -> bool:
        """What is no plain word may be a secret that a slip made a name: it is told by its position."""
        if VARIABLE.fullmatch(name):
            return True
        shown = repr(name) if _WORD.fullmatch(name) else f"the name of entry {number}"
        self.findings.error(
            "bad-value",
            f"{place}: {shown} is no name of an environment variable.",
            "Use letters, digits and underscores.",
        )
        return False
