#!/usr/bin/env bash
# Runs each fuzz target for this many seconds of processor time:
#
#   fuzz/run.sh SECONDS [TARGET…]
#
# A target is a parser: of a protocol between traced processes, by its name in spans; of executables
# (`program`); of what native programs and LTTng write to files (`native`, `ctf`); or of data that is
# sent to the server. `traffic` is all protocols together, including their recognition.
#
# LLVM's coverage instrumentation and libFuzzer work with the stable toolchain. Sanitizers do not,
# but they are hardly needed: the parsers contain no unsafe code, except that texts of a batch are
# not validated again, which is asserted here.
#
# Protocols, OTLP and files start with recorded data (tests/recorded), which is written to fuzz/seeds/.
# Inputs that reach new code are kept in fuzz/corpus/, where the next run continues. Neither
# directory is in the repository. An input that breaks something is saved in fuzz/found/. To repeat
# it:
#
#   fuzz/run.sh 0 TARGET FILE
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?how many seconds of processor time for each target}
shift
protocols=(websocket) # what HTTP/1 goes over to; every other parser has a folder
for folder in ../capture/protocols/src/parsers/*/; do
    protocols+=("$(basename "$folder")")
done
all=("${protocols[@]}" traffic program plugin otlp otap zipkin jaeger jvm native ctf flight compression parameters traceql)
host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-$PWD/target}

# The build has a `--target`, so these flags do not affect build scripts and macros.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --quiet --release --locked --target "$host" --target-dir "$build"

# Chooses the program and the dictionary of a target.
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

# Prints the seconds of user time of the programs that this script has run.
used() {
    awk -v hertz="$(getconf CLK_TCK)" '{ print int($16 / hertz) }' "/proc/$$/stat"
}
export SPANWISE_PLUGIN=$build/stash.wasm
../examples/plugin/build.sh ../examples/plugin/stash.c "$SPANWISE_PLUGIN"
# The library's own test program makes a recording.
make -s -C ../agents/native BUILD="$build/native" "$build/native/library"
export SPANWISE_RECORDED=$build/native/recorded
rm -rf "$SPANWISE_RECORDED"
"$build/native/library" record "$SPANWISE_RECORDED" >/dev/null

if [ "$seconds" = 0 ]; then
    choose "$1"
    exec "$program" "${@:2}"
fi
[ $# -gt 0 ] || set -- "${all[@]}"
mkdir -p found
for target in "$@"; do
    choose "$target"
    # Targets that have seeds write them at startup.
    export FUZZ_SEEDS=seeds/$target
    mkdir -p "corpus/$target" "$FUZZ_SEEDS"
    dictionary=()
    [ ! -f "$words" ] || dictionary+=("-dict=$words")
    log=$(mktemp)
    before=$(used)
    runs=0
    # libFuzzer measures elapsed time. If other programs use the processor, too, it is run again
    # until it has had its share. An input may then appear slow only because it had to wait.
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
