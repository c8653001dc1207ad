"""The inventory of a scenario: the hosts that its lab has now, none before it is up. The Python that runs Ansible is visible on them,
and has what the runtimes need: supervisor, and Docker's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

lab = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / "tests/lab/lab.sh"
told = subprocess.run([str(lab), "inventory"], capture_output=True, text=True, check=False).stdout
groups = (yaml.safe_load(told) or {}).get("all") or {}
hosts = groups.get("hosts") or {}
variables = {**(groups.get("vars") or {}), "ansible_python_interpreter": sys.executable}
print(json.dumps({"all": {"hosts": list(hosts), "vars": variables}, "_meta": {"hostvars": hosts}}))
