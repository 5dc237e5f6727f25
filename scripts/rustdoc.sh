#!/usr/bin/env bash
# rustdoc.sh ARGUMENT...: what `cargo test --doc` calls as RUSTDOC, to document each crate instead of running its examples. `cargo doc` would compile all
# dependencies once more, without code; this takes the libraries that the tests have built. Used by `make docs` in CI.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

arguments=()
documents=false
name=
while [ $# -gt 0 ]; do
    case $1 in
        --crate-name)
            name=$2
            arguments+=("$1")
            ;;
        # Examples are given the crate that they are of; its documentation has it anyway, and by this name `cargo doc` would not.
        --extern)
            [ "${2%%=*}" = "$name" ] || arguments+=("$1" "$2")
            shift
            ;;
        --test) documents=true ;;
        --test-*) [[ $1 == *=* ]] || shift ;;
        --no-run) ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
if $documents; then
    arguments+=(--out-dir "${CARGO_TARGET_DIR:-$ROOT/target}/doc")
fi
exec rustdoc "${arguments[@]}"
