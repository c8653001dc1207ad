"""Small makers of what the core works with: specs, hosts' facts, and fleets that carry a plan out in memory.

A test says what is special about its case and nothing else:

    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2})
    made = fleet.plan(spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"}))
    fleet.apply(made)
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import os
import typing as t
from dataclasses import dataclass

import memory
import yaml

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Finding, Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import record as records
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.cordon import Cordon
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.stands import name_of
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import plan
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hooks import NOTHING as NOT_WIRED
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.reserved import Reserved
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request, Run
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.source import FromRecord
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.mode import Mode, from_plain
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import workload
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.spec import parse
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes, read_mode

UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unit")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

GROUP = "demo"
MODEL = "/models/m"
ENGINE = "/opt/vllm/bin/vllm"
ROUTER = "/opt/vllm/bin/vllm-router"
ENGINE_ROLES = ("prefill", "decode")
# The identity of a run for tests that have but one.
RUN = Run("formation-0", "run-0", 1000.0, "test@here")

# -- specs ------------------------------------------------------------------------------------------------------------


def spec(**changes: t.Any) -> dict[str, t.Any]:
    """A spec without findings, changed: `engine`, `prefill`, `decode` and `router` are merged key by key, other words
    are keys of the group. A key that is given as `...` is left out."""
    made: dict[str, t.Any] = {
        "mode": "vllm-nixl",
        "model": MODEL,
        "runtime": "supervisor",
        "engine": {"executable": ENGINE, "args": ["--max-model-len=32768"]},
        "roles": {
            "prefill": {"hosts": "h1"},
            "decode": {"hosts": "h1"},
            "router": {"hosts": "h1", "port": 8000, "executable": ROUTER},
        },
    }
    for key, change in changes.items():
        within = made if key == "engine" else made["roles"] if key in made["roles"] else None
        if within is None:
            _put(made, key, change)
        elif isinstance(change, dict):
            for inner, value in change.items():
                _put(within[key], inner, value)
        else:
            _put(within, key, change)
    usual = ["--max-model-len=32768"]
    if str(made["mode"]).startswith("sglang") and made["engine"].get("args") == usual:
        made["engine"]["args"] = ["--context-length=32768"]
    return made


def _put(mapping: dict[str, t.Any], key: str, value: t.Any) -> None:
    if value is ...:
        mapping.pop(key, None)
    else:
        mapping[key] = value


# -- modes ------------------------------------------------------------------------------------------------------------


def catalogue(*more: Mode) -> validate.Catalogue:
    return validate.Catalogue({**load_modes(), **{mode.name: mode for mode in more}}, registry.by_backend)


@functools.lru_cache(maxsize=1)
def _nixl_text() -> dict[str, t.Any]:
    return read_mode(os.path.join(ROOT, "pd_modes", "vllm-nixl.yml"))


def nixl_mode() -> dict[str, t.Any]:
    """The content of pd_modes/vllm-nixl.yml, to change, its router and providers in it."""
    return copy.deepcopy(_nixl_text())


def mode(name: str, **changes: t.Any) -> Mode:
    """A mode like vllm-nixl but for some keys."""
    return from_plain({**nixl_mode(), "name": name, **changes}, f"{name}.yml")


# -- verdicts ---------------------------------------------------------------------------------------------------------


def judge(raw: t.Any, *modes: Mode, name: str = GROUP) -> validate.Verdict:
    return validate.validate(name, raw, catalogue(*modes))


def codes(findings: Findings | t.Iterable[Finding]) -> list[str]:
    items = findings.items if isinstance(findings, Findings) else findings
    return sorted(finding.code for finding in items)


def only(findings: Findings | t.Iterable[Finding], code: str) -> Finding:
    """The one finding of that code."""
    items = findings.items if isinstance(findings, Findings) else list(findings)
    found = [finding for finding in items if finding.code == code]
    assert len(found) == 1, f"{code}: {[(f.code, f.message) for f in items]}"
    return found[0]


def revision(raw: t.Any, *modes: Mode) -> str:
    verdict = judge(raw, *modes)
    assert verdict.template is not None, verdict.findings.to_plain()
    return verdict.template.revision


# -- hosts ------------------------------------------------------------------------------------------------------------


def host_facts(number: int = 1, **changes: t.Any) -> dict[str, t.Any]:
    """`pd_host` of a host that has all it needs. `gpus` is a count, `ports` a range, `used` {port: command}."""
    address = changes.pop("address", f"10.0.0.{number}")
    kv = {"names": ["eth1"], "address": f"10.1.0.{number}", "rdma_devices": []}
    gpus = changes.pop("gpus", 0)
    vendor = changes.pop("vendor", "nvidia")
    facts: dict[str, t.Any] = {
        "address": address,
        "kv_interface": changes.pop("kv_interface", kv),
        "gpus": [{"id": f"GPU-{number}-{i}", "model": "H100", "vendor": vendor} for i in range(gpus)],
        "ports": {
            "range": changes.pop("ports", "40000-40063"),
            "used": [
                {"port": port, "command": command, "pid": 4000 + port % 1000}
                for port, command in changes.pop("used", {}).items()
            ],
        },
        "members": [],
        "records": {},
        "locks": {},
        "holds": [],
        "damaged": [],
        "machine": {"id": f"machine-{number}", "boot": f"boot-{number}", "netns": "net:[1]"},
        "state": {"dir": "/var/lib/inferops-pd", "id": f"state-{number}", "place": f"8:1/{number}"},
        "models": {MODEL: {"exists": True, "fingerprint": "abc123"}},
        "executables": {
            ENGINE: {"exists": True, "version": "0.32.0"},
            ROUTER: {"exists": True, "version": "0.1.17"},
        },
        "runtimes": {"supervisor": {"available": True}, "docker": {"available": True}, "systemd": {"available": True}},
    }
    facts.update(changes)
    return facts


@dataclass
class Made:
    """A plan with what was said about it."""

    plan: dict[str, t.Any]
    findings: Findings
    verdict: validate.Verdict | None

    @property
    def value(self) -> Plan:
        return Plan.from_plain(self.plan)

    @property
    def members(self) -> dict[str, dict[str, t.Any]]:
        return {member["id"]: member for member in self.plan["members"]}

    @property
    def router(self) -> dict[str, t.Any]:
        return self.plan["router"]

    @property
    def codes(self) -> list[str]:
        return codes(self.findings)

    @property
    def errors(self) -> list[str]:
        return codes(self.findings.errors)

    @property
    def text(self) -> str:
        """The diff as a person reads it; empty when there is none."""
        return "".join(part["prepared"] for part in self.plan["diff"])

    def steps(self, do: str | None = None) -> list[tuple[str, str, str | None]]:
        """(phase, do, member) of the steps, in order."""
        return [(s["phase"], s["do"], s["member"]) for s in self.plan["steps"] if do in (None, s["do"])]

    def who(self, do: str) -> list[str]:
        """Members that one thing is done to, in alphabetical order."""
        return sorted(str(member) for _phase, _do, member in self.steps(do))

    def part(self, member: str) -> dict[str, t.Any]:
        return self.members[member]["parts"][0]

    def places(self) -> dict[str, tuple[str, int, dict[str, t.Any], list[str]]]:
        """Where every member is: host, port, bands, GPUs."""
        parts = {name: member["parts"][0] for name, member in self.members.items()}
        return {name: (p["host"], p["port"], p["ports"], p["gpus"]) for name, p in parts.items()}


_JUDGED: dict[tuple[str, str], validate.Verdict] = {}


class Fleet:
    """Hosts by name, with their facts. `apply` does in memory what a run does to them, so that the next plan sees it."""

    def __init__(self, *, name: str = GROUP, modes: t.Sequence[Mode] = (), **hosts: dict[str, t.Any]) -> None:
        self.name = name
        self.modes = tuple(modes)
        self.facts = {host: host_facts(number, **dict(facts)) for number, (host, facts) in enumerate(hosts.items(), 1)}
        self.silent: set[str] = set()
        self.runs = 0

    # -- looking --

    def hosts(self) -> dict[str, observed.Host]:
        """What an observation of the hosts that answer gives."""
        seen = {}
        for name, facts in self.facts.items():
            if name not in self.silent:
                seen[name] = observed.read_host(name, memory.told(facts))
        return seen

    def run(self) -> Run:
        """The identity of one run: each has another, and the same fleet has the same."""
        self.runs += 1
        return Run(f"formation-{self.runs}", f"run-{self.runs}", 1000.0 + self.runs, "test@here")

    def plan(self, raw: t.Any, action: t.Any = "deploy", name: str | None = None, **more: t.Any) -> Made:
        if action == "remove":
            return self.removal(name, **more)
        if action == "heal" or more.get("to", "spec") != "spec":
            return self.from_record(raw, action, name, **more)
        stand = name or self.name
        verdict = self._judged(raw, name_of(stand))
        assert verdict.group is not None, verdict.findings.to_plain()
        assert verdict.template is not None, verdict.findings.to_plain()
        patterns = more.pop("patterns", None) or {
            role.name: [h for h in role.hosts.split(":") if h in self.facts] for role in verdict.group.roles.values()
        }
        gone = {*more.get("lost", ()), *more.get("away", ())}
        named = {host for names in patterns.values() for host in names}
        hosts = {host: facts for host, facts in self.hosts().items() if host not in more.get("away", ())}
        alias = more.pop("alias", None)
        if alias:
            hosts[f"{alias}-too"] = observed.read_host(f"{alias}-too", memory.told(self.facts[alias]))
        silent = sorted(named - set(hosts) - gone)
        run = more.pop("run", None) or self.run()
        asked = {
            key: more.pop(key)
            for key in ("counts", "allow_scale_down", "evacuated", "release", "wired", "beside")
            if key in more
        }
        more.pop("to", None)
        for host in set(asked.get("evacuated", ())) & set(hosts):
            hosts[host] = hosts[host].under(Cordon("test@here", 1000.0, "evacuated"))
        if "reserved" in more:
            more["reserved"] = Reserved.of(map(Plan.from_plain, more["reserved"]))
        reality = Reality(Hosts(hosts), run, silent, **more)
        asked["catalogue"] = catalogue(*self.modes)
        group = dataclasses.replace(verdict.group, stands_as=stand)
        request = Request(group, verdict.template, patterns, action, reality, **asked)
        return Made(plan.make(request, verdict.findings).to_plain(), verdict.findings, verdict)

    def _judged(self, raw: t.Any, name: str) -> validate.Verdict:
        """The verdict on a spec, made once for each: histories plan the same few thousands of times."""
        key = (name, json.dumps(raw, sort_keys=True, default=str))
        if self.modes or key not in _JUDGED:
            made = judge(raw, *self.modes, name=name)
            if self.modes:
                return made
            _JUDGED[key] = made
        known = _JUDGED[key]
        return dataclasses.replace(known, findings=Findings(list(known.findings.items)))

    def from_record(
        self, raw: t.Any, action: t.Any = "heal", name: str | None = None, to: t.Any = "applied", **more: t.Any
    ) -> Made:
        """The plan that is made of what the record keeps; `raw` is the spec as it is now, None for one that there is none of any more."""
        name, findings = name or self.name, Findings()
        more.pop("alias", None)
        group = parse(name_of(name), raw, Findings()) if raw is not None else None
        roles = group.roles.values() if group else ()
        patterns = {role.name: [h for h in role.hosts.split(":") if h in self.facts] for role in roles}
        hosts = {host: facts for host, facts in self.hosts().items() if host not in more.get("away", ())}
        gone = {*more.get("lost", ()), *more.get("away", ())}
        silent = sorted({host for names in patterns.values() for host in names} - set(hosts) - gone)
        if "reserved" in more:
            more["reserved"] = Reserved.of(map(Plan.from_plain, more["reserved"]))
        cat, release = more.pop("catalogue", None) or catalogue(*self.modes), more.pop("release", False)
        wired, beside = more.pop("wired", NOT_WIRED), more.pop("beside", None)
        reality = Reality(Hosts(hosts), more.pop("run", None) or self.run(), silent, **more)
        asked = FromRecord(name, action, to, patterns, reality, cat, group, release, wired, beside)
        return Made(plan.from_record(asked, findings).to_plain(), findings, None)

    def removal(
        self, name: str | None = None, lost: t.Sequence[str] = (), away: t.Sequence[str] = (), **more: t.Any
    ) -> Made:
        """The plan that takes a group down, of which the inventory may know nothing any more."""
        findings = Findings()
        silent = sorted(self.silent - {*lost, *away})
        hosts = {host: facts for host, facts in self.hosts().items() if host not in away}
        run = more.pop("run", None) or self.run()
        wired, beside = more.pop("wired", NOT_WIRED), more.pop("beside", None)
        reality = Reality(Hosts(hosts), run, silent, lost, away, **more)
        return Made(
            plan.removal(plan.Removal(name or self.name, reality, wired=wired, beside=beside), findings).to_plain(),
            findings,
            None,
        )

    def newest(self, name: str | None = None) -> dict[str, t.Any]:
        """The record that holds, of those on all hosts, reachable or not; empty where there is none."""
        name = name or self.name
        found = [
            records.read(facts["records"][name], "a record", host)
            for host, facts in self.facts.items()
            if name in facts["records"]
        ]
        best = records.newest(found)
        return dict(best.plain) if best else {}

    def of(self, name: str) -> Fleet:
        """The same hosts, asked of another group."""
        other = copy.copy(self)
        other.name = name
        return other

    def status(self, raw: t.Any = None) -> dict[str, t.Any]:
        silent = sorted(self.silent)
        if raw is None:
            return status.of(status.Subject(workload.GROUP, self.name), self.hosts(), silent)
        verdict = judge(raw, *self.modes, name=self.name)
        judged = verdict.group, verdict.template, verdict.findings.items
        return status.of(status.Subject(workload.GROUP, self.name, *judged), self.hosts(), silent)

    # -- doing --

    def apply(self, made: Made) -> Made:
        """Carry the plan out, with the code that does it on real hosts."""
        self.carried = self.carry_out(made)
        return made

    def carry_out(self, made: Made, **how: t.Any) -> bool:
        """The same; whether the run ended well."""
        hosts = memory.Hosts(self.facts, silent=lambda host: host in self.silent, **how)
        done = memory.carry_out(made.plan, hosts)
        self.said = hosts.said
        return done

    def deploy(self, raw: t.Any, **more: t.Any) -> Made:
        """Plan and apply; an error in the plan fails the test."""
        made = self.plan(raw, **more)
        assert not made.errors, made.findings.to_plain()
        return self.apply(made)

    def _live(self, member: str) -> list[dict[str, t.Any]]:
        return [m for facts in self.facts.values() for m in facts["members"] if m["label"]["member"] == member]

    def live(self, member: str) -> dict[str, t.Any]:
        """What the hosts say of one member, to change."""
        (found,) = self._live(member)
        return found

    def kill(self, *members: str) -> None:
        for member in members:
            self.live(member).update(state="exited", ready=False, why="exit code 137")

    def forget(self, member: str) -> None:
        """As if the member and its label had never been on its host."""
        for facts in self.facts.values():
            facts["members"] = [m for m in facts["members"] if m["label"]["member"] != member]


def as_not_rendered(fleet: Fleet) -> Fleet:
    """Records as they were before they kept how a formation was rendered: what a pending group lost waits for its restart."""
    for facts in fleet.facts.values():
        for noted in facts["records"].values():
            noted.pop("applied", None)
            noted.pop("previous", None)
    return fleet


def as_of_an_earlier_version(fleet: Fleet) -> None:
    """Labels and records as 22a08ae wrote them."""
    for facts in fleet.facts.values():
        for member in facts["members"]:
            for key in ("schema", "formation", "run"):
                member["label"].pop(key, None)
            member["formation"] = None
        for noted in facts["records"].values():
            noted["schema"] = 1
            for key in ("formation", "supersedes", "formed", "adopted", "machines", "tombstones"):
                noted.pop(key)


# -- case tables ------------------------------------------------------------------------------------------------------


def cases(family: str) -> list[t.Any]:
    """The rows of tests/unit/cases/<family>.yml as parameters of a test. A row with `todo` is one that the core does
    not do yet: its test is expected to fail, and fails the run once it passes, so that the word is removed."""
    import pytest

    with open(os.path.join(UNIT, "cases", f"{family}.yml"), encoding="utf-8") as handle:
        rows = yaml.safe_load(handle)
    return [
        pytest.param(row, id=row["name"], marks=[pytest.mark.xfail(reason=row["todo"])] if "todo" in row else [])
        for row in rows
    ]


def spec_of(row: t.Mapping[str, t.Any]) -> t.Any:
    """The spec of a row: `spec` as it stands, else the usual one with the row's `group`, `engine` and roles merged in.
    Paths in `without` are left out."""
    if "spec" in row:
        return row["spec"]
    made = spec(**row.get("group", {}), **{key: row[key] for key in ("engine", *ENGINE_ROLES, "router") if key in row})
    for path in row.get("without", ()):
        *parents, last = path.split(".")
        within = made
        for key in parents:
            within = within[key]
        within.pop(last)
    return made


def check_findings(found: t.Sequence[Finding], expected: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """`found` are exactly the findings of a row: `code`, and where given `severity`, `roles`, `host` and `factor`; each
    text of `says` stands in the message or the hint, none of `never`."""
    told = "\n".join(f"{f.severity} {f.code}: {f.message} | {f.hint}" for f in found)
    assert sorted(f.code for f in found) == sorted(e["code"] for e in expected), told or "nothing found"
    rest = list(found)
    for want in expected:
        fits = [f for f in rest if _fits(f, want)]
        assert fits, f"none is {want}:\n{told}"
        rest.remove(fits[0])


def _fits(finding: Finding, want: t.Mapping[str, t.Any]) -> bool:
    says = want.get("says", ())
    says = [says] if isinstance(says, str) else says
    whole = f"{finding.message} {finding.hint}"
    facts = {"code": finding.code, "severity": finding.severity, "roles": list(finding.roles), "factor": finding.factor}
    never = want.get("never", ())
    if any(text in whole for text in ([never] if isinstance(never, str) else never)):
        return False
    return all(facts[key] == want[key] for key in facts if key in want) and all(str(text) in whole for text in says)
