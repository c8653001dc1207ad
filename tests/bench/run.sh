#!/usr/bin/env bash
# `make bench`: prints tables and judges nothing. Words choose: core, runs, fleet (one run over many groups), life (what
# clients see of a scale and of a restart).
# ENGINE=1 measures a real group as well; it needs `make demo-env`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export ANSIBLE_CONFIG=$PWD/ansible.cfg PYTHONPATH=$PWD/.build/collections:$PWD/tests
exec python tests/bench/bench.py "$@"
