#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: port_reservation
short_description: Keep members' ports from outgoing connections
version_added: 0.2.0
description:
  - Adds a range to what the kernel reserves (C(net.ipv4.ip_local_reserved_ports), for IPv6 as well), and keeps it over a boot.
  - A port of the kernel's range for clients can be taken by any outgoing connection while a member restarts, which then does not come up.
  - What is reserved already stays. With O(state=absent) the range is given back, where no member of the collection is left on the host and
    nobody else reserves it. Who asks for a port by its number gets it as before.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.platform
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  ports:
    description: The range, the host variable C(pd_port_range).
    type: str
    default: 40000-40063
  state:
    description: Whether the range is reserved.
    type: str
    choices: [present, absent]
    default: present
  state_dir:
    description: Where the members of the host are kept, the host variable C(pd_state_dir). Only with O(state=absent).
    type: path
  file:
    description: Where it is kept over a boot. With an empty text it is not.
    type: str
    default: /etc/sysctl.d/60-inferops-pd.conf
seealso:
  - module: inferops.pd.host_facts
"""

EXAMPLES = r"""
- name: Keep the members' ports from outgoing connections
  inferops.pd.port_reservation:
    ports: "{{ pd_port_range | default(omit) }}"
  become: true

- name: Give them back, where no member is left
  inferops.pd.port_reservation:
    ports: "{{ pd_port_range | default(omit) }}"
    state: absent
    state_dir: "{{ pd_state_dir | default(omit) }}"
  become: true
"""

RETURN = r"""
reserved:
  description: All that is reserved now, or would be.
  returned: always
  type: str
  sample: 30000,40000-40063
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.facts.observed import parse_range
from ..module_utils._probes import sysctl
from ..module_utils._runtimes.state import State


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "str", "default": "40000-40063"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "state_dir": {"type": "path"},
            "file": {"type": "str", "default": "/etc/sysctl.d/60-inferops-pd.conf"},
        },
        supports_check_mode=True,
    )
    try:
        span = parse_range(module.params["ports"], "pd_port_range")
        if module.params["state"] == "absent":
            end(module, span)
        changes = reserve(span, module.params["file"], module.check_mode)
    except PdError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(
            msg=f"Reserving ports {module.params['ports']} failed: {exc.filename}: {exc.strerror}. It needs root on the host"
            " (become: true), and in a container a writable /proc/sys/net; or set pd_port_range below the kernel's range for clients."
        )
    module.exit_json(**changes)


def end(module: AnsibleModule, span: tuple[int, int]) -> t.NoReturn:
    """Give the span back. What keeps it from being given back is told, and harms nobody."""
    file, changes = module.params["file"], {"changed": False, "reserved": ""}
    try:
        state = State(module.params["state_dir"])
        if file and os.path.exists(file) and not (state.labels() or state.records() or state.damaged()):
            changes = give_back(span, file, module.check_mode)
    except (PdError, OSError) as exc:
        module.warn(
            f"Ports {module.params['ports']} stay reserved ({exc}). Delete {file} as root; the kernel forgets them at the next boot."
        )
    module.exit_json(**changes)


def reserve(span: tuple[int, int], file: str, dry: bool, proc: str = "/proc") -> dict[str, object]:
    """Reserve a span in the kernel, and in a file; what changed. Raises OSError."""
    with open(sysctl.path(proc), encoding="ascii") as stream:
        now = sysctl.merge(sysctl.parse(stream.read()))
    kept = sysctl.saved(file) if file else None
    wanted = sysctl.merge(now, [span])
    before = {sysctl.NAME: sysctl.text_of(now)}
    after = {sysctl.NAME: sysctl.text_of(wanted)}
    if file:
        before[file] = after[file] = sysctl.text_of(kept or [])
        # The kernel takes the last file's value alone, so this one repeats what others reserve. Where somebody else's has the range
        # already, none of ours is needed.
        if not sysctl.covers(kept or [], span) and not (kept is None and sysctl.covers(now, span)):
            after[file] = sysctl.text_of(sysctl.merge(kept or [], wanted))
    if not dry:
        if before[sysctl.NAME] != after[sysctl.NAME]:
            sysctl.write_kernel(wanted, proc)
        if file and before[file] != after[file]:
            sysctl.write_file(file, sysctl.parse(after[file]))
    diff = {"before": _lines(before), "after": _lines(after)}
    return {"changed": before != after, "reserved": after[sysctl.NAME], "diff": diff}


def give_back(
    span: tuple[int, int],
    file: str,
    dry: bool,
    proc: str = "/proc",
    folders: t.Sequence[str] = sysctl.FOLDERS,
) -> dict[str, object]:
    """End the reservation of a span that this module's own file keeps; what changed. What somebody else's file reserves stays, as does what
    the kernel has beside the span. Raises OSError."""
    with open(sysctl.path(proc), encoding="ascii") as stream:
        now = sysctl.merge(sysctl.parse(stream.read()))
    wanted = sysctl.merge(sysctl.without(now, span), sysctl.elsewhere(file, folders))
    before = {sysctl.NAME: sysctl.text_of(now), file: sysctl.text_of(sysctl.saved(file) or [])}
    after = {sysctl.NAME: sysctl.text_of(wanted), file: ""}
    if not dry:
        sysctl.write_kernel(wanted, proc)
        os.unlink(file)
    return {"changed": True, "reserved": after[sysctl.NAME], "diff": {"before": _lines(before), "after": _lines(after)}}


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())


if __name__ == "__main__":
    main()
