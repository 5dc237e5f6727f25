#!/usr/bin/env bash
# Builds the Python package into .venv, from the sources in place: an edited .py file needs no new build.
# Without --release it shares the dependencies that `cargo test --workspace` has built, which maturin, that builds one crate alone, would build again.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [ $# -gt 0 ] || [ "$(uname -s)" != Linux ]; then
    PIP_QUIET=1 VIRTUAL_ENV="$ROOT/.venv" .venv/bin/maturin develop --quiet --locked "$@" </dev/null
    exit
fi
# With examples cargo takes the features that tests ask for too, as `cargo test` does: without them all crates would be built once more.
cargo build --quiet --locked --workspace --lib --examples
# In one step: Python tests may run already.
built=$(mktemp python/weft/_weft.XXXXXX)
install -m 755 "${CARGO_TARGET_DIR:-target}/debug/lib_weft.so" "$built"
mv "$built" python/weft/_weft.abi3.so
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$ROOT/python" >"$site/weft.pth"
