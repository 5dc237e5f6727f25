#!/usr/bin/env bash
# Weft's directory beside Redis, Knot DNS and etcd on this machine: lookups, durable updates, failover and memory, each peer by its own load generator.
#
#   benches/directory-peers/run.sh [PART...] [--entries N] [--seconds N] [--repeat N]
#
# WEFT_DIRECTORY_PROGRAM chooses another program than target/release/weft-directory.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

program=${WEFT_DIRECTORY_PROGRAM:-target/release/weft-directory}
if [ -z "${WEFT_DIRECTORY_PROGRAM:-}" ]; then
    say "cargo build --release --package weft-directory"
    cargo build --release --locked --package weft-directory --bin weft-directory >&2 || fail "weft-directory could not be built" "see the message above"
fi
has "$program" || fail "there is no $program" "leave WEFT_DIRECTORY_PROGRAM out, or name a program that exists"
has python3 || apt_install python3
has taskset || apt_install util-linux
scripts/setup-etcd.sh

# The Debian packages are unpacked, not installed: installing them would start services. apt names those of their libraries that are missing, too.
peers=.tools/peers
if [ ! -e "$peers/complete" ]; then
    has apt-get && has dpkg-deb || fail "Redis, Knot and dnsperf come as Debian packages" "run this on Debian"
    say "unpacking Redis, Knot and dnsperf into $peers"
    packages=(redis-server redis-tools knot dnsperf)
    rm -rf "$peers"
    mkdir -p "$peers/packages/partial"
    fetch() {
        apt-get install --download-only -qq -y --reinstall --no-install-recommends -o Debug::NoLocking=1 -o Dir::Cache::archives="$ROOT/$peers/packages" \
            "${packages[@]}" </dev/null >&2
    }
    fetch || { apt_update && fetch; } || fail "apt-get could not download ${packages[*]}" "see its message above; is the network up?"
    for package in "$peers"/packages/*.deb; do
        dpkg-deb -x "$package" "$peers"
    done
    rm -rf "$peers/packages"
    touch "$peers/complete"
fi

export PATH="$ROOT/$peers/usr/bin:$ROOT/$peers/usr/sbin:$ROOT/.tools/etcd/usr/bin:$PATH"
export LD_LIBRARY_PATH="$ROOT/$peers/usr/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec python3 benches/directory-peers/side_by_side.py --weft "$program" --out target/directory-peers "$@"
