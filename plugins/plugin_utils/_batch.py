# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run can be one at all: on this Ansible, over all of its hosts and not a batch or a slice of them, no task before the last has
ended on all, and with no variable that nothing reads or that nobody has evaluated."""

from __future__ import annotations

import typing as t

from ansible.release import __version__

from ..module_utils._core.base import braces
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.version import below
from ..module_utils._core.spec.variables import KNOWN, unknown

if t.TYPE_CHECKING:
    from ansible.playbook.task import Task


def check_batch(task: Task, variables: t.Mapping[str, t.Any]) -> None:
    """Raise PdError for a play with `serial`, or with a strategy under which hosts do not wait for each other. Where it goes: first thing
    in `act` of whatever a play can begin with, check_batch(self._task, self.task_vars)."""
    _check_ansible(__version__)
    _check_slice(variables)
    strategy = str(getattr(task.get_play(), "strategy", None) or "linear")
    if not _waits(strategy):
        raise PdError(
            f"The play's strategy is {strategy}: its hosts would not wait for each other, and members of the next formation could start"
            " before those of the last have stopped. Write strategy: linear in the play; it wins over ANSIBLE_STRATEGY and ansible.cfg."
        )
    # Without the hosts that have failed before: they are in no batch any more.
    living = list(variables.get("ansible_play_hosts") or ())
    batch = set(variables.get("ansible_play_batch") or ())
    left_out = [host for host in living if host not in batch]
    if left_out:
        told = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else "")
        raise PdError(
            f"The play goes through its hosts in batches (serial): {len(batch)} of {len(living)} hosts are in this one, without {told}."
            " A group is planned over all of its hosts at once, and would be formed once for each batch. Remove serial from the play;"
            " --limit, or -e pd_group=NAME, is how to work on a part."
        )


# The oldest Ansible that meta/runtime.yml promises. Ansible itself only warns.
OLDEST = ">=2.16.0"


def _check_ansible(version: str) -> None:
    """Raise PdError for an Ansible that nothing of this has been tried on: AWX's own execution environment may have one."""
    if below(version, OLDEST):
        raise PdError(
            f"This is ansible-core {version}, and the collection needs {OLDEST[2:]} or newer. Install it on the controller; in AWX, give"
            " the job template an execution environment that has it (its default one may not)."
        )


# What AWX names its own variables by.
_PREFIXES = ("awx", "tower")


def _check_slice(variables: t.Mapping[str, t.Any]) -> None:
    """Raise PdError for a slice of a job of AWX, whose inventory has a part of the hosts of each group. Nothing says so but that AWX makes
    a workflow of a job with slices, and gives it the name of the job's template."""
    for prefix in _PREFIXES:
        template = variables.get(f"{prefix}_job_template_name")
        if template and template == variables.get(f"{prefix}_workflow_job_name"):
            raise PdError(
                f"This job is one slice of {str(template)!r}: AWX gives each slice a part of the hosts, and every group would be planned"
                " once for each, on the hosts that it has. Set Job slicing of the template to 1. (From inside, a workflow"
                " that has the name of its job template looks the same: give one of them another name.)"
            )


# Those that hold entries of users: each is looked at when it is read, for those of the run alone.
_ENTRIES = ("pd_groups", "pd_caches", "pd_rollouts", "pd_endpoint_hooks")


def check_variables(task: Task, variable: t.Callable[[str], t.Any]) -> None:
    """Raise PdError for a variable of the command line (`-e`, or a job's own) that nothing reads: -e pd_gruop=NAME would work on every
    group; and for one whose braces nobody has evaluated. Names in an inventory may be anybody's, and are warned of (spec/variables.py).
    `variable` reads a variable of the play."""
    manager = task.get_variable_manager()
    given = manager.extra_vars if manager else {}
    told = unknown(given)
    read = [name for name in sorted(given) if name in KNOWN and not name.startswith(_ENTRIES)]
    left = [braces.told(*found) for name in read for found in braces.places(variable(name), name)]
    if told or left:
        raise PdError(" ".join([*told, *left, *([braces.WAY_OUT] if left else [])]))


def _waits(strategy: str) -> bool:
    """Whether it is linear, or a descendant by name: debug is linear with a prompt, mitogen_linear is linear with another transport."""
    name = strategy.rpartition(".")[2]
    return name in ("linear", "debug") or name.endswith("_linear")
