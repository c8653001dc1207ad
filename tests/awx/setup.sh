#!/usr/bin/env bash
# Makes what tests/awx runs on, and points .build/awx/NAME at each:
#   awx   AWX's own source with its Python environment, the environment that AWX updates projects in, and the collection awx.awx
#   jobs  the environment that jobs run in: what meta/execution-environment.yml asks for, and ansible-core
# PostgreSQL and Redis, whose own services are not used, are installed where they are missing and this is root.
#
# PD_AWX_SOURCE names AWX's source: a git repository (git clone https://github.com/ansible/awx), of which HEAD is taken, or a tarball of its tree. What
# was built of it stays in the cache, and without the variable the newest there is taken. PD_AWX_CORE is what jobs run on, in pip's words:
# 'ansible-core==2.16.*'.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}/awx
core=${PD_AWX_CORE:-ansible-core>=2.16}
recipe=1 # count up when this script builds something in another way

say() { echo "setup.sh: $*" >&2; }

pip() { # VENV WORD...
    local log=$1/pip.log
    "$1/bin/python" -m pip --disable-pip-version-check --quiet "${@:2}" >"$log" 2>&1 && return
    grep -v 'is ignored: it is neither' "$log" | tail -n 20 >&2
    say "pip failed; its whole output is in $log"
    return 1
}

ensure() { # NAME FOLDER BUILD WORD...
    local name=$1 folder=$2
    mkdir -p "$cache" "$clone/.build/awx"
    (
        flock 9 # two clones may want the same one at once
        if [ ! -e "$folder/.complete" ]; then
            echo "==> AWX: $name: $folder"
            rm -rf "$folder"
            mkdir -p "$folder"
            "${@:3}" "$folder"
            # Last: what has no such mark was interrupted, and is made again.
            touch "$folder/.complete"
        fi
    ) 9>"$folder.lock"
    ln -sfn "$folder" "$clone/.build/awx/$name"
}

need_packages() {
    local missing=() policy=/usr/sbin/policy-rc.d
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    type -P redis-server >/dev/null || missing+=(redis-server)
    type -P curl >/dev/null || missing+=(curl)
    [ "${#missing[@]}" -gt 0 ] || return 0
    if ! type -P apt-get >/dev/null; then
        say "install ${missing[*]} (Debian's names), then run this again"
        return 1
    fi
    # Nothing of them is to run by itself on this machine: what serves is started by the tests.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        # shellcheck disable=SC2064  # as it is now
        trap "rm -f '$policy'" EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    install() { apt-get -o DPkg::Lock::Timeout=120 install -qq -y --no-install-recommends "${missing[@]}"; }
    install >/dev/null 2>&1 || { apt-get -o DPkg::Lock::Timeout=120 update -qq && install >/dev/null; }
}

# What AWX's requirements.in names, without what only builds, clouds, or SAML need.
packages=(
    aiohttp ansi2html ansible-runner==2.4.3 asciichartpy asn1 boto3 cachetools channels channels-redis cryptography daphne distro django
    'django-ansible-base[jwt_consumer]==2024.12.4' django-cors-headers django-crum django-extensions django-guid django-oauth-toolkit
    django-pglocks django-polymorphic django-solo django-split-settings djangorestframework djangorestframework-yaml filelock GitPython gunicorn
    inflection irc jinja2 JSON-log-formatter jsonschema kubernetes Markdown msgpack opentelemetry-api opentelemetry-exporter-otlp
    opentelemetry-instrumentation-logging opentelemetry-sdk pbr pexpect prometheus_client psutil 'psycopg[binary]' pygerduty pyjwt pyparsing
    python-daemon python-dateutil pytz pyyaml pyzstd receptorctl 'redis[hiredis]' requests setuptools slack-sdk sqlparse twilio 'twisted[tls]'
)

place_of_awx() { # Prints the folder of what is built of the source
    local commit newest
    if [ -d "${PD_AWX_SOURCE:-}" ]; then
        commit=$(git -C "$PD_AWX_SOURCE" rev-parse HEAD)
        echo "$cache/awx-${commit:0:12}-$recipe"
    elif [ -f "${PD_AWX_SOURCE:-}" ]; then
        echo "$cache/awx-$(sha256sum "$PD_AWX_SOURCE" | cut -c1-12)-$recipe"
    elif [ -n "${PD_AWX_SOURCE:-}" ]; then
        say "PD_AWX_SOURCE: '$PD_AWX_SOURCE' is neither a git repository of AWX nor a tarball of its tree"
        return 1
    elif newest=$(find "$cache" -maxdepth 2 -path "$cache/awx-*-$recipe/.complete" -printf '%T@ %h\n' | sort -n | tail -n 1) && [ -n "$newest" ]; then
        echo "${newest#* }"
    else
        say "PD_AWX_SOURCE names no source of AWX, and nothing was built before:"
        say "git clone https://github.com/ansible/awx, then PD_AWX_SOURCE=/path/to/awx make test-awx"
        return 1
    fi
}

unpack() { # FOLDER: AWX's source, as a production install has it
    mkdir "$1/src"
    if [ -d "$PD_AWX_SOURCE" ]; then
        git -C "$PD_AWX_SOURCE" archive HEAD -- \
            awx awxkit awx_collection manage.py setup.cfg pyproject.toml requirements 2>"$1/git.log" | tar -x -C "$1/src"
    else
        tar -x -f "$PD_AWX_SOURCE" -C "$1/src"
        # A forge puts the tree into a folder.
        [ -e "$1/src/manage.py" ] || { mv "$1"/src/* "$1/tree" && rmdir "$1/src" && mv "$1/tree" "$1/src"; }
    fi
    # Without this file it is no development install; git's tags, which tell the version, are not here.
    rm -f "$1/src/awx/devonly.py"
    echo 24.6.2 >"$1/src/VERSION"
    # One source serves several instances, each with a receptor of its own.
    sed -i "s#'/etc/receptor/receptor.conf'#os.environ['AWX_RECEPTOR_CONF']#" "$1/src/awx/main/tasks/receptor.py"
    grep -q AWX_RECEPTOR_CONF "$1/src/awx/main/tasks/receptor.py"
}

build_awx() { # FOLDER
    local python
    python=$("$here/../env/python.sh" 3.11 3.12)
    unpack "$1"
    "$python" -m venv "$1/venv"
    # The versions that this AWX was released with: newer cryptography and psycopg break it.
    sed -nE 's/\[[^]]*\]//; s/^([A-Za-z0-9._-]+==[^ ]+).*/\1/p' "$1/src/requirements/requirements.txt" >"$1/constraints.txt"
    pip "$1/venv" install "${packages[@]}" -c "$1/constraints.txt"
    # Their own requirements are clouds' libraries: without these, and without the credential plugins that import them.
    pip "$1/venv" install --no-deps awx-plugins-core==0.0.1a0 awx-plugins-interfaces==0.0.1a1
    sed -i -E '/^(aws_|azure_kv|thycotic_)/d' "$1"/venv/lib/python3*/site-packages/awx_plugins_core-*.dist-info/entry_points.txt
    # AWX's own project_update.yml does not run on ansible-core 2.19 or newer, which refuse a list as a condition.
    "$python" -m venv "$1/control"
    pip "$1/control" install 'ansible-core>=2.16,<2.19'
    mkdir -p "$1/collections/ansible_collections/awx"
    cp -r "$1/src/awx_collection" "$1/collections/ansible_collections/awx/awx"
}

build_jobs() { # FOLDER
    "$jobs_python" -m venv "$1"
    pip "$1" install "$core" -r "$clone/meta/ee-requirements.txt"
}

if [ "$(id -u)" != 0 ]; then
    say "only root can run PostgreSQL as its user, and jobs in mount namespaces"
    exit 1
fi
need_packages
mkdir -p "$cache"
awx=$(place_of_awx)
ensure awx "$awx" build_awx
jobs_python=$("$here/../env/python.sh" 3.12 3.13 3.11)
key=$({ "$jobs_python" -VV && echo "$core" && cat "$clone/meta/ee-requirements.txt"; } | sha256sum | cut -c1-12)
ensure jobs "$cache/jobs-$key-$recipe" build_jobs
