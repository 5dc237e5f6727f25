#!/usr/bin/env bash
# cargo-nextest in .tools/bin, unless a new enough one is on the PATH. It runs the Rust tests side by side, each in a process of its own.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=0.9.148
oldest=0.9.100 # of what .config/nextest.toml uses

for nextest in .tools/bin/cargo-nextest cargo-nextest; do
    if has "$nextest" && at_least "$oldest" "$("$nextest" nextest --version | sed -n '1s/^cargo-nextest \([0-9.]*\).*/\1/p')"; then
        exit 0
    fi
done
install_tool cargo-nextest "$version"
