#!/usr/bin/env bash
# What building `weft` needs: a linker, and Rust as new as Cargo.toml says.
# --lint also wants rustfmt and clippy.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

has cc || apt_install build-essential

has cargo || fail "there is no Rust toolchain" "install it from https://rustup.rs, and open a new shell so that cargo is on the PATH"
wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
given=$(rustc --version | cut -d ' ' -f 2)
at_least "$wanted" "$given" || fail "Rust $given is too old: Weft needs $wanted or newer" "rustup update stable"

if [ "${1:-}" = --lint ]; then
    for component in rustfmt clippy; do
        cargo "${component/rust/}" --version >/dev/null 2>&1 && continue
        has rustup || fail "cargo has no $component" "install it with your Rust toolchain"
        say "rustup component add $component"
        rustup component add "$component" >&2 || fail "rustup could not add $component" "see its message above; is the network up?"
    done
fi
