#!/usr/bin/env bash
# Has a Docker engine on this machine for the tests: installs Debian's or Ubuntu's docker.io when there is none. Its own service is not used.
# setup.sh registry DIR: unpacks docker-registry into DIR, without installing it.
set -euo pipefail

if [ "${1:-}" = registry ]; then
    mkdir -p "$2"
    cd "$2"
    if [ ! -x usr/bin/docker-registry ]; then
        apt-get -qq download docker-registry >/dev/null
        dpkg -x docker-registry_*.deb .
    fi
    exit
fi

if PATH=$PATH:/usr/sbin:/usr/local/sbin type -P dockerd runc >/dev/null; then exit; fi
if [ "$(id -u)" != 0 ] || ! type -P apt-get >/dev/null; then
    echo "there is no dockerd, and only root on a system with apt-get can install one here" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Another installation may be under way.
install() { apt-get -o DPkg::Lock::Timeout=120 install -qq -y --no-install-recommends docker.io; }
install >/dev/null 2>&1 || { apt-get -o DPkg::Lock::Timeout=120 update -qq && install; }
