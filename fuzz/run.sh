#!/usr/bin/env bash
# Runs fuzz targets for some seconds each: fuzz/run.sh SECONDS [TARGET…]
#
# LLVM's coverage instruments and libFuzzer work with the stable toolchain; only
# the sanitizers do not, and of those there is little need: what parses outside
# bytes here has no unsafe code.
#
# What was learnt is kept in fuzz/corpus/ (not in the repository), so that the
# next run goes on from there. An input that breaks something is left in
# fuzz/found/, and is tried again by: fuzz/run.sh 0 TARGET FILE
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?how many seconds for each target}
shift
all=(otlp otap zipkin jaeger flight compression traffic plugin)
host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-$PWD/target}

# The fuzzer's flags reach neither build scripts nor macros, as a target is named.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --quiet --release --locked --target "$host" --target-dir "$build"

export SPANWISE_PLUGIN=$build/stash.wasm
../examples/plugin/build.sh ../examples/plugin/stash.c "$SPANWISE_PLUGIN"

if [ "$seconds" = 0 ]; then
    exec "$build/$host/release/$1" "${@:2}"
fi
[ $# -gt 0 ] || set -- "${all[@]}"
mkdir -p found
for target in "$@"; do
    mkdir -p "corpus/$target"
    seeds=()
    [ ! -d "seeds/$target" ] || seeds+=("seeds/$target")
    dictionary=()
    [ ! -f "dictionaries/$target" ] || dictionary+=("-dict=dictionaries/$target")
    log=$(mktemp)
    if ! "$build/$host/release/$target" "corpus/$target" "${seeds[@]}" "${dictionary[@]}" \
        -max_total_time="$seconds" -max_len=65536 -len_control=20 -timeout=10 \
        -rss_limit_mb=2048 -artifact_prefix="found/$target-" -print_final_stats=1 2>"$log"; then
        tail -n 40 "$log" >&2
        echo "fuzz: $target broke; the input is in fuzz/found/" >&2
        exit 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.*DONE .*cov: \([0-9]*\).*/\1/p' "$log")
    echo "fuzz: $target held for $seconds s: $runs inputs, $edges edges reached"
    rm -f "$log"
done
