#!/usr/bin/env bash
# Every test, in stages that are targets of the Makefile. A stage that fails does not keep the next from running; the last lines say
# which failed and, if every stage told its numbers, how many tests passed.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

stages=(test-rust test-scenarios test-python)
logs=target/test-logs

# sum WORD LOG: adds up the numbers before WORD on the lines by which cargo, pytest and `weft check` end.
sum() {
    sed -nE -e '/^test result:/p' -e '/^=+ .* in [0-9.]+s.*=+$/p' -e '/^[0-9]+ met, /{s/ met,/ passed,/;s/ missed$/ failed/;p}' "$2" |
        awk -v word="$1" '{ for (i = 2; i <= NF; i++) if ($i ~ "^" word) total += $(i - 1) } END { print total + 0 }'
}

# what_failed LOG: what cargo, pytest and `weft check` say of the tests that failed; else how the log ends.
what_failed() {
    awk '
        /^failures:$/ || /^=+ FAILURES =+$/ { on = 1 }
        /^scenarios\// { scenario = $1 }
        / MISS  / { print scenario ":" $0 }
        on || /^error/ { print }
        /^test result:/ || /^=+ .* in [0-9.]+s.*=+$/ { on = 0 }
    ' "$1" | awk 'NF' | cut -c 1-240 | tail -n 40 | grep . || tail -n 20 "$1"
}

mkdir -p "$logs"
passed=0
failed=0
broken=()
told=true
for stage in "${stages[@]}"; do
    say "make $stage"
    log=$logs/$stage.log
    make "$stage" </dev/null 2>&1 | tee "$log" && status=0 || status=$?
    ok=$(sum passed "$log")
    bad=$(sum failed "$log")
    [ "$status" -eq 0 ] || broken+=("$stage")
    # A stage that broke without a failed test (it did not compile) has tests that nobody has counted.
    if [ "$ok" -eq 0 ] && [ "$bad" -eq 0 ] || [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        told=false
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
done

{
    for stage in "${broken[@]}"; do
        what_failed "$logs/$stage.log"
        printf 'FAILED: make %s (its output: %s/%s.log)\n' "$stage" "$logs" "$stage"
    done
    if $told; then
        printf '%d passed, %d failed\n' "$passed" "$failed"
    fi
} | tee "$logs/summary"
[ ${#broken[@]} -eq 0 ]
