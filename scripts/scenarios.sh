#!/usr/bin/env bash
# scenarios.sh simulations|labs: the shipped scenarios that expect something and are simulated, or have runs in the lab, a line each. Those of traffic matrices
# are neither: `weft optimum` routes them, in the planner's own tests.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

in_lab='kind"? *= *"lab"'
of_matrices='^(matrices *=|pattern *= *"volatile")'
expecting() {
    grep -rl --include='*.toml' '^\[\[expect\]\]' scenarios | xargs grep -LE "$of_matrices" | sort
}
case ${1:-} in
    simulations) expecting | xargs grep -LE "$in_lab" ;;
    labs) expecting | xargs grep -lE "$in_lab" ;;
    *) fail "usage: scenarios.sh simulations|labs" ;;
esac
