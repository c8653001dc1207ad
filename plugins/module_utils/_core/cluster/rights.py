# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that runs need in a cluster: the one table that is printed as a Role, compared with what somebody has, and told in
docs/kubernetes.md."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import json_text
from ..base.plain import Plain

NAME = "inferops-pd"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Right:
    """Verbs on a resource of an API group; `cluster`: over all namespaces, or on what is in none. `without` is what a run goes without
    where it is missing; empty for what is needed."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    cluster: bool = False
    without: str = ""

    def told(self, verb: str) -> str:
        return f"{verb} {self.resource}{f'.{self.group}' if self.group else ''}"


RIGHTS = (
    Right("", "pods", ("get", "list", "create", "delete", "patch")),
    Right("", "pods/log", ("get",)),
    Right("", "configmaps", ("get", "list", "create", "update", "patch", "delete")),
    Right("", "services", ("get", "list", "create", "patch", "delete")),
    # Written and taken away, and never read.
    Right("", "secrets", ("create", "update", "deletecollection")),
    Right("coordination.k8s.io", "leases", ("get", "list", "create", "update", "delete")),
    Right(
        "", "events", ("list",), without="that a folder of a node is not there is told by its errand's deadline alone"
    ),
    Right("", "nodes", ("list",), cluster=True),
    Right("", "pods", ("list",), cluster=True, without="which GPUs Pods of other namespaces hold is not known"),
)


def missing(rules: t.Iterable[Plain]) -> list[str]:
    """What is needed and not given by the rules that a SelfSubjectRulesReview has for the namespace (`resourceRules`), each as "verb
    resource". What is for the whole cluster stands among them; an optional right is not looked for."""
    given = list(rules)
    return [
        right.told(verb)
        for right in RIGHTS
        if not right.without
        for verb in right.verbs
        if not any(_gives(rule, right, verb) for rule in given)
    ]


def _gives(rule: Plain, right: Right, verb: str) -> bool:
    if rule.get("resourceNames"):
        # Of some objects alone: not of those that are to come.
        return False

    def has(key: str, value: str) -> bool:
        said = json_text.texts(rule.get(key))
        return value in said or "*" in said

    part = right.resource.partition("/")[2]
    resource = has("resources", right.resource) or (
        bool(part) and f"*/{part}" in json_text.texts(rule.get("resources"))
    )
    return has("apiGroups", right.group) and resource and has("verbs", verb)


def objects(namespace: str) -> list[dict[str, t.Any]]:
    """What an administrator applies once: an account, and the rights for it."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    # Of two namespaces the one's runs have no part in the other's binding.
    wide = f"{NAME}-{namespace}"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": namespace},
            "rules": [_rule(one) for one in RIGHTS if not one.cluster],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME, "namespace": namespace},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": NAME},
            "subjects": [subject],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": wide},
            "rules": [_rule(one) for one in RIGHTS if one.cluster],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": wide},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": wide},
            "subjects": [subject],
        },
    ]


def _rule(right: Right) -> dict[str, t.Any]:
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
