#!/usr/bin/env bash
# Makes what tests/integration/test_real_parsers.py reads command lines with, beside the engine of the demo, and points .build/parsers/NAME at each:
# vllm-router and sglang-router, each in an environment of its own, and the published source of sglang, which does not install without a GPU.
#
# For another version: VLLM_ROUTER_VERSION=0.1.18 tests/env/parsers.sh, and the same for SGLANG_ROUTER_VERSION and SGLANG_VERSION; each version
# has its own place in the cache. PIP_EXTRA_INDEX_URL and the other variables of pip hold as ever, so a nightly index is one of them. Another
# vLLM is another environment: PD_ENGINE_VENV=/opt/vllm-nightly, for the test alone.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}/parsers

python=$("$here/python.sh" 3.11 3.12 3.13 3.10)

pip() { # VENV WORD...
    local log=$1/pip.log
    "$1/bin/python" -m pip --disable-pip-version-check --quiet "${@:2}" >"$log" 2>&1 && return
    grep -v 'is ignored: it is neither' "$log" | tail -n 20 >&2
    echo "parsers.sh: pip failed; its whole output is in $log" >&2
    return 1
}

router() { # FOLDER PACKAGE VERSION
    "$python" -m venv "$1"
    pip "$1" install "$2==$3"
}

source_of() { # FOLDER PACKAGE VERSION: of the wheel, only the text that says which flags there are
    # For whichever Python and machine: nothing of it is run.
    pip "$clone/.build/parsers/sglang-router" download --no-deps --only-binary :all: --python-version 3.11 \
        --platform manylinux_2_34_x86_64 --platform any --dest "$1" "$2==$3"
    "$python" -c 'import sys, zipfile, glob
for wheel in glob.glob(sys.argv[1] + "/*.whl"):
    z = zipfile.ZipFile(wheel)
    z.extractall(sys.argv[1], [n for n in z.namelist() if n.endswith(".py") and n.startswith("sglang/srt/")])' "$1"
    rm -f "$1"/*.whl
}

ensure() { # NAME BUILD VERSION
    local folder="$cache/$1-$3"
    mkdir -p "$cache" "$clone/.build/parsers"
    (
        flock 9 # two clones may want the same one at once
        if [ ! -e "$folder/.complete" ]; then
            echo "==> $1 $3: $folder"
            rm -rf "$folder"
            mkdir -p "$folder"
            "$2" "$folder" "$1" "$3"
            # Last: what has no such mark was interrupted, and is made again.
            touch "$folder/.complete"
        fi
    ) 9>"$folder.lock"
    ln -sfn "$folder" "$clone/.build/parsers/$1"
}

ensure vllm-router router "${VLLM_ROUTER_VERSION:-0.1.17}"
ensure sglang-router router "${SGLANG_ROUTER_VERSION:-0.3.2}"
ensure sglang source_of "${SGLANG_VERSION:-0.5.23}"
