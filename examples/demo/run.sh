#!/usr/bin/env bash
# The demo's main job, called by `make demo` and `make demo-down` once the environments are there.
#   run.sh        deploy the group, prove it, show it, and say what to try next
#   run.sh down   remove it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export ANSIBLE_CONFIG=$PWD/ansible.cfg
# Ansible keeps temporary files at home; where nobody can write there, here.
if ! mkdir -p "${HOME:-/dev/null}/.ansible/tmp" 2>/dev/null || [ ! -w "$HOME/.ansible/tmp" ]; then
  export HOME=$PWD/.build/home
  mkdir -p "$HOME"
fi
play() { ansible-playbook -i examples/inventories/demo "$@"; }

if [ "${1:-up}" = down ]; then
  play inferops.pd.remove -e pd_group=demo
  exit
fi

# `always`: the proof is shown on a run that changes nothing, too.
play inferops.pd.deploy -e pd_group=demo -e pd_proof=always
play inferops.pd.status -e pd_group=demo
cat <<TEXT

The group is running. Ask it something:

  curl -s --noproxy '*' http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
    -d '{"model": "tiny", "prompt": "once upon a time", "max_tokens": 16}'

Next, from this folder:

  export PATH=$PWD/.build/venv/run/bin:\$PATH
  ansible-playbook -i examples/inventories/demo inferops.pd.status
  ansible-playbook -i examples/inventories/demo inferops.pd.scale -e pd_group=demo -e pd_prefill=2
  ansible-playbook -i examples/inventories/demo inferops.pd.restart -e pd_group=demo --check --diff
  ansible-playbook -i examples/inventories/demo inferops.pd.restart -e pd_group=demo
  make demo-down
TEXT
