#!/usr/bin/env bash
# `make run`: run.sh PROGRAM [SCENARIO]. Without a scenario: the first one, and then VL2 whole on real packets beside the simulation, for which it takes root.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

weft=$1
if [ -n "${2:-}" ]; then
    exec "$weft" run "$2"
fi

"$weft" run scenarios/first.toml

lab=scenarios/vl2/lab-first.toml
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
    scripts/setup-lab.sh
    say "this machine as a data centre: 8 hosts and 6 switches in namespaces, VL2's agents and directory, the kernel's TCP; beside it the simulation"
    "$weft" run "$lab"
else
    say "VL2 in simulation"
    "$weft" run "$lab"
    say "as root on Linux the same runs on real packets too: sudo make run ('$weft lab doctor' tells what it needs)"
fi
