#!/usr/bin/env python3
"""Agent memory and loss under a steady load of mixed protocols.

Real servers of nine protocols on free ports, real clients that keep a rate, an agent, and a sink
for its spans. Samples the agent's resident memory, and compares the responses that each client
reports with the agent's spans. There are two spans for each request, because both ends are on this
host.

    soak.py --spanwise target/release/spanwise \\
            --sink target/release/spanwise-bench-sink \\
            --requests target/release/spanwise-bench-requests [--rate 20000] [--seconds 600]
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loads  # noqa: E402
import servers  # noqa: E402
from programs import (  # noqa: E402
    Programs, Sink, busy_and_all, cpu_seconds, end_on_signals, fail, memory_mb, need, start_agent)

REPORT_EVERY_SECONDS = 30
# Additional time for slow clients.
LATE_SECONDS = 60
# Spans that end by silence, and the sink's report, take a moment.
SETTLE_SECONDS = 8
SIDES = ("client-process", "server-process")
# Counters of lost, dropped or unparsed data.
LOSSES = ("lost", "dropped", "evicted", "gap_bytes", "orphan", "timed_out", "over_limit", "unbuilt", "malformed",
          "undecodable", "resynchronised", "heads_cut", "without_socket", "without_opening", "unknown_protocol")


def spans_by_port(report):
    """Number of spans by capture point, protocol and port."""
    found = {}
    for entry in report["kinds"]:
        kind = entry["kind"]
        key = kind["capture"], kind["protocol"], kind["server_port"]
        found[key] = found.get(key, 0) + entry["rows"]
    return found


def slope_per_minute(samples):
    """Least squares over (seconds, value)."""
    count = len(samples)
    mean_time = sum(time for time, _ in samples) / count
    mean_value = sum(value for _, value in samples) / count
    spread = sum((time - mean_time) ** 2 for time, _ in samples)
    return 60 * sum((time - mean_time) * (value - mean_value) for time, value in samples) / spread


def watch(agent, load, programs, seconds):
    """The agent's resident memory every second, until the load ends."""
    start = time.monotonic()
    samples = []
    while (elapsed := time.monotonic() - start) < seconds:
        programs.check("the agent", agent)
        load.check()
        samples.append((elapsed, memory_mb(agent, "VmRSS")))
        if len(samples) % REPORT_EVERY_SECONDS == 0:
            print(f"{elapsed:5.0f} s  agent {samples[-1][1]:.1f} MB", flush=True)
        time.sleep(max(0.0, start + len(samples) - time.monotonic()))
    load.wait(LATE_SECONDS)
    return samples


def compare(answered, ports, before, after):
    """Prints requests and spans. Returns the expected number of spans, and how many are missing."""
    print(f"\n{'protocol':<12}{'answered':>10}{'client spans':>14}{'server spans':>14}{'missing':>9}")
    expected = missing = 0
    for name, count in answered.items():
        protocol = loads.PROTOCOLS.get(name, name)
        made = [after.get(key, 0) - before.get(key, 0)
                for key in ((side, protocol, ports[name]) for side in SIDES)]
        lacking = sum(max(0, count - spans) for spans in made)
        expected += len(SIDES) * count
        missing += lacking
        print(f"{name:<12}{count:>10}{made[0]:>14}{made[1]:>14}{lacking:>9}")
        for key in after:
            if key[2] == ports[name] and (key[1] != protocol or key[0] not in SIDES):
                print(f"{'':<12}{after[key] - before.get(key, 0):>10} spans of {key[1] or 'no protocol'}, {key[0]}")
    return expected, missing


def run(options, directory, programs):
    sink = Sink(programs, options.sink, kinds=True)
    agent = start_agent(programs, options.spanwise, sink.url)
    ports = servers.Servers(programs).ports
    load = loads.Loads(programs, options.requests, ports, options.rate, options.seconds)
    load.prepare()
    time.sleep(SETTLE_SECONDS)
    before, counters_before = spans_by_port(sink.report()), sink.counters()
    cpu_before, busy_before = cpu_seconds(agent), busy_and_all()
    load.start()
    samples = watch(agent, load, programs, options.seconds)
    agent_cpu = cpu_seconds(agent) - cpu_before
    busy, ticks = (now - then for now, then in zip(busy_and_all(), busy_before))
    time.sleep(SETTLE_SECONDS)
    programs.check("the agent", agent)
    after, counters = spans_by_port(sink.report()), sink.counters()
    answered = load.answered()
    requests = sum(answered.values())
    expected, missing = compare(answered, ports, before, after)
    print("\nwhat the agent counted as lost, given up or not understood:")
    changed = {name: count - counters_before.get(name, 0) for name, count in counters.items()
               if any(word in name for word in LOSSES) and count != counters_before.get(name, 0)}
    for name, count in sorted(changed.items()):
        print(f"  {name} {count}")
    if not changed:
        print("  nothing")
    print(f"\nthe machine's processors were {busy / ticks:.0%} busy, the agent's share was "
          f"{agent_cpu / samples[-1][0]:.0%} of one")
    print(f"figure soak.rate {requests / options.seconds:.0f} requests/s")
    print(f"figure soak.peak_rss_mb {memory_mb(agent, 'VmHWM'):.1f} MB")
    print(f"figure soak.rss_mb_per_minute {slope_per_minute(samples[len(samples) // 2:]):.3f} MB/min")
    print(f"figure soak.lost_share {missing / expected:.7f} 1")
    print(f"figure soak.agent_us_per_request {agent_cpu / requests * 1e6:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True, type=pathlib.Path)
    parser.add_argument("--sink", required=True, type=pathlib.Path)
    parser.add_argument("--requests", required=True, type=pathlib.Path)
    parser.add_argument("--rate", type=int, default=20_000, help="requests a second (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    for name in ("spanwise", "sink", "requests"):
        path = getattr(options, name).resolve()
        if not path.exists():
            fail(f"{path} is not there; `make bench-soak` builds it")
        setattr(options, name, path)
    need(servers.PACKAGES | loads.PACKAGES)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-soak-"))
    directory.chmod(0o755)
    programs = Programs(directory)
    end_on_signals()
    try:
        run(options, directory, programs)
    finally:
        programs.stop_all()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
