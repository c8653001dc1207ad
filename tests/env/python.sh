#!/usr/bin/env bash
# Prints the path of a working Python, the first found of the versions named: python.sh 3.13 3.12
# Installs one, or only its venv module, on Debian where none is there; with --quiet it just fails then.
set -euo pipefail

say() { echo "python.sh: $*" >&2; }

# A candidate is run, not only looked up: pyenv leaves shims for versions that it then refuses to start.
probe() { # EXECUTABLE VERSION EXTRA-IMPORTS
    "$1" -c "import sys, ssl, venv$3; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" 2>/dev/null
}

candidates() { # VERSION
    type -ap "python$1" python3 || true
    compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1.*/bin/python$1" | sort -rV || true
}

find_python() { # EXTRA-IMPORTS
    local version candidate
    for version in "${versions[@]}"; do
        while read -r candidate; do
            if probe "$candidate" "$version" "$1"; then
                "$candidate" -c 'import sys; print(sys.executable)'
                return
            fi
        done < <(candidates "$version")
    done
    return 1
}

apt_install() {
    local as_root=()
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    say "installing $*"
    "${as_root[@]}" apt-get update -qq >&2 &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

quiet=false
if [ "$1" = --quiet ]; then quiet=true && shift; fi
versions=("$@")
find_python ", ensurepip" && exit
$quiet && exit 1

# Debian splits ensurepip out of python3, so a fresh host has a Python that cannot make an environment.
if bare=$(find_python ""); then
    apt_install "$(basename "$(readlink -f "$bare")")-venv" || true
else
    apt_install python3 python3-venv || true
fi
find_python ", ensurepip" && exit

say "no usable Python of ${versions[*]}${bare:+; $bare lacks ensurepip}."
say "Install one with its venv module (Debian: apt-get install python3 python3-venv) and try again."
exit 1
