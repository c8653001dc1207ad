# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of host_facts: adds how the host runs members, which its variables say."""

from __future__ import annotations

import shlex
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.cluster.inventory import CLUSTER
from ..plugin_utils._action import PdAction, given
from ..plugin_utils._answers import ASK, OWN, complaint, version_in
from ..plugin_utils._plain import to_plain
from ..plugin_utils.locking import living


class ActionModule(PdAction):
    """As Ansible runs any module, but for the options of runtimes, and for what is said where it does not run: the module itself checks its
    arguments."""

    _requires_connection = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = ActionBase.run(self, tmp, task_vars)
        self.task_vars, self.args = task_vars or {}, given(self._task.args)
        try:
            said = self._look_at(self.cluster())
        except PdError as exc:
            said = {"failed": True, "msg": str(exc)}
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as exc:
            # Raised where a user cannot be become: failed_when is not asked then, and the host would look as if it had said nothing.
            said = {"failed": True, "msg": str(exc)}
        if said.get("failed") and not said.get("unreachable"):
            of_cluster = self.task_vars.get(CLUSTER) is not None
            told = {"complaint": f"could not be looked at: {str(said.get('msg')).rstrip('.')}", "way_out": ""}
            said = {**said, **(told if of_cluster else self._complained(said))}
        return t.cast("dict[str, t.Any]", merge_hash(result, said))

    def _look_at(self, cluster: str | None) -> dict[str, t.Any]:
        """What the host says of itself, or of the cluster that it stands for: then its options are none of a host."""
        options = self.runtime_options().get("runtime_options") or {}
        pods = to_plain(self.args.get("pods")) or {}
        own = {key: value for key, value in self.args.items() if key != "pods"}
        module, arguments = None, {**own, "runtime_options": options, "controller": living()}
        if cluster:
            looked_for = {key: to_plain(self.args.get(key)) for key in ("images", "models", "interface_plane")}
            look = {**looked_for, **pods} if pods and looked_for["images"] else None
            arguments = {"cluster": cluster, "groups": self.args.get("groups"), **({"look": look} if look else {})}
            module = "inferops.pd.cluster_facts"
        said: dict[str, t.Any] = self._execute_module(
            module_name=module, module_args=arguments, task_vars=self.task_vars, wrap_async=self._task.async_val
        )
        return said

    def _complained(self, said: t.Mapping[str, t.Any]) -> dict[str, str]:
        """Why a host that answers has no facts, in words that follow its name, and the way out."""
        facts = self.task_vars.get("ansible_facts") or {}
        python = str(
            self.variable("ansible_python_interpreter")
            or facts.get("discovered_interpreter_python")
            or self.task_vars.get("discovered_interpreter_python")
            or "python3"
        )
        version = None
        # What the module itself says needs no other reason.
        if not str(said.get("msg") or "").startswith(OWN):
            version = version_in(self._output(f"{python} -c {shlex.quote(ASK)}"))
        found = complaint(said, python, version)
        return {"msg": str(said.get("msg") or found.said), "complaint": found.said, "way_out": found.way_out}

    def _output(self, command: str) -> str:
        """What a command prints there, as the user who logs in: becoming another one may be what fails."""
        try:
            return str(self._low_level_execute_command(command, sudoable=False).get("stdout") or "")
        except AnsibleError:
            return ""
