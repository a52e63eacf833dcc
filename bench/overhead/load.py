"""JCallGraph's Figures 7 to 9 (ICSOC 2019), of the tracers of today.

7: processor and 99th percentile of an application at a tenth of its saturation, and so on up to it, traced and not.
8: what a server takes in of messages of 100 to 250 bytes, and its processor.
9: messages that an application sends when it keeps one trace in 1 to 4000.
"""

import json
import multiprocessing
import re
import signal
import statistics
import time

import messages
import picture
from host import ROOT, Server, load, running
from programs import fail, need
from services import WAYS, Fleet, missing, title
from tracers import TITLES

FIGURES = (7, 8, 9)
# Of what the application answers at most, untraced.
LOADS = (10, 25, 50, 75, 90, 100)
SIZES = (100, 112, 150, 200, 250)
ONE_IN = (1, 10, 100, 1000, 4000)
AT_ONCE = 32
CONNECTIONS = 16
# Exporters of spans send within this time.
FLUSH_SECONDS = 6
# Of `--quick`. `warm` is a flag of the topologies, which this suite shares.
QUICK = {"load_way": ["none", "spanwise", "micrometer"], "step_seconds": 1, "pairs": 1, "sampling_requests": 200, "warm": 100}


def flags(parser):
    group = parser.add_argument_group("load")
    group.add_argument("--figure", type=int, action="append", choices=FIGURES, help="of JCallGraph's paper; default: all")
    group.add_argument("--load-way", action="append", choices=[way for way in WAYS if way != "zero-code"],
                       help="default: none, spanwise, micrometer, otel-agent")
    group.add_argument("--step-seconds", type=float, default=6, help="of a load, or of a size of messages")
    group.add_argument("--pairs", type=int, default=2, help="turns of each way and load")
    group.add_argument("--sampling-requests", type=int, default=4000, help="of each sampling, Figure 9")
    group.add_argument("--requests-program", default=ROOT / "target" / "release" / "spanwise-bench-requests", metavar="PROGRAM")


def run(options, directory, report):
    need({"ab": "apache2-utils"})
    figures = options.figure or FIGURES
    ways = options.load_way or ["none", "spanwise", "micrometer", "otel-agent"]
    with running(Server(options, directory)) as server:
        absent = {way: reason for way in ways if (reason := missing(way, server))}
        for way, reason in absent.items():
            report.say(f"# {title(way)}: {reason}")
        ways = [way for way in ways if way not in absent]
        if 7 in figures:
            by_load(options, directory, report, server, ways)
        if 8 in figures:
            by_size(options, report, server)
        if 9 in figures:
            by_sampling(options, directory, report, server, [way for way in ways if way != "none"])


def by_load(options, directory, report, server, ways):
    """Figure 7."""
    fleets = {way: Fleet(options, directory, "low", way, server) for way in ways}
    rows = []
    try:
        for fleet in fleets.values():
            closed(options, fleet, "-n", options.warm)
        most = saturation(options, fleets["none"]) if "none" in fleets else fail("Figure 7 needs --load-way none")
        report.say(f"# saturation, untraced: {most:.0f} requests/s")
        for share in LOADS:
            for turn in range(options.pairs):
                for way in ways if turn % 2 == 0 else ways[::-1]:
                    rows.append(steady(options, fleets[way], most * share / 100, options.step_seconds)
                                | {"share": share, "turn": turn, "way": way})
                    row = rows[-1]
                    report.say(f"# {share:>3} % load, turn {turn}, {way:<11}{row['cpu_share'] * 100:>7.1f} % CPU, {row['cpu_us']:>7.0f} us/request, "
                               f"p99 {row['p99_ms']:>8.2f} ms, {row['answered']:>6} answered, load average {row['load']:.1f}")
    finally:
        for fleet in fleets.values():
            fleet.stop()
    report.say()
    report.say(f"{'load %':<8}{'way':<22}{'CPU %':>8}{'us/request':>12}{'p99 ms':>10}{'CPU ratio':>11}{'p99 ratio':>11}")
    processor, latency = {}, {}
    for share in LOADS:
        mine = [row for row in rows if row["share"] == share]
        for way in ways:
            own = [row for row in mine if row["way"] == way]
            cpu, p99 = (statistics.median(row[name] for row in own) for name in ("cpu_share", "p99_ms"))
            to = {name: ratio(mine, way, name) for name in ("cpu_us", "p99_ms")}
            report.say(f"{share:<8}{title(way):<22}{cpu * 100:>8.1f}{statistics.median(row['cpu_us'] for row in own):>12.0f}{p99:>10.2f}"
                       f"{to['cpu_us']:>11.3f}{to['p99_ms']:>11.3f}")
            processor.setdefault(way, []).append((share, cpu * 100))
            latency.setdefault(way, []).append((share, p99))
    for share in LOADS:
        for way in ways:
            if way != "none":
                mine = [row for row in rows if row["share"] == share]
                report.figure(f"overhead.load.{way}.load_{share}.cpu_ratio", ratio(mine, way, "cpu_us"), "1")
                report.figure(f"overhead.load.{way}.load_{share}.p99_ratio", ratio(mine, way, "p99_ms"), "1")
    report.picture("load", picture.lines("Four services in one JVM, from little load to saturation", [
        ("Processor", "load, % of saturation", "% of one processor", processor), ("99th percentile", "load, % of saturation", "ms", latency)],
        titles={way: title(way) for way in ways}))


def ratio(mine, way, name):
    base = {row["turn"]: row[name] for row in mine if row["way"] == "none"}
    return statistics.median(row[name] / base[row["turn"]] for row in mine if row["way"] == way)


def saturation(options, fleet):
    """Requests a second that are answered at most."""
    return closed(options, fleet, "-t", max(1, round(options.step_seconds)), "-n", 10**6)


def closed(options, fleet, *much):
    """Requests as fast as they are answered. Returns how many a second."""
    said = options.programs.run("ab", "ab", "-q", "-k", "-s", 120, *much, "-c", AT_ONCE, fleet.url)
    failed = re.search(r"Failed requests:\s+(\d+)", said)
    if not failed or int(failed[1]) or "Non-2xx" in said:
        fail(f"requests failed:\n{said}")
    return float(re.search(r"Requests per second:\s+([\d.]+)", said)[1])


def steady(options, fleet, rate, seconds):
    """Requests that arrive at a steady rate. Latency counts from when each was due."""
    busy, start, before = fleet.cpu_seconds(), time.monotonic(), load()
    said = json.loads(options.programs.run(
        "requests", options.requests_program, "--protocol", "http", "--server", f"127.0.0.1:{fleet.port}", "--rate", rate,
        "--connections", CONNECTIONS, "--seconds", seconds, "--path", "/rest/").splitlines()[-1])
    if said["errors"] or not said["answered"]:
        fail(f"requests failed: {said}")
    busy, passed = fleet.cpu_seconds() - busy, time.monotonic() - start
    return {"cpu_share": busy / passed, "cpu_us": busy / said["answered"] * 1e6, "p99_ms": said["p99_us"] / 1e3,
            "answered": said["answered"], "load": max(before, load())}


def by_size(options, report, server):
    """Figure 8. The senders wait for each answer, so nothing is lost: what is taken in is what the server can do beside
    them on this host."""
    rows = []
    report.say()
    report.say(f"{'bytes':<8}{'messages/s':>12}{'server CPU %':>14}{'us/message':>12}{'MB/s':>8}{'load':>7}")
    for turn in range(options.pairs):
        for size in SIZES if turn % 2 == 0 else SIZES[::-1]:
            before, busy, start = server.accepted(), server.cpu_seconds(), time.monotonic()
            # Its processes end with the pool, not as this program does.
            with multiprocessing.get_context("fork").Pool(messages.SENDERS, signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
                sent = sum(pool.starmap(messages.send, [(server.otlp, size, options.step_seconds)] * messages.SENDERS))
            passed, busy, taken = time.monotonic() - start, server.cpu_seconds() - busy, server.accepted() - before
            if taken != sent:
                fail(f"{sent} messages were sent and answered with success, {taken} taken in")
            rows.append({"size": size, "rate": taken / passed, "share": busy / passed, "us": busy / taken * 1e6})
            report.say(f"{size:<8}{taken / passed:>12.0f}{busy / passed * 100:>14.1f}{busy / taken * 1e6:>12.2f}"
                       f"{taken * size / passed / 1e6:>8.1f}{load():>7.1f}")
    courses = {name: [(size, statistics.median(row[name] for row in rows if row["size"] == size) * factor) for size in SIZES]
               for name, factor in (("rate", 1), ("share", 100), ("us", 1))}
    for size, value in courses["rate"]:
        report.figure(f"overhead.messages.bytes_{size}.per_second", value, "1/s")
    for size, value in courses["us"]:
        report.figure(f"overhead.messages.bytes_{size}.server_cpu_us", value, "us")
    report.picture("messages", picture.lines("Messages that the server takes in, by size", [
        ("Throughput", "bytes of a message", "messages a second", {"spanwise": courses["rate"]}),
        ("Processor for a message", "bytes of a message", "µs", {"spanwise": courses["us"]})], titles={"spanwise": "Spanwise, OTLP over HTTP"}))


def by_sampling(options, directory, report, server, ways):
    """Figure 9."""
    report.say()
    report.say(f"{'one in':<8}{'way':<22}{'requests':>9}{'spans':>9}{'messages':>10}{'spans/1000 requests':>21}{'messages/1000 requests':>24}")
    courses = {"spans": {}, "messages": {}}
    for one_in in ONE_IN:
        for way in ways:
            fleet = Fleet(options, directory, "low", way, server, 1 / one_in)
            try:
                before = server.settle(), server.messages()
                answered = options.sampling_requests
                closed(options, fleet, "-n", answered)
                time.sleep(FLUSH_SECONDS)
                server.settle()
                counts = dict(zip(courses, (now - then for now, then in zip((server.accepted(), server.messages()), before))))
            finally:
                fleet.stop()
            report.say(f"{one_in:<8}{title(way):<22}{answered:>9}{counts['spans']:>9}{counts['messages']:>10}"
                       f"{counts['spans'] / answered * 1e3:>21.2f}{counts['messages'] / answered * 1e3:>24.2f}")
            for name, count in counts.items():
                report.figure(f"overhead.sampling.{way}.one_in_{one_in}.{name}_per_1000_requests", count / answered * 1e3, "1")
                # None is no point on a logarithmic axis.
                courses[name].setdefault(way, []).append((one_in, count / answered * 1e3 or None))
    report.picture("sampling", picture.lines("What is sent for 1000 requests of seven spans, by sampling", [
        ("Spans", "one trace in", "spans", courses["spans"]), ("Messages", "one trace in", "requests to the server", courses["messages"])],
        log_x=True, log_y=True, titles={**TITLES, "micrometer": title("micrometer")}))

