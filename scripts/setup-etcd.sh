#!/usr/bin/env bash
# What the tests of the directory's etcd store want: etcd and etcdctl, 3.4 or newer, in .tools/etcd unless they are on the PATH.
#
# The Debian packages are unpacked, not installed: installing them would start a service.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

oldest=3.4.0

# good FOLDER: whether an etcd that is new enough, with its etcdctl, is there ("" is the PATH).
good() {
    has "$1etcd" && has "$1etcdctl" && at_least "$oldest" "$("$1etcd" --version | sed -n 's/^etcd Version: //p')"
}

if good .tools/etcd/usr/bin/ || good ""; then
    exit 0
fi

has apt-get && has dpkg-deb ||
    fail "etcd $oldest or newer is missing" "install etcd and etcdctl with your system's package manager, or from https://etcd.io"
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT

# apt fetches as a user of its own, which must be able to write here.
chmod 777 "$downloads"
fetch() {
    (cd "$downloads" && apt-get download -qq etcd-server etcd-client </dev/null >&2)
}
say "unpacking etcd into .tools/etcd"
if ! fetch; then
    [ "$(id -u)" -ne 0 ] || apt-get update -qq </dev/null >&2 || say "apt-get update failed; going on with the package lists that are there"
    fetch || fail "apt-get could not download etcd-server and etcd-client" "see its message above; is the network up?"
fi
rm -rf .tools/etcd
mkdir -p .tools/etcd
for package in "$downloads"/*.deb; do
    dpkg-deb -x "$package" .tools/etcd
done
good .tools/etcd/usr/bin/ || fail "the distribution's etcd is older than $oldest" "install a newer etcd and etcdctl and put them on the PATH"
