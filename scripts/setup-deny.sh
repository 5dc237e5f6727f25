#!/usr/bin/env bash
# cargo-deny in .tools/bin, unless a new enough one is on the PATH.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=0.20.2
oldest=0.18.0

for deny in .tools/bin/cargo-deny cargo-deny; do
    if has "$deny" && at_least "$oldest" "$("$deny" --version | cut -d ' ' -f 2)"; then
        exit 0
    fi
done
install_tool cargo-deny "$version"
