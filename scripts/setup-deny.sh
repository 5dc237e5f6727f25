#!/usr/bin/env bash
# cargo-deny in .tools/bin, unless a new enough one is on the PATH.
#
# It is built without optimisation and debug information: about a minute on two cores, where a release build takes many, and checking
# this workspace takes two seconds either way. PyPI's prebuilt wheels end at 0.14, which cannot read today's `cargo metadata`.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=0.20.2
oldest=0.18.0

for deny in .tools/bin/cargo-deny cargo-deny; do
    if has "$deny" && at_least "$oldest" "$("$deny" --version | cut -d ' ' -f 2)"; then
        exit 0
    fi
done

say "building cargo-deny $version into .tools (about a minute)"
CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_INCREMENTAL=false CARGO_TARGET_DIR="$ROOT/.tools/target" \
    cargo install --quiet --locked --no-default-features --profile dev --root .tools "cargo-deny@$version" ||
    fail "cargo-deny could not be built" "see cargo's message above; is crates.io reachable?"
rm -rf .tools/target
