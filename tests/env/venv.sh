#!/usr/bin/env bash
# Makes the virtual environments NAME... (run, tools, floor, galaxy, builder, ee, ee-floor) and points .build/venv/NAME at each.
# They live in a cache outside the clone, named by what they are made from: a second clone finds them there.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/dev/null}/.cache}/inferops-pd}
if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
    echo "venv.sh: $cache cannot be written. Name a folder that can: PD_CACHE=/path/to/folder make ..." >&2
    exit 1
fi

versions_for() {
    case $1 in
        run | tools | galaxy | builder | ee) echo 3.13 3.12 3.11 3.14 ;;
        floor | ee-floor) echo 3.10 3.11 3.12 ;; # what ansible-core 2.16 runs on
        *) echo "venv.sh: unknown environment '$1' (run, tools, floor, galaxy, builder, ee, ee-floor)" >&2 && exit 2 ;;
    esac
}

# What users run the collection in has nothing of the tests: `make demo`, and execution environments.
bare() { # NAME
    case $1 in run | ee | ee-floor) ;; *) false ;; esac
}

contents() { # NAME REQUIREMENTS: these with the files that they include, and what is laid beside the packages
    cat "$2"
    (cd "$here" && sed -n 's/^-r //p' "$2" | xargs -r cat)
    bare "$1" || cat "$here/pd_compiled.py"
}

build() { # NAME VENV PYTHON REQUIREMENTS
    local venv=$2 packages
    rm -rf "$venv"
    "$3" -m venv "$venv"
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$4" >"$venv/pip.log" 2>&1; then
        grep -v 'is ignored: it is neither' "$venv/pip.log" | tail -n 20 >&2
        echo "venv.sh: pip could not install $4; its whole output is in $venv/pip.log" >&2
        return 1
    fi
    if ! bare "$1"; then
        packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        cp "$here/pd_compiled.py" "$packages/"
        echo 'import pd_compiled' >"$packages/pd_compiled.pth"
    fi
    # Last: an environment without this mark was interrupted, and is made again.
    touch "$venv/.complete"
}

ensure() { # NAME
    local name=$1 requirements="$here/requirements-$1.txt" versions python key venv
    versions=$(versions_for "$name")
    # shellcheck disable=SC2086
    python=$("$here/python.sh" $versions)
    key=$({ "$python" -VV && contents "$name" "$requirements"; } | sha256sum | cut -c1-12)
    venv="$cache/venv/$name-$key"
    mkdir -p "$cache/venv" "$clone/.build/venv"
    (
        # Two clones, or two make targets, may want the same environment at once.
        flock 9
        if [ ! -e "$venv/.complete" ]; then
            echo "==> environment '$name' on $("$python" -V): $venv"
            build "$name" "$venv" "$python" "$requirements"
        fi
    ) 9>"$venv.lock"
    # What pd_compiled.py kept of sources that are gone by now; what is still wanted is made again.
    find "$venv/compiled" -type f -mtime +7 -delete 2>/dev/null || true
    ln -sfn "$venv" "$clone/.build/venv/$name"
}

for name in "$@"; do ensure "$name"; done

# `ansible-playbook inferops.pd.deploy` finds the clone through the collections_path of ansible.cfg.
mkdir -p "$clone/.build/collections/ansible_collections/inferops"
ln -sfn "$clone" "$clone/.build/collections/ansible_collections/inferops/pd"
