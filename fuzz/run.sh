#!/usr/bin/env bash
# Runs fuzz targets for some seconds of processor time each:
#   fuzz/run.sh SECONDS [TARGET…]
#
# A target is a parser: of a protocol between traced processes, by its name in
# spans; of their executables (`program`); or of what is sent to the server.
# `traffic` is all protocols together, with the guess which one is spoken.
#
# LLVM's coverage instruments and libFuzzer work with the stable toolchain; only
# the sanitizers do not, and of those there is little need: what parses outside
# bytes here has no unsafe code, but that texts of a batch are not validated
# again, which is asserted here.
#
# Protocols and OTLP begin with what was recorded of them (tests/recorded), which
# is written to fuzz/seeds/. What was learnt is kept in fuzz/corpus/, so that the
# next run goes on from there. Neither is in the repository. An input that breaks
# something is left in fuzz/found/, and is tried again by:
#   fuzz/run.sh 0 TARGET FILE
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?how many seconds of processor time for each target}
shift
protocols=(websocket) # what HTTP/1 goes over to; every other parser has a folder
for folder in ../capture/protocols/src/parsers/*/; do
    protocols+=("$(basename "$folder")")
done
all=("${protocols[@]}" traffic program plugin otlp otap zipkin jaeger flight compression traceql)
host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-$PWD/target}

# The fuzzer's flags reach neither build scripts nor macros, as a target is named.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --quiet --release --locked --target "$host" --target-dir "$build"

# What runs a target, and which dictionary helps it.
choose() {
    program=$build/$host/release/$1
    words=dictionaries/$1
    unset FUZZ_PROTOCOL
    case " traffic ${protocols[*]} " in
        *" $1 "*)
            program=$build/$host/release/traffic
            words=dictionaries/traffic
            export FUZZ_PROTOCOL=$1
            ;;
    esac
}

# Seconds of processor time that what ran from here had, but for the system's.
used() {
    awk -v hertz="$(getconf CLK_TCK)" '{ print int($16 / hertz) }' "/proc/$$/stat"
}
export SPANWISE_PLUGIN=$build/stash.wasm
../examples/plugin/build.sh ../examples/plugin/stash.c "$SPANWISE_PLUGIN"

if [ "$seconds" = 0 ]; then
    choose "$1"
    exec "$program" "${@:2}"
fi
[ $# -gt 0 ] || set -- "${all[@]}"
mkdir -p found
for target in "$@"; do
    choose "$target"
    # Targets that have seeds write them when they start.
    export FUZZ_SEEDS=seeds/$target
    mkdir -p "corpus/$target" "$FUZZ_SEEDS"
    dictionary=()
    [ ! -f "$words" ] || dictionary+=("-dict=$words")
    log=$(mktemp)
    before=$(used)
    runs=0
    # libFuzzer counts time by the clock: where others use the processor, too, it
    # is run again until it has had its share, and an input may seem slow that only
    # had to wait.
    while left=$((seconds - $(used) + before)) && [ "$left" -gt 0 ]; do
        if ! "$program" "corpus/$target" "$FUZZ_SEEDS" "${dictionary[@]}" \
            -max_total_time="$left" -max_len=65536 -len_control=20 -timeout=120 \
            -rss_limit_mb=2048 -artifact_prefix="found/$target-" -print_final_stats=1 2>"$log"; then
            tail -n 40 "$log" >&2
            echo "fuzz: $target broke; the input is in fuzz/found/" >&2
            exit 1
        fi
        runs=$((runs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")))
    done
    edges=$(sed -n 's/.*DONE .*cov: \([0-9]*\).*/\1/p' "$log")
    echo "fuzz: $target held for $(($(used) - before)) s: $runs inputs, $edges edges reached"
    rm -f "$log"
done
