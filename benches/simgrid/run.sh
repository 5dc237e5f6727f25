#!/usr/bin/env bash
# Weft's flow world beside SimGrid: the same flows over the same paths, results compared flow by flow, times in a table.
#
#   benches/simgrid/run.sh [CASE...] [--runs N] [--limit SECONDS] [--cfg NAME:VALUE]... [--scenarios DIR]
#
# WEFT and PYTHON (with pyarrow) choose other programs than target/release/weft and .venv/bin/python.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

weft=${WEFT:-target/release/weft}
has "$weft" || fail "there is no $weft" "make build"
scripts/setup-simgrid.sh
if [ -z "${PYTHON:-}" ]; then
    scripts/setup-python.sh
    PYTHON=.venv/bin/python
fi

out=target/simgrid
source=benches/simgrid/side_by_side.cpp
mkdir -p "$out"
if [ ! -x "$out/side_by_side" ] || [ "$source" -nt "$out/side_by_side" ]; then
    say "compiling $source"
    "${CXX:-g++}" -O2 -std=c++17 -Wall -Wextra "$source" -lsimgrid -o "$out/side_by_side"
fi

# Without cases: those of the flow world that SimGrid has a figure for.
cases=(flow-8192-8192 flow-1024-8192 flow-8192-50000)
case "${1:-}" in
'' | -*) set -- "${cases[@]}" "$@" ;;
esac
"$PYTHON" benches/simgrid/compare.py --weft "$weft" --simgrid "$out/side_by_side" --out "$out" "$@"
