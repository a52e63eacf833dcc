#!/bin/sh
# Prints the figures of the JVM agent. Started by `make bench-jvm`, which builds what it needs:
#
#     run.sh SPANWISE REQUESTS [--quick]
#
# With --quick, everything runs once and briefly, to see that it runs. Its figures mean nothing.
set -eu
spanwise=$1
requests=$2
quick=${3:-}
cd "$(dirname "$0")/../.."
jar=target/java-helper/spanwise-java-helper.jar
path="target/jvm-bench/classes:target/jvm-bench/lib/*"
results=target/jvm-bench/results.csv
log=target/jvm-bench/log.txt

# A span.
java -cp "$path" org.openjdk.jmh.Main SpanBench -prof gc -rf csv -rff "$results" \
    ${quick:+-f 1 -wi 1 -w 300ms -i 1 -r 300ms} >"$log" || { cat "$log" >&2; exit 1; }
# Benchmark, mode, threads, samples, score, error, unit, parameter.
tr -d '"' <"$results" | awk -F, '
    $1 ~ /span$/ && $8 == 1 { printf "figure jvm.span_kept_ns %.1f ns\n", $5 }
    $1 ~ /alloc.rate.norm$/ && $8 == 1 { printf "figure jvm.span_kept_bytes_allocated %.2f B\n", $5 }
    $1 ~ /span$/ && $8 == 4000 { printf "figure jvm.span_unsampled_ns %.1f ns\n", $5 }'

# What is sent and kept, and whether links are right: figures of tests.
mvn -q -B -f tests/jvm/pom.xml test -Dtest=SamplingTest,EventLoopTest >"$log" || { cat "$log" >&2; exit 1; }
grep -o 'figure jvm.*' "$log"

# CPU of a small program that ends at once, in hundredths of a second: the least of five, in turns.
# The times of ended children are the fields 16 and 17.
cpu() {
    before=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
    java "$@" -cp "$path" org.openjdk.jmh.Main -l >/dev/null 2>&1
    after=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
    spent=$((after - before))
}
none=1000000
agent=1000000
for _ in 1 ${quick:-2 3 4 5}; do
    cpu
    [ "$spent" -ge "$none" ] || none=$spent
    cpu "-javaagent:$jar=endpoint=http://127.0.0.1:1"
    [ "$spent" -ge "$agent" ] || agent=$spent
done
awk -v more=$((agent - none)) 'BEGIN { printf "figure jvm.startup_cpu_s %.2f s\n", more / 100 }'

# A request.
bench/jvm/request.py --spanwise "$spanwise" --requests-program "$requests" $quick
