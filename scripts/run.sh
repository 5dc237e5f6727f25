#!/usr/bin/env bash
# `make run`: run.sh [SCENARIO]. Builds `weft` alone, by the profile that builds soonest, and runs the first scenario; then, as root on Linux,
# builds the daemons too and runs VL2 on real packets, with the simulation for comparison. With a scenario it runs that one.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

target=${CARGO_TARGET_DIR:-target}/quick
weft=$target/weft

# build WHAT PROGRAM MINUTES ARGUMENT...: the minutes are those of the first build.
build() {
    local what=$1 program=$2 minutes=$3
    shift 3
    if [ -e "$target/$program" ]; then
        say "building $what"
    else
        say "building $what: about $minutes minutes on 2 cores, the first time ($(nproc 2>/dev/null || echo "?") here)"
    fi
    cargo build --profile quick --locked "$@"
}

build_weft() {
    scripts/setup-build.sh
    build weft weft 3 --package weft-experiment --bin weft
}

# What scenarios in the lab run beside `weft`.
build_daemons() {
    scripts/setup-daemons.sh
    scripts/setup-lab.sh
    build "the daemons" weft-agent 4 --package weft-directory --package weft-agent --package weft-scheduler --bins
}

has_labs() {
    [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]
}

build_weft
if [ $# -gt 0 ]; then
    if has_labs && grep -qE 'kind"? *= *"lab"' "$1"; then
        build_daemons
    fi
    exec "$weft" run "$1"
fi

say "the first scenario: hashing and Hedera's schedulers on a fat-tree of 1,024 hosts (a few seconds)"
"$weft" run scenarios/first.toml

lab=scenarios/vl2/lab-first.toml
if has_labs; then
    say "next: this machine as a data centre; 8 hosts and 6 switches in namespaces, VL2's agents and directory, the kernel's TCP, and the simulation for comparison"
    build_daemons
    say "running $lab (about a minute)"
    "$weft" run "$lab"
else
    say "next: VL2 in simulation (a few seconds)"
    "$weft" run "$lab"
    say "as root on Linux this runs on real packets too: sudo make run ('$weft lab doctor' lists what it needs)"
fi
