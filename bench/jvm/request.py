#!/usr/bin/env python3
"""What the JVM agent costs a request: processor time and 99th percentile, as ratios to none.

A round starts the same program (`bench.Shelf`, two spans a request) in virtual machines of their own: without an agent,
once more without one, with the agent that keeps all, and with the agent that keeps one trace in 100. Requests arrive at a
steady rate at one of them after the other, in turns whose order alternates. Ratios are within a round; figures are the
medians of the rounds' ratios. The second machine without an agent shows what the measurement itself varies.

The program has a processor of its own. The load and the server that takes the spans share the others. Processor time is
that of the whole program, the thread that sends included. A turn whose spans did not all come in ends the run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "overhead"), str(ROOT / "bench")]
from host import Server, facts, load, running  # noqa: E402
from programs import Programs, end_on_signals, fail, need  # noqa: E402

BUILT = ROOT / "target" / "jvm-bench"
AGENT = ROOT / "target" / "java-helper" / "spanwise-java-helper.jar"
# What is measured, and the agent's options; None for no agent.
WAYS = {"none": None, "none again": None, "100 %": "sampling=1", "1 %": "sampling=100"}
JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")
SPANS = 2
START_SECONDS = 180
# The agent sends after half a second.
SEND_SECONDS = 1
# How many standard deviations chance may move the number of traces that are kept.
DEVIATIONS = 5
QUICK = {"rounds": 1, "turns": 1, "seconds": 1, "warm_seconds": 2}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spanwise", type=pathlib.Path, default=ROOT / "target" / "release" / "spanwise", metavar="PROGRAM")
    parser.add_argument("--requests-program", type=pathlib.Path, metavar="PROGRAM",
                        default=ROOT / "target" / "release" / "spanwise-bench-requests")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turns", type=int, default=4, help="of each way in a round")
    parser.add_argument("--seconds", type=float, default=5, help="of a turn")
    parser.add_argument("--warm-seconds", type=float, default=12, help="of load before a round's turns, for each way")
    parser.add_argument("--rate", type=float, default=3000, help="requests a second")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--quick", action="store_true", help="the least of everything; its figures mean nothing")
    options = parser.parse_args()
    if options.quick:
        for name, value in QUICK.items():
            # What is given beside it counts.
            if getattr(options, name) == parser.get_default(name):
                setattr(options, name, value)
    for path, made_by in ((options.spanwise, "make build"), (AGENT, "make java-helper"), (BUILT / "classes", "make bench-jvm"),
                          (options.requests_program, "cargo build --release -p spanwise-bench-requests")):
        if not path.exists():
            fail(f"{path} is missing: {made_by}")
    need({"java": "default-jre-headless", "taskset": "util-linux"})
    options.spanwise, options.requests_program, options.ports = options.spanwise.resolve(), options.requests_program.resolve(), None
    end_on_signals()
    print(facts(), flush=True)
    with tempfile.TemporaryDirectory(prefix="jvm-request-") as directory:
        options.programs = Programs(directory)
        try:
            with running(Server(options, pathlib.Path(directory))) as server:
                pin(server.process.pid, others())
                rounds = [measure(options, server, number) for number in range(options.rounds)]
        finally:
            options.programs.stop_all()
    report(rounds)


def own():
    """The program's processor."""
    return {min(os.sched_getaffinity(0))}


def others():
    """The processors of the load and of the server; with one processor, all share it."""
    return os.sched_getaffinity(0) - own() or own()


def pin(pid, processors):
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), processors)


def cpu_seconds(process):
    """Processor time of a process with all its threads, also ended ones, to the nanosecond: the kernel's clock of it."""
    return time.clock_gettime(~process.pid << 3 | 2)


def start(options, server, name, settings):
    """A virtual machine with the program, and its port."""
    agent = [] if settings is None else [f"-javaagent:{AGENT}=endpoint=http://127.0.0.1:{server.otlp},service=shelf,{settings}"]
    libraries = [jar for pattern in ("tomcat-*.jar", "h2-*.jar") for jar in sorted((BUILT / "lib").glob(pattern))]
    path = ":".join(map(str, [BUILT / "classes", *libraries]))
    process = options.programs.start(name, "java", *JVM, *agent, "-cp", path, "bench.Shelf", core=processors(own()), stdin=subprocess.PIPE)
    log = options.programs.log(name)
    end = time.monotonic() + START_SECONDS
    while True:
        ports = [line for line in log.read_text().splitlines() if line.startswith("port ")]
        if ports:
            return process, int(ports[-1].split()[1])
        options.programs.check(name, process)
        if time.monotonic() > end:
            fail(f"{name} is not ready after {START_SECONDS} s; see {log}")
        time.sleep(0.1)


def processors(some):
    return ",".join(map(str, sorted(some)))


def steady(options, port, seconds):
    """Requests at a steady rate. Latency counts from when each was due."""
    said = json.loads(options.programs.run(
        "requests", "taskset", "-c", processors(others()), options.requests_program, "--protocol", "http", "--server", f"127.0.0.1:{port}",
        "--rate", options.rate, "--connections", options.connections, "--seconds", seconds, "--path", "/shelf/{}").splitlines()[-1])
    if said["errors"] or not said["answered"]:
        fail(f"requests failed: {said}")
    return said


def measure(options, server, number):
    """A round: processor time of a request in us and the 99th percentile in ms, by way."""
    machines = {}
    cpu, answered, p99 = {way: 0 for way in WAYS}, {way: 0 for way in WAYS}, {way: [] for way in WAYS}
    order = list(WAYS) if number % 2 == 0 else list(WAYS)[::-1]
    try:
        for way in order:
            machines[way] = start(options, server, f"round {number} {way}".replace(" ", "-").replace("%", "percent"), WAYS[way])
        for way in order:
            steady(options, machines[way][1], options.warm_seconds)
        for turn in range(options.turns):
            for way in order if turn % 2 == 0 else order[::-1]:
                process, port = machines[way]
                spans, before = server.settle(), cpu_seconds(process)
                said = steady(options, port, options.seconds)
                time.sleep(SEND_SECONDS)
                cpu[way] += cpu_seconds(process) - before
                answered[way] += said["answered"]
                p99[way].append(said["p99_us"] / 1e3)
                check(way, (server.settle() - spans) / SPANS, said["answered"])
    finally:
        for process, _ in machines.values():
            process.stdin.close()
            options.programs.stop(process)
    found = {way: {"cpu_us": cpu[way] / answered[way] * 1e6, "p99_ms": statistics.median(p99[way])} for way in WAYS}
    print(f"# round {number}: " + ", ".join(f"{way} {each['cpu_us']:.1f} us p99 {each['p99_ms']:.2f} ms" for way, each in found.items())
          + f", load average {load():.1f}", flush=True)
    return found


def check(way, kept, requests):
    """What is fast because it records nothing must not count."""
    wanted = {None: 0, "sampling=1": requests, "sampling=100": requests / 100}[WAYS[way]]
    # All or nothing is no matter of chance.
    within = DEVIATIONS * wanted ** 0.5 + 1 if WAYS[way] == "sampling=100" else 0
    if abs(kept - wanted) > within:
        fail(f"with {way}, {kept:.1f} of {requests} requests came in")


def report(rounds):
    def figure(name, way, key):
        ratios = sorted(each[way][key] / each["none"][key] for each in rounds)
        print(f"figure jvm.{name} {statistics.median(ratios):.4f} 1  # rounds: " + " ".join(f"{ratio:.3f}" for ratio in ratios))

    print(f"figure jvm.request_us {statistics.median(each['none']['cpu_us'] for each in rounds):.1f} us")
    figure("cpu_ratio_none", "none again", "cpu_us")
    figure("cpu_ratio_100pct", "100 %", "cpu_us")
    figure("cpu_ratio_1pct", "1 %", "cpu_us")
    figure("p99_ratio_none", "none again", "p99_ms")
    figure("p99_ratio_100pct", "100 %", "p99_ms")


if __name__ == "__main__":
    main()
