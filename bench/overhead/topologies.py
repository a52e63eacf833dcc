"""The thesis's three topologies of Spring Boot services, and its table: sampling by concurrency.

As there, Apache's `ab` asks the root, which asks the services below it at the same time. All ways of one sampling run
side by side and are measured in turns, so that what else the host does falls on all alike.
"""

import contextlib
import re
import statistics

import picture
from host import Server, load, running
from programs import cpu_seconds, fail, need, start_agent
from services import TOPOLOGIES, WAYS, Fleet, missing, title

# A percentage of the traces, and of requests at once.
SAMPLED, CONCURRENCY = (0, 10, 50, 100), (20, 200, 1000)
# Of `--quick`. The zero-code agent needs rights that not every host gives.
QUICK = {"way": ["none", "micrometer", "spanwise"], "sampled": [100], "concurrency": [20], "requests": 100, "warm": 50, "turns": 1}


def flags(parser):
    group = parser.add_argument_group("topologies")
    group.add_argument("--topology", action="append", choices=TOPOLOGIES, help="default: low")
    group.add_argument("--way", action="append", choices=WAYS, help="default: none, micrometer, spanwise, zero-code")
    group.add_argument("--sampled", type=int, action="append", choices=SAMPLED, help="per cent; default: 0 and 100")
    group.add_argument("--concurrency", type=int, action="append", help="default: 20 and 200")
    group.add_argument("--requests", type=int, default=1500, help="in one turn; the thesis has 10000")
    group.add_argument("--warm", type=int, default=1500, help="requests before the first turn")
    group.add_argument("--turns", type=int, default=2, help="of each way and concurrency")
    group.add_argument("--services-per-jvm", type=int, default=7)


def run(options, directory, report):
    need({"ab": "apache2-utils"})
    ways = options.way or ["none", "micrometer", "spanwise", "zero-code"]
    if "none" not in ways:
        fail("every ratio is to none: name it with --way, too")
    results = []
    with running(Server(options, directory)) as server:
        absent = {way: reason for way in ways if (reason := missing(way, server))}
        for way, reason in absent.items():
            report.say(f"# {title(way)}: {reason}")
        ways = [way for way in ways if way not in absent]
        # What was measured until an end by hand is reported, too.
        with contextlib.suppress(KeyboardInterrupt):
            for topology in options.topology or ["low"]:
                for sampled in options.sampled or [0, 100]:
                    cells(options, directory, report, server, ways, topology, sampled, results)
    show(report, results, ways)


def cells(options, directory, report, server, ways, topology, sampled, found):
    """Adds all turns of a topology and a sampling."""
    fleets = {way: Fleet(options, directory, topology, way, server, sampled / 100, services_per_jvm=options.services_per_jvm)
              for way in ways if way != "zero-code"}
    try:
        for fleet in fleets.values():
            ab(options, fleet.url, options.warm, 20)
        for concurrency in options.concurrency or [20, 200]:
            for turn in range(options.turns):
                for way in ways if turn % 2 == 0 else ways[::-1]:
                    fleet = fleets["none" if way == "zero-code" else way]
                    found.append(one(options, server, fleet, way, topology, sampled, concurrency) | {"turn": turn})
                    say(report, found[-1])
    finally:
        for fleet in fleets.values():
            fleet.stop()


def one(options, server, fleet, way, topology, sampled, concurrency):
    """One turn."""
    agent = None
    if way == "zero-code":
        ports = f"port={fleet.port}-{fleet.port + TOPOLOGIES[topology] - 1}"
        agent = start_agent(options.programs, options.spanwise, f"http://127.0.0.1:{server.grpc}", "--only", ports,
                            "--sample", f"{sampled}%")
    try:
        spans = server.settle()
        busy, theirs = fleet.cpu_seconds(), server.cpu_seconds()
        agent_busy = cpu_seconds(agent) if agent else 0
        before = load()
        result = ab(options, fleet.url, options.requests, concurrency)
        spans, count = server.settle() - spans, max(options.requests, concurrency)
        return result | {
            "topology": topology, "sampled": sampled, "concurrency": concurrency, "way": way, "load": max(before, load()),
            "cpu_us": (fleet.cpu_seconds() - busy) / count * 1e6,
            "agent_us": (cpu_seconds(agent) - agent_busy) / count * 1e6 if agent else 0,
            "server_us": (server.cpu_seconds() - theirs) / count * 1e6, "spans": spans / count}
    finally:
        if agent:
            options.programs.stop(agent)


def ab(options, url, requests, concurrency):
    """Apache's load generator: response times in ms."""
    said = options.programs.run("ab", "ab", "-q", "-s", 120, "-n", max(requests, concurrency), "-c", concurrency, url)
    failed = re.search(r"Failed requests:\s+(\d+)", said)
    if not failed or int(failed[1]) or "Non-2xx" in said:
        fail(f"requests failed:\n{said}")

    def number(pattern):
        return float(re.search(pattern, said)[1])

    return {"response_ms": number(r"Time per request:\s+([\d.]+) \[ms\] \(mean\)"),
            "spaced_ms": number(r"Time per request:\s+([\d.]+) \[ms\] \(mean, across"),
            "p50_ms": number(r"\n\s+50%\s+(\d+)"), "p99_ms": number(r"\n\s+99%\s+(\d+)")}


def say(report, cell):
    report.say(f"# {cell['topology']:<7}{cell['sampled']:>4} % {cell['concurrency']:>5} at once, turn {cell['turn']}, {cell['way']:<11}"
               f"response {cell['response_ms']:>8.1f} ms, p99 {cell['p99_ms']:>6.0f} ms, between two {cell['spaced_ms']:>7.3f} ms, services' CPU "
               f"{cell['cpu_us']:>7.0f} us, agent's {cell['agent_us']:>5.0f} us, {cell['spans']:.2f} spans, load {cell['load']:.1f}")


def show(report, results, ways):
    report.say()
    report.say(f"{'topology':<9}{'sampled':>8}{'at once':>9}  {'way':<22}{'response ms':>12}{'p99 ms':>9}{'CPU us':>9}{'agent us':>10}"
               f"{'server us':>11}{'spans':>7}{'CPU ratio':>11}{'response ratio':>16}")
    keys = list(dict.fromkeys((each["topology"], each["sampled"], each["concurrency"]) for each in results))
    figures, panels = [], {}
    for key in keys:
        mine = [each for each in results if (each["topology"], each["sampled"], each["concurrency"]) == key]
        for way in ways:
            own = [each for each in mine if each["way"] == way]
            if not own:
                continue
            middle = {name: statistics.median(each[name] for each in own)
                      for name in ("response_ms", "p99_ms", "cpu_us", "agent_us", "server_us", "spans")}
            cpu = ratio(mine, way, lambda each: each["cpu_us"] + each["agent_us"])
            response = ratio(mine, way, lambda each: each["response_ms"])
            report.say(f"{key[0]:<9}{key[1]:>6} %{key[2]:>9}  {title(way):<22}{middle['response_ms']:>12.1f}{middle['p99_ms']:>9.0f}"
                       f"{middle['cpu_us']:>9.0f}{middle['agent_us']:>10.0f}{middle['server_us']:>11.0f}{middle['spans']:>7.2f}"
                       f"{cpu:>11.3f}{response:>16.3f}")
            if way != "none":
                name = f"overhead.topologies.{key[0]}.sampled_{key[1]}.at_once_{key[2]}.{way}"
                figures += [(f"{name}.cpu_ratio", cpu), (f"{name}.response_ratio", response)]
            panels.setdefault((key[0], key[2]), {}).setdefault(way, []).append((key[1], middle["response_ms"]))
    report.say()
    for name, value in figures:
        report.figure(name, value, "1")
    for topology in dict.fromkeys(key[0] for key in keys):
        report.picture(f"topology-{topology}", picture.lines(
            f"{TOPOLOGIES[topology]} services: response time by sampling", [
                (f"{concurrency} requests at once", "sampled, %", "ms", series)
                for (one_topology, concurrency), series in panels.items() if one_topology == topology],
            titles={way: title(way) for way in ways}))


def ratio(mine, way, of):
    """The median, over turns, of a way's figure to that of `none` in the same turn."""
    base = {each["turn"]: of(each) for each in mine if each["way"] == "none"}
    pairs = [of(each) / base[each["turn"]] for each in mine if each["way"] == way and each["turn"] in base]
    return statistics.median(pairs) if pairs else float("nan")
