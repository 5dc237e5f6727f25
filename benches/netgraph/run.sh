#!/usr/bin/env bash
# Weft's maximum flows, edge connectivity and bisection beside NetGraph's: the same fabrics, results compared, times in a table.
#
#   benches/netgraph/run.sh [--cases N] [--seed N] [--repeat N]
#
# WEFT_PLANNER chooses another program than target/release/weft-planner.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

planner=${WEFT_PLANNER:-target/release/weft-planner}
if [ -z "${WEFT_PLANNER:-}" ]; then
    say "cargo build --release --package weft-planner"
    cargo build --release --package weft-planner --bin weft-planner >&2 || fail "weft-planner could not be built" "see the message above"
fi
has "$planner" || fail "there is no $planner" "leave WEFT_PLANNER out, or name a program that exists"

venv=.tools/netgraph
if [ ! -x "$venv/bin/python" ]; then
    has python3 || apt_install python3 python3-venv
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'from importlib.metadata import version as v; assert (v("ngraph"), v("netgraph-core")) == ("0.24.1", "0.11.0")' 2>/dev/null || {
    say "pip install ngraph"
    "$venv/bin/pip" install -q --disable-pip-version-check 'ngraph==0.24.1' 'netgraph-core==0.11.0' >&2 ||
        fail "pip could not install ngraph" "see its message above; is the network up, and Python 3.11 or newer?"
}
"$venv/bin/python" benches/netgraph/side_by_side.py --planner "$planner" --out target/netgraph "$@"
