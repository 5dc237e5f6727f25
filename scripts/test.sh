#!/usr/bin/env bash
# test.sh [TARGET...]: every test, in stages that are targets of the Makefile. All is built once. Then the simulations are compared with the papers
# beside the tests of daemons, which wait more than they compute: they have the processors only while nobody else wants them, so that not even labs,
# which measure real time, wait for them. Beside the labs run so the Rust tests that only compute, the Python tests, and the TARGETs (.ci/run: lints).
# Two labs stand at a time where they leave the processors to others.
# A stage that fails does not keep the next from running. The last lines name the slowest tests and those that failed, with their messages, and count them
# all.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

logs=target/test-logs
beside=(test-simulations test-python test-computing "$@")
labs=(test-labs-1 test-labs-2 test-labs-3)
stages=(build-tests test-daemons "${beside[@]}" "${labs[@]}")

# run_stage STAGE: runs it with its output in a log, too; its exit code and its time go to files beside the log.
run_stage() {
    local began=$SECONDS status
    say "make $1"
    make "$1" </dev/null 2>&1 | tee "$logs/$1.log" && status=0 || status=$?
    printf '%d\n' "$status" >"$logs/$1.status"
    say "make $1: $((SECONDS - began)) s"
}

# start_idle STAGE...: runs them one after the other in the background, at idle priority; their output is shown at the end.
background=()
start_idle() {
    (
        renice -n 19 -p "$BASHPID" >/dev/null
        chrt --idle --pid 0 "$BASHPID" || true
        for stage in "$@"; do
            run_stage "$stage" >"$logs/$stage.output" 2>&1
        done
    ) &
    background+=($!)
}

# count WORD LOG: adds up the numbers before WORD on the lines by which nextest, cargo, pytest and `weft check` end.
count() {
    sed -nE -e 's/^ +Summary \[.*\] [0-9]+ tests? run: //p' -e 's/^test result://p' -e '/^=+ .* in [0-9.]+s.*=+$/p' \
        -e '/^[0-9]+ OK, [0-9]+ known misses, /{s/ OK,/ passed,/;s/ missed(,|$)/ failed\1/;p}' "$2" |
        awk -v word="$1" '{ for (i = 2; i <= NF; i++) if ($i ~ "^" word) total += $(i - 1) } END { print total + 0 }'
}

# what_failed LOG: what nextest, cargo, pytest and `weft check` print about the tests that failed; else how the log ends.
what_failed() {
    awk '
        /^ +Summary \[/ { ended = 1 }
        ended && /^ +(FAIL|TIMEOUT|SIG[A-Z]+|ABORT|TRY [0-9]+ FAIL) +\[/ { print; message = 0 }
        ended && / panicked at |^ +Error: / { message = 8 }
        ended && /stack backtrace:|^ *note: run with/ { message = 0 }
        message > 0 { print; message-- }
        /^failures:$/ || /^=+ FAILURES =+$/ { on = 1 }
        /^scenarios\// { scenario = $1 }
        /^ *MISS +[^[ ]/ { print scenario ":" $0 }
        on || /^error/ { print }
        /^test result:/ || /^=+ .* in [0-9.]+s.*=+$/ { on = 0 }
    ' "$1" | awk 'NF' | cut -c 1-240 | tail -n 40 | grep . || tail -n 20 "$1"
}

# slowest: the ten tests and scenarios that took longest, in seconds.
slowest() {
    {
        sed -nE 's/^ +(TRY [0-9]+ )?(PASS|FAIL|TIMEOUT|LEAK|FLAKY [0-9/]+) +\[ *([0-9.]+)s\] \([^)]*\) /\3 /p' \
            "$logs/test-daemons.log" "$logs/test-computing.log"
        sed -nE 's/^([0-9.]+)s +(call|setup|teardown) +(.*)/\1 \3/p' "$logs/test-python.log"
        cat "$logs/test-simulations.log" "$logs"/test-labs-*.log |
            sed -nE -e 's/^(scenarios[^ ]*) \(([0-9.]+) ms\):.*/0 \1/p' -e 's/^(scenarios[^ ]*) \(([0-9.]+) s\):.*/\2 \1/p' \
                -e 's/^(scenarios[^ ]*) \(([0-9]+) min ([0-9]+) s\):.*/\2 \3 \1/p' | awk 'NF == 3 { print $1 * 60 + $2, $3; next } { print }'
    } | sort -rnu | sed -n 1,10p | awk '{ seconds = $1; $1 = ""; printf "%8.1f s %s\n", seconds, $0 }'
}

rm -rf "$logs"
mkdir -p "$logs"
run_stage build-tests
if [ "$(cat "$logs/build-tests.status")" -eq 0 ]; then
    lab=
    trap 'kill "${background[@]}" $lab 2>/dev/null || true' EXIT
    start_idle test-simulations
    run_stage test-daemons
    # Not before: beside those, which leave no processor idle for long, a Python test might wait longer than it allows; and one build at a time.
    start_idle test-python test-computing "$@"
    run_stage test-labs-1 &
    lab=$!
    run_stage test-labs-2
    wait "$lab"
    run_stage test-labs-3
    wait "${background[@]}"
    trap - EXIT
    for stage in "${beside[@]}"; do
        cat "$logs/$stage.output"
    done
fi

passed=0
failed=0
broken=()
complete=true
for stage in "${stages[@]}"; do
    # Without a build there are no stages after it.
    [ -e "$logs/$stage.log" ] || continue
    ok=$(count passed "$logs/$stage.log")
    bad=$(count failed "$logs/$stage.log")
    # A stage that broke without a failed test (it did not compile) has tests that nobody has counted.
    if [ "$(cat "$logs/$stage.status")" -ne 0 ]; then
        broken+=("$stage")
        [ "$bad" -gt 0 ] || [[ $stage != test-* ]] || complete=false
    fi
    [[ $stage != test-* ]] || [ $((ok + bad)) -gt 0 ] || complete=false
    passed=$((passed + ok))
    failed=$((failed + bad))
done

{
    if [ -e "$logs/test-daemons.log" ]; then
        echo "the slowest tests and scenarios:"
        slowest
        grep -E '^ +FLAKY [0-9/]+ ' "$logs/test-daemons.log" | sort -u || true
    fi
    for stage in "${broken[@]}"; do
        what_failed "$logs/$stage.log"
        printf 'FAILED: make %s (its output: %s/%s.log)\n' "$stage" "$logs" "$stage"
    done
    if $complete; then
        printf '%d passed, %d failed\n' "$passed" "$failed"
    fi
} | tee "$logs/summary"
[ ${#broken[@]} -eq 0 ]
