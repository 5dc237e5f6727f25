#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...]: fuzzes each reader of outside bytes (or these) for so long, with the stable compiler's coverage and libFuzzer. Inputs that were
# worth keeping stay in target/fuzz/corpus, one that fails is kept in target/fuzz/failures and named.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 1 ] || fail "usage: fuzz.sh SECONDS [TARGET...]"
seconds=$1
shift
[ $# -gt 0 ] || set -- $(ls fuzz/fuzz_targets | sed 's/\.rs$//')

triple=$(rustc -vV | sed -n 's/^host: //p')
folder=target/fuzz
coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks)
say "building $# fuzz targets"
CARGO_TARGET_DIR=$folder/build RUSTFLAGS="${coverage[*]}" cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$triple" \
    --config profile.release.lto=false "${@/#/--bin=}"

mkdir -p "$folder/failures"
# What the readers take: a mutation of it comes farther than random bytes.
seed() {
    case $1 in
        scenario) find scenarios -name '*.toml' ;;
        traffic_* | topology_* | planner_*) find scenarios/data -type f -not -name '*.toml' ;;
    esac
}
failed=()
for target; do
    corpus=$folder/corpus/$target
    mkdir -p "$corpus"
    seed "$target" | while read -r file; do cp "$file" "$corpus/$(basename "$file")"; done
    say "$target: $seconds s"
    "$folder/build/$triple/release/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$folder/failures/$target-" "$corpus" >"$folder/$target.log" 2>&1 ||
        { failed+=("$target"); tail -n 20 "$folder/$target.log" >&2; }
    sed -n 's/^stat::number_of_executed_units: */    inputs: /p' "$folder/$target.log" >&2
done
[ ${#failed[@]} -eq 0 ] || fail "failed: ${failed[*]}" "the inputs are in $folder/failures; run the target with one as its argument"
