#!/usr/bin/env bash
# Builds the Python package into .venv, from the sources in place: an edited .py file needs no new build.
# Without --release it shares the dependencies that `cargo test` has built.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PIP_QUIET=1 VIRTUAL_ENV="$ROOT/.venv" .venv/bin/maturin develop --quiet --locked "$@" </dev/null
