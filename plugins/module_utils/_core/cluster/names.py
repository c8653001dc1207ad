# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words by which a cluster knows what is ours: names, labels, annotations."""

from __future__ import annotations

import re
import typing as t

DOMAIN = "inferops.pd"
MANAGER = "inferops.pd"
MANAGED_BY = "app.kubernetes.io/managed-by"
GROUP = f"{DOMAIN}/group"
MEMBER = f"{DOMAIN}/member"
NODE = f"{DOMAIN}/node"
ROLE = f"{DOMAIN}/role"
INDEX = f"{DOMAIN}/index"
REVISION = f"{DOMAIN}/revision"
GENERATION = f"{DOMAIN}/generation"
# Annotations. The label as JSON is the truth, the labels above are for people and for selectors.
LABEL = f"{DOMAIN}/label"
MANIFEST = f"{DOMAIN}/manifest"
# On the Pod of the router that clients may be sent to.
SERVING = f"{DOMAIN}/serving"
DRAINING = f"{DOMAIN}/draining"
START = f"{DOMAIN}/start"
FILE = f"{DOMAIN}/file-"
# On the Pod of an errand, its kind; on what holds its code, the digest. The order is an annotation.
ERRAND = f"{DOMAIN}/errand"
CODE = f"{DOMAIN}/code"
ORDER = f"{DOMAIN}/order"
# The object with the ports that routers may still name, of all groups.
HOLDS = "pd-holds"
# Ours, of the namespace: what every list asks for.
SELECTOR = f"{MANAGED_BY}={MANAGER}"
# A DNS-1123 subdomain, as names of objects are.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


def legal(name: str) -> bool:
    """Whether an object may have this name."""
    return len(name) <= _LONGEST and bool(_NAME.fullmatch(name))


def of_member(member: str) -> str:
    """The name of a member's Pod. A group that stands twice has an underscore in the name of one of its stands (facts/stands.py), which no
    name of an object may have."""
    return member.replace("_", "--")


def of_group(group: str) -> str:
    """The name of a group's record and lock."""
    return f"pd-{of_member(group)}"


def of_copy(group: str) -> str:
    """The name of the copy of a group's record: none of a group's, which have no dot after pd."""
    return f"pd.{of_member(group)}"


def of_service(group: str) -> str:
    """The name by which clients in the cluster find a group, whichever of its stands serves: a DNS-1035 label, which has no dots."""
    return of_group(group).replace(".", "-")


def of_secrets(group: str, generation: int, role: str) -> str:
    """The name of what the members of a role need secret in a generation."""
    return f"{of_group(group)}-{generation}-{role}"


def of_errand(token: str) -> str:
    """The name of an errand's Pod, and of what it is given secret."""
    return f"pd-errand-{token}"


def of_code(digest: str) -> str:
    """The name of what holds the errands' code."""
    return f"pd-code-{digest}"


def labels(group: str, **more: t.Any) -> dict[str, str]:
    """The labels of an object of a group, or of none."""
    mine = {GROUP: group} if group else {}
    return {MANAGED_BY: MANAGER, **mine, **{key: str(value) for key, value in more.items()}}
