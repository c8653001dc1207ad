#!/usr/bin/env bash
# Runs pytest as one stage and leaves its count in .build/junit: pytest.sh STAGE VENV WORD...
# Words that begin with tests/ are paths, all others options of pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."

stage=$1 venv=$PWD/.build/venv/$2
shift 2
# The tests call ansible-playbook by name, and pick this one; ansible.cfg is found even from another directory.
export PATH="$venv/bin:$PATH" ANSIBLE_CONFIG="$PWD/ansible.cfg"
mkdir -p .build/junit

# A stage whose folder holds nothing yet is not an error; one whose tests are all deselected is.
paths=() options=()
for word in "$@"; do
    case $word in
        tests/*) if [ -e "${word%%::*}" ]; then paths+=("$word"); fi ;;
        *) options+=("$word") ;;
    esac
done
if [ -z "$(find "${paths[@]%%::*}" /dev/null -name 'test_*.py' -print -quit)" ]; then
    echo "$stage: no tests yet"
    exit
fi
exec python -m pytest --junitxml=".build/junit/$stage.xml" "${paths[@]}" "${options[@]}"
