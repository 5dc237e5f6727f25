#!/usr/bin/env bash
# scenarios.sh simulations|labs [K/N]: the shipped scenarios that expect something and are simulated (or evaluated by the planner), or have runs in the lab, a line
# each; of labs every Nth, from the Kth on.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

in_lab='kind"? *= *"lab"'
expecting() {
    grep -rl --include='*.toml' '^\[\[expect\]\]' scenarios | sort
}
case ${1:-} in
    simulations) expecting | xargs grep -LE "$in_lab" ;;
    labs) expecting | xargs grep -lE "$in_lab" | awk -v part="${2:-1/1}" 'BEGIN { split(part, of, "/") } NR % of[2] == of[1] % of[2]' ;;
    *) fail "usage: scenarios.sh simulations|labs [K/N]" ;;
esac
