#!/usr/bin/env bash
# Has HAProxy and nginx on this machine for the tests: installs Debian's or Ubuntu's when they are missing. Their own services are not used.
set -euo pipefail

PATH=$PATH:/usr/sbin:/usr/local/sbin
missing=()
type -P haproxy >/dev/null || missing+=(haproxy)
type -P nginx >/dev/null || missing+=(nginx-light)
[ "${#missing[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! type -P apt-get >/dev/null; then
    echo "${missing[*]} is missing, and only root on a system with apt-get can install it here" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Nothing of them is to listen on ports of this machine: what serves is started by the tests.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# Another installation may be under way.
install() { apt-get -o DPkg::Lock::Timeout=120 install -qq -y --no-install-recommends "${missing[@]}"; }
install >/dev/null 2>&1 || { apt-get -o DPkg::Lock::Timeout=120 update -qq && install >/dev/null; }
