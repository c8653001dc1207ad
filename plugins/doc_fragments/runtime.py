# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host runs members: the options that its modules share, said once."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  supervisord:
    description:
      - The path of C(supervisord), for runtime supervisor. The host variable C(pd_supervisord).
      - The default is the one beside the Python that Ansible uses there, then the one on C(PATH).
    type: path
  docker_host:
    description:
      - Where the container engine listens, for runtime docker, for example C(unix:///run/podman/podman.sock). The host variable
        C(pd_docker_host).
      - The default is E(DOCKER_HOST), then C(unix:///var/run/docker.sock).
    type: str
  state_dir:
    description:
      - Where the collection keeps labels and records. The host variable C(pd_state_dir).
      - The default is C(/var/lib/inferops-pd) for root, C(~/.local/state/inferops-pd) for others.
    type: path
"""

    SCOPE = r"""
options:
  scope:
    description:
      - Whose units members are, for runtime systemd. The host variable C(pd_scope).
      - V(system) needs root. V(user) are those of the user that Ansible is there, who must linger.
    type: str
    choices: [system, user]
    default: system
"""
