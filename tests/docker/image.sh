#!/usr/bin/env bash
# Writes to stdout the tar of a small image root made of this machine's own Python and shell: no registry, no download.
# image.sh bare: one without a shell.
set -euo pipefail

python=$(readlink -f "${PD_IMAGE_PYTHON:-/usr/bin/python3}")
version=$(basename "$python")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/usr/{bin,lib,lib64} "$root"/{etc,tmp,proc,sys,dev,run,root}
chmod 1777 "$root/tmp"
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"

programs=("$python")
if [ "${1:-}" != bare ]; then
    for name in sh cat dirname sleep env true stat sha256sum; do programs+=("$(readlink -f "$(type -P "$name")")"); done
fi
cp "${programs[@]}" "$root/usr/bin/"
ln -sf "$version" "$root/usr/bin/python3"
if [ "${1:-}" != bare ]; then ln -sf "$(basename "$(readlink -f /bin/sh)")" "$root/usr/bin/sh"; fi
mkdir -p "$root/usr/lib/$version"
tar -C "/usr/lib/$version" --exclude=test --exclude=__pycache__ --exclude=idlelib --exclude=tkinter --exclude=lib2to3 \
    --exclude=ensurepip --exclude='config-*' -cf - . | tar -C "$root/usr/lib/$version" -xf -
# Libraries, each where it lies here.
ldd "${programs[@]}" "/usr/lib/$version"/lib-dynload/*.so 2>/dev/null | grep -o '/[^ :]*' | sort -u | while read -r library; do
    case $library in *"/lib-dynload/"* | /usr/bin/* | /bin/*) continue ;; esac
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
tar -C "$root" -cf - .
