#!/usr/bin/env bash
# Weft's packet world beside ns-3: the same TCP flows over one switch, completion times in a table.
#
#   benches/ns3/run.sh [CASE...]
#
# WEFT chooses another program than target/release/weft.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

weft=${WEFT:-target/release/weft}
has "$weft" || fail "there is no $weft" "make build"

out=target/ns3
mkdir -p "$out"
if [ ! -x "$out/venv/bin/python" ]; then
    has python3 || apt_install python3 python3-venv
    python3 -m venv "$out/venv"
fi
# ns-3 as a package of PyPI, with cppyy, which compiles star.cpp against it.
"$out/venv/bin/python" -c 'import ns' 2>/dev/null || {
    say "pip install ns3"
    "$out/venv/bin/pip" install -q 'ns3==3.44.post0' >&2 || fail "pip could not install ns3" "see its message above; is the network up?"
}
"$out/venv/bin/python" benches/ns3/side_by_side.py --weft "$weft" --out "$out" "$@"
