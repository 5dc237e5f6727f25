#!/usr/bin/env bash
# scenarios.sh simulations|labs [1|2|3]: the shipped scenarios that expect something and are simulated (or evaluated by the planner), or have runs in the lab, a line
# each; of labs those of a part. Labs of parts 1 and 2 wait more than they compute, those of part 3 need all processors.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

in_lab='kind"? *= *"lab"'
expecting() {
    grep -rl --include='*.toml' '^\[\[expect\]\]' scenarios | sort
}
case ${1:-} in
    simulations) expecting | xargs grep -LE "$in_lab" ;;
    labs)
        expecting | xargs grep -lE "$in_lab" | case ${2:-} in
            '') cat ;;
            1) grep '^scenarios/hedera/' ;;
            2) grep -E '^scenarios/(netlord|subways)/' ;;
            3) grep -vE '^scenarios/(hedera|netlord|subways)/' ;;
            *) fail "labs have parts 1, 2 and 3" ;;
        esac
        ;;
    *) fail "usage: scenarios.sh simulations|labs [1|2|3]" ;;
esac
