#!/usr/bin/env bash
# Makes the cache services that tests/integration/test_caches_real.py deploys: a LMCache server and a Mooncake master with its client, each in an
# environment of its own as the role's entry point `install` would make it, and points .build/caches/NAME at each. The Debian libraries that Mooncake
# is linked with are installed when they are missing and this is root.
#
# LMCache's wheel asks for CUDA's Python packages and for clouds' clients, which its server does not import on a CPU: what it needs is in
# requirements-lmcache.txt. Another version: LMCACHE_VERSION=0.5.7 MOONCAKE_VERSION=0.3.14 tests/env/caches.sh; pip's own variables hold as ever.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}/caches
recipe=1 # count up when this script builds an environment in another way

python=$("$here/python.sh" 3.11 3.12 3.13 3.10)

pip() { # VENV WORD...
    local log=$1/pip.log
    "$1/bin/python" -m pip --disable-pip-version-check --quiet "${@:2}" >"$log" 2>&1 && return
    grep -v 'is ignored: it is neither' "$log" | tail -n 20 >&2
    echo "caches.sh: pip failed; its whole output is in $log" >&2
    return 1
}

lmcache() { # FOLDER VERSION
    "$python" -m venv "$1"
    # shellcheck disable=SC2086  # PD_PIP_ARGS is a list of words
    pip "$1" install --no-deps ${PD_PIP_ARGS:-} -r "$here/requirements-lmcache.txt" "lmcache==$2"
    "$1/bin/lmcache" server --help >"$1/help.txt" 2>&1
}

libraries=(libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libnuma1 libcurl4)

mooncake() { # FOLDER VERSION
    "$python" -m venv "$1"
    pip "$1" install "mooncake-transfer-engine-non-cuda==$2"
}

need_libraries() {
    local missing
    missing=$(for name in "${libraries[@]}"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || echo "$name"
    done)
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        echo "caches.sh: install $missing (Debian's names), then run this again" >&2
        return 1
    fi
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
}

ensure() { # NAME VERSION
    local folder="$cache/$1-$2-$recipe"
    mkdir -p "$cache" "$clone/.build/caches"
    (
        flock 9 # two clones may want the same one at once
        if [ ! -e "$folder/.complete" ]; then
            echo "==> $1 $2: $folder"
            rm -rf "$folder"
            mkdir -p "$folder"
            "$1" "$folder" "$2"
            # Last: what has no such mark was interrupted, and is made again.
            touch "$folder/.complete"
        fi
    ) 9>"$folder.lock"
    ln -sfn "$folder" "$clone/.build/caches/$1"
}

need_libraries
ensure mooncake "${MOONCAKE_VERSION:-0.3.13.post1}"
ensure lmcache "${LMCACHE_VERSION:-0.5.6}"
