#!/usr/bin/env python3
"""What tracing costs whole applications, and what it shows of them.

Like Figure 16 of DeepFlow's paper: real applications under load, with and without the agent in
turns of alternating order. In each turn, wrk first sends as much as is answered (throughput,
latencies). Then requests arrive at a lower steady rate (latencies, processor time). Figures are
medians of the changes within pairs of turns. The agent sends to a sink, because a server would run
on another host. So would the clients that the load represents. The agent's filter excludes them.

This is done twice. Apart: the application has its own processor, and agent, sink and load share
the others, so the hooks alone slow it down. Together: all share all processors, so the agent's own
processor time counts, too.

    end_to_end.py --spanwise target/release/spanwise \\
                  --sink target/release/spanwise-bench-sink \\
                  --requests target/release/spanwise-bench-requests \\
                  [--app spring] [--app shop] [--layout apart] [--layout together]
                  [--url http://127.0.0.1:8080/owners/{} --items 10 --name petclinic --process PID]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from applications import Running, Shop, Spring, address  # noqa: E402
from programs import (  # noqa: E402
    Programs, Sink, bpf_account, bpf_runs, busy_and_all, cpu_seconds, end_on_signals, fail, family, family_seconds,
    free_port, need, start_agent, wait_for)

APPLICATIONS = {"spring": Spring, "shop": Shop}
SETTINGS = ("without", "with")
# In the first seconds, an agent examines all programs.
SETTLE_SECONDS = 2
WARM_SECONDS = 2
# Share of the throughput without an agent.
STEADY_SHARE = 0.5
# Maximum share of failed requests. A shop's products may be sold out.
MOST_FAILED_SHARE = 0.01
TRACES_SECONDS = 5
# Time for assembly to finish.
ASSEMBLY_SECONDS = 5
# The load represents clients on other hosts.
EXCEPT_LOAD = ("--except", "service=wrk,service=spanwise-bench-requests")
# Counters of events that break traces.
TRACE_COUNTERS = ("events_lost_in_kernel", "fragments_ambiguous", "processes_without_thread_discipline")
UNITS = {"us": 1e-3, "ms": 1, "s": 1e3, "m": 60e3}
PERCENTILES = ("p50", "p90", "p99")
LAYOUTS = ("apart", "together")
MODES = {"full": "as much as is answered", "steady": "at a steady rate"}


class Layout:
    """The processors of the application, and those of agent, sink and load."""

    def __init__(self, name, application, others):
        self.name = name
        self.application = application
        self.others = others

    @property
    def core(self):
        """The processors of agent and load, for taskset."""
        return ",".join(map(str, sorted(self.others)))

    def load(self, command):
        """The command of a load, pinned to its core."""
        return ["taskset", "-c", self.core, command]


def layouts():
    """By name. With one processor, nothing can be apart."""
    every = os.sched_getaffinity(0)
    first = {min(every)}
    found = {"together": Layout("together", every, every)}
    return ({"apart": Layout("apart", first, every - first)} if every - first else {}) | found


def arrange(options, sink, layout):
    """Moves running processes to their processors."""
    for process in options.services:
        pin(process, layout.application)
    pin(sink.process, layout.others)
    options.layout = layout


def pin(process, cores):
    """Moves all threads of a program and of its descendants. Their new threads follow."""
    for pid in family(process.pid):
        for thread in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


def full_load(application, options, seconds, connections=None):
    """Maximum throughput: requests/s, latencies in ms, and the application's processor time for
    each request in us.
    """
    busy = application_seconds(options)
    said = options.programs.run("wrk", *options.layout.load("wrk"), "--latency", "-t1", f"-c{connections or options.connections}",
                                f"-d{seconds}s", "--timeout", "10s", "-s", application.script, application.url,
                                "--", application.paths[0], application.items)
    busy = application_seconds(options) - busy
    count = int(re.search(r"(\d+) requests in ", said)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    if "Socket errors" in said or failed and int(failed[1]) > MOST_FAILED_SHARE * count:
        fail(f"{application.name} fails under load:\n{said}")
    latencies = {}
    for name in PERCENTILES:
        value, unit = re.search(rf"{name[1:]}%\s+([\d.]+)(us|ms|s|m)\b", said).groups()
        latencies[name] = float(value) * UNITS[unit]
    return {"rate": rate, "count": count, "services_cpu_us": busy / count * 1e6, **latencies}


def application_seconds(options):
    """Processor time of the application's processes and their descendants, in seconds. Unknown for
    an application that was already running.
    """
    return sum(family_seconds(process.pid) for process in options.services)


def steady_load(application, options, rate, seconds):
    """Requests at this rate: latencies in ms, and the host's processor time for each request in
    us.
    """
    paths = [word for path in application.paths for word in ("--path", path)]
    busy = busy_and_all()[0]
    said = options.programs.run(
        "requests", *options.layout.load(options.requests), "--protocol", "http", "--server", address(application), "--rate", rate,
        "--connections", options.connections, "--seconds", seconds, "--items", application.items, *paths)
    busy = busy_and_all()[0] - busy
    done = json.loads(said)
    if done["errors"] > MOST_FAILED_SHARE * done["answered"]:
        fail(f"{application.name} fails at a steady load: {said}")
    return {"cpu_us": busy / done["answered"] * 1e6} | {name: done[f"{name}_us"] / 1e3 for name in PERCENTILES}


def turn(application, setting, options, sink, rate):
    """One turn of a setting. `rate` is for the steady load; None means half of the measured
    throughput.
    """
    programs = options.programs
    agent = None
    if setting == "with":
        agent = start_agent(programs, options.spanwise, sink.url, *EXCEPT_LOAD, core=options.layout.core)
    time.sleep(SETTLE_SECONDS)
    full_load(application, options, WARM_SECONDS)
    began, cpu = time.monotonic(), cpu_seconds(agent) if agent else 0
    lost = lost_events(sink) if agent else 0
    found = {"full": full_load(application, options, options.seconds)}
    if agent:
        processors = (cpu_seconds(agent) - cpu) / (time.monotonic() - began)
        found["agent_us"] = processors / found["full"]["rate"] * 1e6
    rate = rate or found["full"]["rate"] * STEADY_SHARE
    found["steady"] = steady_load(application, options, rate, options.seconds)
    if agent:
        programs.check("the agent", agent)
        time.sleep(1)
        found["lost"] = lost_events(sink) - lost
        programs.stop(agent)
    return found


def hooks(application, options, sink):
    """The hooks' own cost for each request, according to the kernel: number of runs, their time in
    us, and that time as a share of the application's processor time.
    """
    agent = start_agent(options.programs, options.spanwise, sink.url, *EXCEPT_LOAD, core=options.layout.core)
    time.sleep(SETTLE_SECONDS)
    full_load(application, options, WARM_SECONDS)
    with bpf_account():
        runs, seconds = bpf_runs(agent)
        load = full_load(application, options, options.seconds)
        runs, seconds = (after - before for after, before in zip(bpf_runs(agent), (runs, seconds)))
    options.programs.stop(agent)
    us = seconds / load["count"] * 1e6
    return {"runs": runs / load["count"], "us": us, "share": us / load["services_cpu_us"] if load["services_cpu_us"] else None}


def lost_events(sink):
    return sink.counters().get("kernel_events_lost_ring_full", 0)


def measure(application, options, sink):
    """Pairs of turns, the steady rate, and the cost of hooks."""
    print(f"\n{application.name}, {options.layout.name}", file=sys.stderr)
    full_load(application, options, options.seconds)
    rate = full_load(application, options, options.seconds)["rate"] * STEADY_SHARE
    pairs = []
    for index in range(options.pairs):
        order = SETTINGS if index % 2 == 0 else SETTINGS[::-1]
        found = {setting: turn(application, setting, options, sink, rate) for setting in order}
        pairs.append(found)
        kept = found["with"]["full"]["rate"] / found["without"]["full"]["rate"]
        print(f"pair {index + 1} of {options.pairs}: {found['without']['full']['rate']:.0f} requests/s without, "
              f"{found['with']['full']['rate']:.0f} with: {kept:.3f}", file=sys.stderr)
    return pairs, rate, hooks(application, options, sink)


def spans_per_trace(application, options, otlp_port):
    """With one connection and with all: number of traces by number of spans, most frequent first.
    """
    programs = options.programs
    grpc, http = free_port(), free_port()
    off = [word for name in ("--zipkin", "--jaeger-grpc", "--jaeger-http", "--jaeger-udp-compact",
                             "--jaeger-udp-binary") for word in (name, "off")]
    data = programs.directory / f"data-{application.name}"
    server = programs.start(
        "server", options.spanwise, "server", "--data", data, "--http", f"127.0.0.1:{http}",
        "--otlp-grpc", f"127.0.0.1:{grpc}", "--otlp-http", f"127.0.0.1:{otlp_port}", *off)
    wait_for(http)
    wait_for(grpc)
    agent = start_agent(programs, options.spanwise, f"http://127.0.0.1:{grpc}", *EXCEPT_LOAD)
    time.sleep(SETTLE_SECONDS)
    full_load(application, options, WARM_SECONDS)
    found = []
    for connections in (1, options.connections):
        time.sleep(ASSEMBLY_SECONDS)
        begin = time.time_ns()
        full_load(application, options, TRACES_SECONDS, connections)
        time.sleep(ASSEMBLY_SECONDS)
        found.append(assembled(http, address(application).rpartition(":")[2], begin))
        if not found[-1]:
            fail(f"no trace of {application.name} was assembled")
    counters = ask(http, "/api/v1/status")["agent"]["agents"][0]["facts"]["counters"]
    print("while traces were counted: " + ", ".join(f"{name} {counters[name]}" for name in TRACE_COUNTERS))
    programs.stop(agent)
    programs.stop(server)
    return found


def assembled(http, port, begin):
    """Traces that include the application's front, by number of spans."""
    rows = query(http, f"""
        SELECT spans, count(*) FROM (
            SELECT assembled_trace_id, count(*) AS spans FROM spans
            WHERE start_unix_nano >= {begin} AND assembled_trace_id IS NOT NULL GROUP BY assembled_trace_id
            HAVING sum(CASE WHEN server_port = {port} THEN 1 ELSE 0 END) > 0)
        GROUP BY spans ORDER BY 2 DESC, 1 DESC""")
    return [(int(spans), int(traces)) for spans, traces in rows]


def query(port, sql):
    return ask(port, "/api/v1/sql", json.dumps({"query": sql}).encode())["rows"]


def ask(port, path, body=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json", "Spanwise-Request": "bench"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def report(application, layout, pairs, rate, hooked):
    """Tables and figures of a layout. Those of `apart` have the shorter names."""
    name = application.name
    median = lambda pick: statistics.median(pick(pair) for pair in pairs)  # noqa: E731
    for mode, told in MODES.items():
        if mode == "steady":
            told += f" of {rate:.0f} requests/s"
        print(f"\n{name}, {layout.name}, {told} (medians)\n{'agent':<10}{'requests/s':>12}"
              + "".join(f"{percentile + ' ms':>10}" for percentile in PERCENTILES)
              + (f"{'cpu us':>10}" if mode == "steady" else ""))
        for setting in SETTINGS:
            of = lambda key: median(lambda pair: pair[setting][mode].get(key, rate))  # noqa: E731
            print(f"{setting:<10}{of('rate'):>12.0f}" + "".join(f"{of(key):>10.2f}" for key in PERCENTILES)
                  + (f"{of('cpu_us'):>10.0f}" if mode == "steady" else ""))
    overheads = sorted(1 - pair["with"]["full"]["rate"] / pair["without"]["full"]["rate"] for pair in pairs)
    error = statistics.stdev(overheads) / len(overheads) ** 0.5 if len(overheads) > 1 else float("nan")
    noise = [pair["without"]["full"]["rate"] for pair in pairs]
    print(f"\noverhead of each pair: {' '.join(f'{overhead:.3f}' for overhead in overheads)}")
    print(f"their mean: {statistics.mean(overheads):.4f}, with a standard error of {error:.4f}")
    print(f"turns without an agent lie {(max(noise) - min(noise)) / statistics.median(noise):.3f} of their median apart")
    change = lambda mode, key: median(  # noqa: E731
        lambda pair: pair["with"][mode][key] / pair["without"][mode][key] - 1)
    figure = f"figure end_to_end.{name}" + ("" if layout.name == "apart" else f".{layout.name}")
    print(f"{figure}.overhead_share {statistics.median(overheads):.4f} 1")
    print(f"{figure}.cpu_overhead_share {change('steady', 'cpu_us'):.4f} 1")
    if pairs[0]["without"]["full"]["services_cpu_us"]:
        print(f"{figure}.services_cpu_overhead_share {change('full', 'services_cpu_us'):.4f} 1")
    for percentile in PERCENTILES:
        print(f"{figure}.{percentile}_overhead_share {change('steady', percentile):.4f} 1")
    print(f"{figure}.agent_us_per_request {median(lambda pair: pair['with']['agent_us']):.1f} us")
    print(f"{figure}.hooks_us_per_request {hooked['us']:.1f} us  # of {hooked['runs']:.1f} runs; the account itself in it")
    if hooked["share"]:
        print(f"{figure}.hooks_share {hooked['share']:.4f} 1")
    print(f"{figure}.events_lost {sum(pair['with']['lost'] for pair in pairs)} 1", flush=True)


def report_traces(application, traces):
    for key, found in zip(("spans_per_trace", "spans_per_trace_loaded"), traces):
        counted = sum(count for _, count in found)
        mean = sum(spans * count for spans, count in found) / counted
        print(f"figure end_to_end.{application.name}.{key} {mean:.1f} 1  # {counted} traces: "
              + ", ".join(f"{count} of {spans} spans" for spans, count in found[:6]), flush=True)


def run(application, options):
    """Runs one application in its own directory."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-end-to-end-"))
    directory.chmod(0o755)
    programs = options.programs = Programs(directory)
    try:
        otlp_port = free_port()
        sink = Sink(programs, options.sink)
        before = list(programs.running)
        application.start(programs, otlp_port)
        options.services = [*application.processes, *(one for one in programs.running if one not in before)]
        arrange(options, sink, layouts()["together"])
        print(f"\n{application.name}: warming up for {options.warm_up} s", file=sys.stderr)
        full_load(application, options, options.warm_up)
        for layout in layouts().values():
            if layout.name in options.layout_names:
                arrange(options, sink, layout)
                report(application, layout, *measure(application, options, sink))
        arrange(options, sink, layouts()["together"])
        report_traces(application, spans_per_trace(application, options, otlp_port))
    finally:
        for process in application.processes:
            pin(process, layouts()["together"].application)
        programs.stop_all()
        shutil.rmtree(directory, ignore_errors=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True, type=pathlib.Path)
    parser.add_argument("--sink", required=True, type=pathlib.Path)
    parser.add_argument("--requests", required=True, type=pathlib.Path)
    parser.add_argument("--app", action="append", choices=APPLICATIONS, help="one of them (default: all)")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, dest="layout_names",
                        help="one of them (default: all)")
    parser.add_argument("--url", help="a page of an application that runs already, instead; {} in its path stands "
                        "for a number")
    parser.add_argument("--name", default="url", help="what to call that application")
    parser.add_argument("--process", action="append", type=int, metavar="PID",
                        help="what that application comes from: a process, with all that come from it; known, it can be "
                        "measured apart")
    parser.add_argument("--items", type=int, default=1000, help="how far {} counts, from 1 (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=20, help="of turns (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=5, help="of each load of a turn (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=60, help="seconds (default %(default)s)")
    parser.add_argument("--connections", type=int, default=16, help="requests at a time (default %(default)s)")
    options = parser.parse_args()
    if options.process and not options.url:
        fail("--process says what belongs to an application that runs already; it needs --url")
    can_be_apart = (options.process or not options.url) and "apart" in layouts()
    if not can_be_apart and "apart" in (options.layout_names or ()):
        fail("--layout apart needs two processors, and to know what belongs to the application: --app, or --url with --process")
    options.layout_names = options.layout_names or (LAYOUTS if can_be_apart else ("together",))
    for name in ("spanwise", "sink", "requests"):
        path = getattr(options, name).resolve()
        if not path.exists():
            fail(f"{path} is not there; `make bench-end-to-end` builds it")
        setattr(options, name, path)
    return options


def main():
    options = arguments()
    applications = [Running(options.name, options.url, options.items, options.process or [])] if options.url else [
        APPLICATIONS[name]() for name in options.app or APPLICATIONS]
    need({"wrk": "wrk"} | {key: value for each in applications for key, value in each.packages.items()})
    end_on_signals()
    for application in applications:
        run(application, options)


if __name__ == "__main__":
    main()
