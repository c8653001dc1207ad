#!/usr/bin/env bash
# Real hosts on this machine, for tests: lab.sh up N | down | status | inventory | share | ssh HOST [COMMAND...] | check
#
# A host is a network namespace with two NICs, and in it systemd-nspawn boots this machine's own system, over an overlay that is lost with
# the host: systemd as PID 1, sshd, a Docker engine that starts when it is asked something. Nothing can leave the machine.
#
#   mgmt0  10.213.0.1N  the machine has 10.213.0.1 on the same bridge: the way in, for ssh and for clients
#   rdma0  10.214.0.1N  MTU 9000, a bridge of its own that nothing else is on: the way of the KV cache
#   /srv/lab            the folder $PD_LAB/share of this machine, the same on all hosts, read-only
#
#   PD_LAB       where it lives (default ~/.cache/inferops-pd/lab-NET)
#   PD_LAB_NET   the second byte of the management network (213), data is one more: two labs at once need two of them, two apart
#
# What is peculiar here comes from two things: a nested systemd needs cgroups of its own, and a machine may lack CAP_SYS_RESOURCE (see tests/docker).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(cd "$here/../.." && pwd)
cache=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}
net=${PD_LAB_NET:-213}
lab=${PD_LAB:-$cache/lab-$net}
mgmt_bridge=pdm$net data_bridge=pdd$net chain=PDLAB$net
mgmt=10.$net.0 data=10.$((net + 1)).0

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'lab: %s\n' "$*" >&2; }
fail() { say "error: $*" && exit 1; }

# --- may we? ----------------------------------------------------------------------------------------------------------------------

why_not() { # prints the first reason why this machine cannot have a lab; nothing when it can
    [ "$(uname -s)" = Linux ] || { echo "this is not Linux" && return; }
    [ "$(id -u)" = 0 ] || { echo "it needs root, or sudo without a password" && return; }
    unshare --mount --net true 2>/dev/null || { echo "namespaces cannot be made here (in a container without CAP_SYS_ADMIN?)" && return; }
    [ -w /sys/fs/cgroup ] || { echo "/sys/fs/cgroup is not writable" && return; }
    grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || { echo "the kernel has no overlay file system" && return; }
    # One try of the rest, in namespaces that end with it.
    # shellcheck disable=SC2016
    unshare --mount --net bash -c 'mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r &&
        mount -t overlay none -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r && ip link add pdl0 type veth peer name pdl1 && ip link add pdl2 type bridge' \
        >/dev/null 2>&1 || { echo "overlays of /, veth pairs or bridges cannot be made here" && return; }
    if ! command -v apt-get >/dev/null && missing | grep -q .; then echo "it has no apt-get to install $(missing | tr '\n' ' ')"; fi
}

missing() { # the Debian packages of what is not there
    local pair
    for pair in systemd-nspawn:systemd-container sshd:openssh-server dockerd:docker.io ip:iproute2 iptables:iptables ping:iputils-ping sudo:sudo; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done
    /usr/bin/python3 -c 'import requests' 2>/dev/null || echo python3-requests
}

install_missing() {
    local packages policy=/usr/sbin/policy-rc.d
    mapfile -t packages < <(missing)
    [ "${#packages[@]}" -gt 0 ] || return 0
    say "installing ${packages[*]}"
    # They are for the hosts: none of them is to start on the machine itself.
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$lab/apt.log" 2>&1 ||
        fail "apt-get could not install ${packages[*]}, see $lab/apt.log"
}

# --- the network ------------------------------------------------------------------------------------------------------------------

make_network() {
    local owner
    if ip link show "$mgmt_bridge" >/dev/null 2>&1; then
        owner=$(cat "/sys/class/net/$mgmt_bridge/ifalias")
        [ "$owner" = "$lab" ] || fail "another lab, in $owner, has the network $mgmt.0/24: take it down (PD_LAB=$owner $0 down), or set PD_LAB_NET"
    else
        ip link add "$mgmt_bridge" type bridge
        ip link set "$mgmt_bridge" alias "$lab"
        ip addr add "$mgmt.1/24" dev "$mgmt_bridge"
        ip link set "$mgmt_bridge" up
    fi
    if ! ip link show "$data_bridge" >/dev/null 2>&1; then
        ip link add "$data_bridge" mtu 9000 type bridge
        ip link set "$data_bridge" up
    fi
    # Nothing goes from the lab elsewhere nor the other way. Where br_netfilter is on, traffic within a bridge passes FORWARD as well.
    if ! iptables -n -L "$chain" >/dev/null 2>&1; then
        iptables -N "$chain"
        local bridge
        for bridge in "$mgmt_bridge" "$data_bridge"; do
            iptables -A "$chain" -i "$bridge" -o "$bridge" -j ACCEPT
            iptables -A "$chain" -i "$bridge" -j DROP
            iptables -A "$chain" -o "$bridge" -j DROP
        done
        iptables -I FORWARD -j "$chain"
    fi
}

remove_network() {
    if iptables -n -L "$chain" >/dev/null 2>&1; then
        iptables -D FORWARD -j "$chain" || true
        iptables -F "$chain"
        iptables -X "$chain"
    fi
    ip link del "$mgmt_bridge" 2>/dev/null || true
    ip link del "$data_bridge" 2>/dev/null || true
}

make_nics() { # NUMBER
    local n=$1 ns=pdlab$net-h$1
    ip netns pids "$ns" >/dev/null 2>&1 || ip netns add "$ns"
    ip -n "$ns" link set lo up
    if ! ip -n "$ns" link show rdma0 >/dev/null 2>&1; then
        ip link add "m$net-$n" type veth peer name mgmt0 netns "$ns"
        ip link add "d$net-$n" mtu 9000 type veth peer name rdma0 mtu 9000 netns "$ns"
        ip link set "m$net-$n" master "$mgmt_bridge" up
        ip link set "d$net-$n" master "$data_bridge" up
        ip -n "$ns" addr add "$mgmt.$((10 + n))/24" dev mgmt0
        ip -n "$ns" addr add "$data.$((10 + n))/24" dev rdma0
        ip -n "$ns" link set mgmt0 up
        ip -n "$ns" link set rdma0 up
        ip -n "$ns" route add default via "$mgmt.1"
        ip -n "$ns" route add unreachable 169.254.0.0/16
    fi
}

# --- one host ---------------------------------------------------------------------------------------------------------------------

running() { # NUMBER
    local pid
    pid=$(cat "$lab/h$1/pid" 2>/dev/null) && grep -qsz -- "--machine=pdlab$net-h$1" "/proc/$pid/cmdline"
}

alive() { # NUMBER: the same for one that is just being started, and is still another program
    local state
    state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$(cat "$lab/h$1/pid")/status" 2>/dev/null || true)
    [ -n "$state" ] && [ "$state" != Z ]
}

make_root() { # NUMBER: an overlay of / and in it what makes it a host of its own
    local n=$1 here_root=$lab/h$1/root unit
    mkdir -p "$lab/h$n"/{tmp,docker,containerd,root}
    # The upper layer may not lie in the lower one, which is all of /.
    mountpoint -q "$lab/h$n/tmp" || mount -t tmpfs -o size=4g,mode=755 "pdlab-h$n" "$lab/h$n/tmp"
    mkdir -p "$lab/h$n/tmp"/{upper,work}
    mountpoint -q "$here_root" || mount -t overlay "pdlab-h$n" -o "lowerdir=/,upperdir=$lab/h$n/tmp/upper,workdir=$lab/h$n/tmp/work" "$here_root"
    cd "$here_root"

    echo "h$n" >etc/hostname
    printf '127.0.0.1 localhost\n127.0.1.1 h%s\n::1 localhost\n' "$n" >etc/hosts
    : >etc/machine-id
    # No resolver: a name that is looked up by mistake fails at once.
    rm -f etc/resolv.conf
    echo "nameserver 127.0.0.1" >etc/resolv.conf

    rm -f etc/ssh/ssh_host_*
    install -m 600 "$lab/host_key" etc/ssh/ssh_host_ed25519_key
    printf 'UseDNS no\nMaxStartups 200\nMaxSessions 100\n' >etc/ssh/sshd_config.d/lab.conf
    # root, and a user who is nobody without sudo.
    grep -q '^ops:' etc/passwd || useradd --root "$here_root" --create-home --shell /bin/bash ops
    printf 'ops ALL=(ALL) NOPASSWD: ALL\n' >etc/sudoers.d/ops
    chmod 440 etc/sudoers.d/ops
    install -d -m 700 root/.ssh
    install -d -m 700 -o ops -g ops home/ops/.ssh 2>/dev/null || chroot "$here_root" install -d -m 700 -o ops -g ops /home/ops/.ssh
    cat "$lab/key.pub" >root/.ssh/authorized_keys
    cat "$lab/key.pub" >home/ops/.ssh/authorized_keys

    # What the machine itself starts at boot is none of the hosts' business: ssh, and Docker when its socket is used.
    for unit in default multi-user timers sockets sysinit graphical getty local-fs; do
        rm -rf "etc/systemd/system/$unit.target.wants"
    done
    mkdir -p etc/systemd/system/{multi-user,sockets}.target.wants var/log/journal srv/lab
    ln -s /lib/systemd/system/ssh.service etc/systemd/system/multi-user.target.wants/
    ln -s /lib/systemd/system/docker.socket etc/systemd/system/sockets.target.wants/
    ln -sf /lib/systemd/system/multi-user.target etc/systemd/system/default.target
    for unit in console-getty.service getty.target systemd-update-utmp.service systemd-networkd.service e2scrub_reap.service \
        apt-daily.timer apt-daily-upgrade.timer systemd-timesyncd.service; do
        ln -sf /dev/null "etc/systemd/system/$unit"
    done

    mkdir -p etc/docker usr/local/sbin etc/systemd/system/docker.service.d
    install -m 755 "$clone/tests/docker/nvidia-container-runtime-hook" usr/local/sbin/
    install -m 644 "$clone/tests/docker/runc_clamp.py" usr/local/lib/
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec /usr/bin/python3 -IS /usr/local/lib/runc_clamp.py "$@"\n' >usr/local/sbin/runc-clamp
    chmod 755 usr/local/sbin/runc-clamp
    cat >etc/docker/daemon.json <<JSON
{"storage-driver": "overlay2", "ip-masq": false, "exec-opts": ["native.cgroupdriver=cgroupfs"], "default-runtime": "clamp",
 "runtimes": {"clamp": {"path": "/usr/local/sbin/runc-clamp"}, "nvidia": {"path": "/usr/local/sbin/runc-clamp"}}}
JSON
    # nspawn mounts the hierarchies of cgroup v1 read-only.
    cat >etc/systemd/system/docker.service.d/lab.conf <<'UNIT'
[Service]
ExecStartPre=/bin/sh -c 'for m in /sys/fs/cgroup/*; do mountpoint -q "$$m" && mount -o remount,bind,rw "$$m"; done; true'
UNIT
    cd /
}

# A host's systemd must not share cgroups with another's: they would move each other's processes. Under our own, so that what limits us limits
# the hosts.
enter_cgroups() { # NAME
    local controllers path folder file unified=/sys/fs/cgroup/unified
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || unified=/sys/fs/cgroup
    while IFS=: read -r _ controllers path; do
        if [ -n "$controllers" ]; then
            folder=/sys/fs/cgroup/${controllers#name=}
        else
            folder=$unified
        fi
        [ -e "$folder/cgroup.procs" ] || continue
        folder=$folder${path%/}/$1
        mkdir -p "$folder"
        echo "$folder" >>"$lab/cgroups"
        for file in cpuset.cpus cpuset.mems; do
            [ ! -e "$folder/$file" ] || [ "$controllers" != cpuset ] || cat "${folder%/*}/$file" >"$folder/$file"
        done
        # In a subshell $$ is still the script's own.
        echo "$BASHPID" >"$folder/cgroup.procs"
    done </proc/self/cgroup
}

boot() { # NUMBER
    local n=$1 ns=pdlab$net-h$1 binds=() path
    # What tests name by its path on this machine is at the same path in a host, even where that is below /tmp, which a host has for itself.
    for path in "$clone" "$cache"; do
        [ ! -d "$path" ] || binds+=("--bind-ro=$path:$path:norbind")
    done
    (
        enter_cgroups "pdlab$net-h$n"
        # Its network namespace is entered before: given by option, /sys/class/net would be the machine's.
        SYSTEMD_NSPAWN_API_VFS_WRITABLE=network exec setsid nsenter --net="/run/netns/$ns" systemd-nspawn --quiet --boot \
            --directory="$lab/h$n/root" --machine="$ns" --hostname="h$n" --register=no --keep-unit --link-journal=no --resolv-conf=off \
            --timezone=off --capability=all --system-call-filter="@keyring bpf" "${binds[@]}" --bind-ro="$lab/share:/srv/lab" \
            --bind="$lab/h$n/docker:/var/lib/docker" --bind="$lab/h$n/containerd:/var/lib/containerd"
    ) >"$lab/h$n/console.log" 2>&1 </dev/null 9>&- &
    echo $! >"$lab/h$n/pid"
}

halt() { # NUMBER
    local n=$1 ns=pdlab$net-h$1 pid child _
    if running "$n"; then
        pid=$(cat "$lab/h$n/pid")
        # Killing systemd-nspawn would leave its host alive; killing the host's PID 1, its child, ends every process of the host at once.
        for child in $(cat "/proc/$pid/task/$pid/children"); do kill -KILL "$child" 2>/dev/null || true; done
        for _ in $(seq 100); do
            running "$n" || break
            sleep 0.1
        done
    fi
    local folder
    for folder in root tmp; do
        ! mountpoint -q "$lab/h$n/$folder" || umount "$lab/h$n/$folder" 2>/dev/null || umount -l "$lab/h$n/$folder"
    done
    ip netns del "$ns" 2>/dev/null || true
    ip link del "m$net-$n" 2>/dev/null || true
    ip link del "d$net-$n" 2>/dev/null || true
    rm -rf --one-file-system "${lab:?}/h$n" "/run/systemd/nspawn/propagate/$ns" "/run/systemd/nspawn/unix-export/$ns"
}

numbers() { # of the hosts that have been made
    local folder
    for folder in "$lab"/h[0-9]*; do [ ! -d "$folder" ] || echo "${folder##*/h}"; done | sort -n
}

ssh_options() {
    echo "-o UserKnownHostsFile=$lab/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
}

in_host() { # NUMBER [COMMAND...]: a shell without one
    local n=$1 input=()
    shift
    [ $# = 0 ] || input=(-n)
    # shellcheck disable=SC2046
    ssh "${input[@]}" $(ssh_options) -o ConnectTimeout=5 -o BatchMode=yes -i "$lab/key" "root@$mgmt.$((10 + n))" "$@"
}

# --- commands ---------------------------------------------------------------------------------------------------------------------

inventory() {
    local n
    echo "all:"
    echo "  hosts:"
    for n in $(numbers); do
        echo "    h$n: {ansible_host: $mgmt.$((10 + n)), lab_data_address: $data.$((10 + n))}"
    done
    cat <<YAML
  vars:
    ansible_user: root
    ansible_ssh_private_key_file: $lab/key
    ansible_ssh_common_args: $(ssh_options)
    ansible_python_interpreter: /usr/bin/python3
    pd_kv_interface: rdma0
YAML
}

up() { # N
    local wanted=$1 n began=$SECONDS reason
    [[ "$wanted" =~ ^[1-9][0-9]?$ ]] || fail "up wants a number of hosts, 1 to 99"
    reason=$(why_not)
    [ -z "$reason" ] || fail "$reason"
    mkdir -p "$lab/share"
    install_missing
    [ -e "$lab/key" ] || ssh-keygen -q -t ed25519 -N '' -C inferops-pd-lab -f "$lab/key"
    [ -e "$lab/host_key" ] || ssh-keygen -q -t ed25519 -N '' -C inferops-pd-lab -f "$lab/host_key"
    # Tests of the user who called us put files there, and use the key.
    [ -z "${PD_LAB_FOR:-}" ] || chown "$PD_LAB_FOR" "$(dirname "$lab")" "$lab" "$lab/share" "$lab/key"
    make_network
    for n in $(seq "$wanted"); do
        if ! running "$n"; then
            [ ! -d "$lab/h$n" ] || halt "$n"
            make_nics "$n"
            (make_root "$n")
            boot "$n"
        fi
    done
    for n in $(numbers); do echo "$mgmt.$((10 + n)) $(cut -d' ' -f1-2 "$lab/host_key.pub")"; done >"$lab/known_hosts"
    for n in $(seq "$wanted"); do wait_for_host "$n"; done
    inventory >"$lab/inventory.yml"
    say "$(numbers | wc -l) hosts up after $((SECONDS - began)) s, inventory $lab/inventory.yml"
}

wait_for_host() { # NUMBER
    local n=$1 end=$((SECONDS + 60))
    until in_host "$n" systemctl is-system-running --wait >/dev/null 2>"$lab/h$n/ssh.log"; do
        alive "$n" || fail "h$n did not boot: $(tail -n 3 "$lab/h$n/console.log")"
        # A host with a failed unit is up as well; which, its user sees.
        [ "$(in_host "$n" systemctl is-system-running 2>/dev/null || true)" != degraded ] || break
        [ $SECONDS -lt $end ] || fail "h$n does not answer by ssh after 60 s: $(tail -n 2 "$lab/h$n/ssh.log" "$lab/h$n/console.log")"
        sleep 0.2
    done
}

down() {
    local n _
    for n in $(numbers); do halt "$n"; done
    remove_network
    if [ -e "$lab/cgroups" ]; then
        # Their processes are dead and may not have been buried yet.
        for _ in $(seq 20); do
            sort -u "$lab/cgroups" | while read -r folder; do
                [ ! -d "$folder" ] || find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
            done
            sort -u "$lab/cgroups" | while read -r folder; do [ ! -d "$folder" ] || echo "$folder"; done | grep -q . || break
            sleep 0.2
        done
    fi
    rm -rf --one-file-system "${lab:?}"
}

status() {
    local n
    [ -n "$(numbers)" ] || { echo "no lab in $lab" && return; }
    for n in $(numbers); do
        if running "$n"; then
            echo "h$n $mgmt.$((10 + n)) $data.$((10 + n)) $(in_host "$n" systemctl is-system-running 2>/dev/null || echo 'does not answer')"
        else
            echo "h$n is down"
        fi
    done
}

# The machine's root makes the lab; whoever may become it without a password may as well.
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
    exec sudo -n env PATH="$PATH" HOME="$HOME" PD_CACHE="$cache" PD_LAB="$lab" PD_LAB_NET="$net" PD_LAB_FOR="$(id -u):$(id -g)" "$0" "$@"
fi

case ${1:-} in
    up | down)
        mkdir -p "$(dirname "$lab")"
        exec 9>"$lab.lock"
        flock -w 300 9 || fail "another lab.sh is at work in $lab"
        if [ "$1" = up ]; then up "${2:-3}"; else down && rm -f "$lab.lock"; fi
        ;;
    status) status ;;
    inventory) inventory ;;
    share) echo "$lab/share" ;;
    ssh) host=${2#h} && shift 2 && in_host "$host" "$@" ;;
    check) reason=$(why_not) && echo "${reason:-this machine can have a lab}" && [ -z "$reason" ] ;;
    *) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac
