#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_facts
short_description: Look at a Kubernetes cluster and the members that run there
version_added: 0.2.0
description:
  - Tells of each node of a cluster what M(inferops.pd.host_facts) tells of a host, as far as the API knows it, and what the namespace keeps
    of groups - records, locks, held ports.
  - It changes nothing. With O(look) it starts a Pod on each node that is looked at, and takes it away again.
  - M(inferops.pd.host_facts) runs it by itself on an inventory host that stands for a cluster, which has the variable C(pd_cluster).
author:
  - The inferops.pd contributors (@inferops)
requirements:
  - kubernetes >= 28
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.facts_module
options:
  cluster:
    description:
      - How the cluster is reached and what the inventory says of its nodes, as JSON text.
      - M(inferops.pd.host_facts) fills it in from C(pd_cluster) and C(pd_nodes).
    type: str
    required: true
  look:
    description:
      - What nodes are looked at for by short Pods, which have an image of the groups that the node has already - C(images), C(models),
        C(interface_plane), C(nodes) as selectors, and C(settings) of the groups' Pods. Left out, nothing is started in the cluster.
    type: dict
  groups:
    description: The groups whose records to return. Left out, all.
    type: list
    elements: str
seealso:
  - module: inferops.pd.host_facts
"""

EXAMPLES = r"""
# In the inventory: k1: {ansible_connection: local, pd_cluster: {namespace: inference, kubeconfig: ~/.kube/config}}
- name: Look at the cluster
  inferops.pd.host_facts:
  register: pd_facts
"""

RETURN = r"""
ansible_facts:
  description: What was found.
  returned: success
  type: dict
  contains:
    pd_places:
      description: The places of the plan that the cluster has.
      returned: success
      type: dict
      contains:
        nodes:
          description: The facts of each node, by its name, as C(pd_host) of M(inferops.pd.host_facts) has them for a host.
          returned: success
          type: dict
        lacks:
          description: The rights that a change needs in the cluster, and that whoever looked has not.
          returned: success
          type: list
          elements: str
          sample: [create pods]
        kept:
          description: What the namespace keeps of groups - C(records), C(locks), C(holds), C(digests), and what was C(damaged).
          returned: success
          type: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.cluster.node import Node
from ..module_utils._core.cluster.pod import Pods
from ..module_utils._kube.cluster import Cluster
from ..module_utils._kube.errand import Errands
from ..module_utils._kube.looking import Wanted, look_at
from ..module_utils._kube.namespace import Namespace
from ..module_utils._kube.observe import Request, observe
from ..module_utils._kube.reach import ByErrand


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "cluster": {"type": "str", "required": True, "no_log": True},
        "groups": {"type": "list", "elements": "str"},
        "look": {"type": "dict"},
    }


def looks(
    namespace: Namespace, wanted: Wanted, warnings: list[str]
) -> t.Callable[[t.Sequence[Node]], dict[str, dict[str, t.Any]]]:
    """How nodes are looked at: by errands that are as the members of the groups are."""
    errands = Errands(namespace, Pods.of(namespace.namespace, wanted.settings))
    return lambda nodes: look_at(errands, wanted, nodes, warnings)


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        cluster = Cluster.read(module.params["cluster"])
        namespace = cluster.open().namespace
        request = Request(cluster.name, cluster.nodes, groups=module.params["groups"])
        if module.params["look"]:
            request.look = looks(namespace, Wanted.read(module.params["look"]), request.warnings)
        if cluster.by_errand:
            request.peers = ByErrand(namespace).peers
        places = observe(request, namespace.api)
    except PdError as exc:
        module.fail_json(msg=str(exc))
    for warning in request.warnings:
        module.warn(warning)
    module.exit_json(changed=False, ansible_facts={"pd_places": places})


if __name__ == "__main__":
    main()
