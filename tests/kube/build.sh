#!/usr/bin/env bash
# Builds kube-apiserver, kube-scheduler, kube-controller-manager and kubelet 1.20.2 from Debian's source package into the cache, and installs
# etcd, once: about seven minutes of two processors and 2 GB. Does nothing where they are. Needs root and Debian 12's package sources.
set -euo pipefail
VERSION=1.20.2
CACHE=${PD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferops-pd}
DEST=$CACHE/kubernetes-$VERSION
PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kubelet"

command -v etcd >/dev/null || apt-get install -y -qq --no-install-recommends etcd-server >/dev/null
missing=
for program in $PROGRAMS; do [ -x "$DEST/$program" ] || missing=1; done
[ -n "$missing" ] || exit 0

echo "building Kubernetes $VERSION into $DEST: this takes some minutes, once"
work=$(mktemp -d "${TMPDIR:-/tmp}/pd-kubernetes.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir -p "$work/sources.d" "$work/lists/partial" "$work/archives/partial" "$DEST"
apt-get install -y -qq --no-install-recommends golang-go golang-github-modern-go-reflect2-dev dpkg-dev >/dev/null
# The machine's own sources, for source packages.
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$work/sources.d/source.sources"
apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources.d" -o Dir::State::lists="$work/lists"
    -o Dir::Cache="$work" -o APT::Sandbox::User=root)
cd "$work"
"${apt[@]}" update
"${apt[@]}" source --download-only kubernetes
dpkg-source -x --no-check kubernetes_1.20*.dsc src >/dev/null

# Go 1.18 and later need a newer reflect2 than the one that is vendored: the server falls over its first map.
reflect=src/vendor/github.com/modern-go/reflect2
rm -f "$reflect"/*.go "$reflect"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$reflect/"
export GOPATH=$work/go GO111MODULE=off CGO_ENABLED=0 GOCACHE=$work/cache GOFLAGS=
mkdir -p "$GOPATH/src/k8s.io"
ln -s "$work/src" "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"
# The one generated file that the source package has not.
generated=pkg/generated/openapi
if [ ! -f "$generated/zz_generated.openapi.go" ]; then
    go build -p 2 -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd staging/src/k8s.io |
        grep -v -e /code-generator/ -e /sample-apiserver/ -e _test.go -e /testdata/ | xargs -n1 dirname | sort -u |
        sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e '/^k8s.io/!s#^#k8s.io/kubernetes/#' | paste -sd,)
    "$work/openapi-gen" --logtostderr -i "$inputs" -p "k8s.io/kubernetes/$generated" -O zz_generated.openapi \
        -h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"
fi
flags=
for package in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
    flags="$flags -X $package.gitVersion=v$VERSION -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=clean"
done
paths=
for program in $PROGRAMS; do paths="$paths ./cmd/$program"; done
# shellcheck disable=SC2086
go build -p 2 -ldflags "-s -w $flags" -o "$DEST/" $paths
