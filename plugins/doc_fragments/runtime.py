# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host runs members: the options that its modules share, said once. A test holds those of runtimes equal to their table."""

from __future__ import annotations


class ModuleDocFragment:
    # Linters read it without running anything: it cannot be made of the table.
    DOCUMENTATION = r"""
options:
  runtime_options:
    description:
      - Options of runtimes, a dictionary of options for each runtime. The action plugin takes those that are left out from the
        host variables.
      - "C(docker.host), the host variable C(pd_docker_host): Where the container engine listens, for example
        C(unix:///run/podman/podman.sock). The default is E(DOCKER_HOST), then C(unix:///var/run/docker.sock)."
      - "C(systemd.scope), the host variable C(pd_scope): Whose units members are; the default is V(system), which needs root. V(user) are
        those of the user that Ansible is there, who must linger."
      - "C(supervisor.supervisord), the host variable C(pd_supervisord): The path of C(supervisord). The default is the one beside the
        Python that Ansible uses there, then the one on C(PATH)."
    type: dict
  state_dir:
    description:
      - Where the collection keeps labels and records. The host variable C(pd_state_dir).
      - The default is C(/var/lib/inferops-pd) for root, C(~/.local/state/inferops-pd) for others.
    type: path
"""

    # Of modules that work on a host or in the cluster that it stands for.
    CLUSTER = r"""
options:
  cluster:
    description:
      - How the cluster is reached that the host stands for, and what the inventory says of its nodes, as JSON text. Then all is done in
        that cluster, and nothing on the host.
      - Filled in by the action plugin, from C(pd_cluster) and C(pd_nodes).
    type: str
"""
