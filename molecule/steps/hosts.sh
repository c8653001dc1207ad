#!/usr/bin/env bash
# The inventory script of the scenarios: see hosts.py. The Python is that of the environment that molecule runs in.
set -euo pipefail
exec python3 "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/hosts.py" "$@"
