"""The KubeCon talk's six scenarios ("What's the Performance Overhead?", 2019), with today's tracers.

Each measurement is a JVM of its own. A round has every tracer once, in an order that alternates; its ratios are to the
same round's `none`. So what else the host does falls on all alike. Processor time is that of the whole process.
"""

import contextlib
import json
import math
import statistics
import time

import picture
from host import ROOT, Server, load, running
from tracers import BUILT, CLASS_PATH, NAMES, TITLES, tracer

SCENARIOS = {
    "StringConcatenation": "Plain Java", "SpringBoot": "Spring Boot", "SpringCloud": "Spring Cloud", "Jdbc": "JDBC",
    "ServletFilter": "Servlet filter", "JaxRs": "JAX-RS"}
# JMH's names: of a mode, and of the unit that suits its figures.
MODES = {"thrpt": "s", "sample": "us"}
JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")
# Student's t for a confidence of 99.9 %, which JMH takes, by degrees of freedom.
STUDENT = {1: 636.6, 2: 31.6, 3: 12.92, 4: 8.61, 5: 6.87, 6: 5.96, 7: 5.41, 8: 5.04, 9: 4.78, 10: 4.59, 12: 4.32, 15: 4.07,
           20: 3.85, 30: 3.65, 60: 3.46}
PERCENTILES = (0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 100.0)
# Exporters send at the end of a JVM; the server counts them soon after.
SETTLE_SECONDS = 0.3

# Of `--quick`: all scenarios, with the ways whose code differs most.
QUICK = {"tracer": ["none", "otel-sdk", "brave", "spanwise"], "rounds": 1, "warm_cpu_seconds": 0.1, "warmup": 0, "iterations": 1, "seconds": 0.3}


def flags(parser):
    group = parser.add_argument_group("jmh")
    group.add_argument("--scenario", action="append", choices=SCENARIOS, help="default: all six")
    group.add_argument("--tracer", action="append", choices=NAMES, help="default: all")
    group.add_argument("--rounds", type=int, default=2)
    group.add_argument("--warm-cpu-seconds", type=float, default=4, help="of the process, before JMH's own warm-up")
    group.add_argument("--warmup", type=int, default=1, help="iterations that do not count")
    group.add_argument("--iterations", type=int, default=4)
    group.add_argument("--seconds", type=float, default=1, help="of an iteration")
    group.add_argument("--again", action="store_true", help="measure nothing; report what --json has")
    group.add_argument("--json", help="JMH's results so far: these are kept, and the new ones added")


def run(options, directory, report):
    scenarios = options.scenario or list(SCENARIOS)
    names = options.tracer or list(NAMES)
    runs, missing = earlier(options), {}
    if not options.again:
        with running(Server(options, directory)) as server:
            ways = {name: tracer(name, server) for name in names}
            missing = {name: way.missing for name, way in ways.items() if way.missing}
            present = [name for name in names if name not in missing]
            first = max((each["round"] for each in runs), default=-1) + 1
            # What was measured until an end by hand is reported, too.
            with contextlib.suppress(KeyboardInterrupt):
                rounds(options, directory, report, server, scenarios, [ways[name] for name in present], first, runs)
    path = report.path(".json")
    path.write_text(json.dumps(merged(runs), separators=(",", ":")) + "\n")
    # For --json: a later run may add rounds.
    (BUILT / "jmh-runs.json").write_text(json.dumps(runs) + "\n")
    show(report, runs, missing, [name for name in NAMES if name in names or any(each["tracer"] == name for each in runs)])
    report.say(f"# {path.name} can be opened in JMH Visualizer (https://jmh.morethan.io)")


def rounds(options, directory, report, server, scenarios, ways, first, runs):
    """Adds to `runs` what is measured."""
    for number in range(first, first + options.rounds):
        for scenario in scenarios:
            for way in ways if number % 2 == 0 else ways[::-1]:
                for mode in MODES:
                    measured = measure(options, directory, server, scenario, way, mode)
                    runs.append(measured | {"round": number})
                    say_progress(report, measured, number)


def earlier(options):
    if not options.json:
        return []
    with open(options.json) as file:
        return json.load(file)


def measure(options, directory, server, scenario, way, mode):
    """One JVM of JMH: its record, spans taken in for each operation, and how busy the host was."""
    result, operations = directory / "jmh.json", directory / "operations"
    operations.unlink(missing_ok=True)
    before, cpu = server.accepted(), server.cpu_seconds()
    options.programs.run(
        f"{scenario} with {way.name}", "java", "-cp", CLASS_PATH, "org.openjdk.jmh.Main",
        rf"bench\.jmh\.{scenario}\.once", "-p", f"tracer={way.name}", "-bm", mode, "-tu", MODES[mode], "-f", 1,
        "-wi", options.warmup, "-w", f"{options.seconds * 1000:.0f}ms", "-i", options.iterations,
        "-r", f"{options.seconds * 1000:.0f}ms", "-prof", "bench.jmh.CpuTime", "-prof", "gc", "-foe", "true",
        "-rf", "json", "-rff", result, "-jvmArgs", " ".join([*JVM, f"-Dbench.warm={options.warm_cpu_seconds}", f"-Dbench.operations={operations}", *way.flags]))
    time.sleep(SETTLE_SECONDS)
    record = json.loads(result.read_text())[0]
    # Names of this machine's directories are of no use to readers.
    record["jvm"] = "java"
    record["jvmArgs"] = [flag.replace(f"{ROOT}/", "") for flag in record["jvmArgs"] if "bench.operations" not in flag]
    count = int(operations.read_text())
    return {"scenario": scenario, "tracer": way.name, "mode": mode, "record": record, "load": load(), "operations": count,
            "spans": server.accepted() - before, "server_cpu_seconds": server.cpu_seconds() - cpu}


def say_progress(report, measured, number):
    metric = measured["record"]["primaryMetric"]
    report.say(f"# round {number} {measured['scenario']:<20} {measured['tracer']:<11} {measured['mode']:<7}"
               f"{metric['score']:>14.3f} {metric['scoreUnit']:<7} {cpu(measured):>12.1f} ns of CPU/op   "
               f"{allocated(measured):>9.0f} B/op   {measured['spans'] / measured['operations']:.4f} spans taken in/op   "
               f"load {measured['load']:.1f}")


def secondary(measured, name):
    for key, metric in measured["record"]["secondaryMetrics"].items():
        if key.lstrip("·") == name:
            return metric["score"]
    return math.nan


def cpu(measured):
    return secondary(measured, "cpu")


def allocated(measured):
    return secondary(measured, "gc.alloc.rate.norm")


def score(measured):
    return measured["record"]["primaryMetric"]["score"]


def percentile(measured, name):
    return measured["record"]["primaryMetric"]["scorePercentiles"][name]


def student(freedom):
    return STUDENT[max(known for known in STUDENT if known <= freedom)] if freedom else math.nan


def merged(runs):
    """The records of the rounds as JMH would have written them for as many forks."""
    groups = {}
    for each in runs:
        groups.setdefault((each["scenario"], each["mode"], each["tracer"]), []).append(each["record"])
    found = []
    for records in groups.values():
        record = json.loads(json.dumps(records[0]))
        record["forks"] = len(records)
        metrics = [(record["primaryMetric"], [each["primaryMetric"] for each in records])]
        metrics += [(metric, [each["secondaryMetrics"][name] for each in records if name in each["secondaryMetrics"]])
                    for name, metric in record["secondaryMetrics"].items()]
        for metric, parts in metrics:
            merge(metric, parts)
        found.append(record)
    return found


def merge(metric, parts):
    for key in ("rawData", "rawDataHistogram"):
        if key in metric:
            metric[key] = [fork for part in parts for fork in part[key]]
    if "rawDataHistogram" in metric:
        pairs = sorted((value, count) for fork in metric["rawDataHistogram"] for iteration in fork for value, count in iteration)
    else:
        pairs = sorted((value, 1) for fork in metric["rawData"] for value in fork if isinstance(value, (int, float)))
    if not pairs:
        return
    count = sum(number for _, number in pairs)
    mean = sum(value * number for value, number in pairs) / count
    variance = sum(number * (value - mean) ** 2 for value, number in pairs) / (count - 1) if count > 1 else 0
    error = student(count - 1) * math.sqrt(variance / count) if count > 1 else "NaN"
    metric["score"], metric["scoreError"] = mean, error
    metric["scoreConfidence"] = [mean - error, mean + error] if count > 1 else ["NaN", "NaN"]
    metric["scorePercentiles"] = {str(part): at(pairs, count, part) for part in PERCENTILES}


def at(pairs, count, part):
    """A percentile of sorted values, each with how often it occurs."""
    rank, seen = max(1, math.ceil(count * part / 100)), 0
    for value, number in pairs:
        seen += number
        if seen >= rank:
            return value
    return pairs[-1][0]


def ratios(runs, scenario, name, mode, of):
    """A tracer's figure to that of `none`, round by round."""
    found = {}
    for each in runs:
        if each["scenario"] == scenario and each["mode"] == mode and each["tracer"] in ("none", name):
            found.setdefault(each["round"], {})[each["tracer"]] = of(each)
    return [pair[name] / pair["none"] for pair in found.values() if name in pair and "none" in pair and pair["none"]]


def show(report, runs, missing, names):
    """The table, the figures and the picture."""
    rows = []
    for scenario, title in SCENARIOS.items():
        mine = [each for each in runs if each["scenario"] == scenario]
        if not mine:
            continue
        loads = [each["load"] for each in mine]
        report.say()
        report.say(f"{title}: {len({each['round'] for each in mine})} rounds, load {min(loads):.1f} to {max(loads):.1f}")
        report.say(f"{'':<22}{'ops/s':>12}{'sample us':>11}{'p99 us':>10}{'CPU ns/op':>12}{'B/op':>9}{'CPU ratio':>11}"
                   f"{'ops ratio':>11}{'sample ratio':>14}{'spans/op':>10}")
        columns = {mode: [] for mode in MODES}
        for name in names:
            own = {mode: [each for each in mine if each["tracer"] == name and each["mode"] == mode] for mode in MODES}
            if not own["thrpt"] or not own["sample"]:
                reason = missing.get(name, "not measured")
                report.say(f"{TITLES[name]:<22}{reason:>12}")
                for mode in MODES:
                    columns[mode].append((name, TITLES[name], None, 0, reason.split(":")[0]))
                continue
            middle = {
                "ops": statistics.median(map(score, own["thrpt"])), "sample": statistics.median(map(score, own["sample"])),
                "p99": statistics.median(percentile(each, "99.0") for each in own["sample"]),
                "cpu": statistics.median(map(cpu, own["thrpt"])), "bytes": statistics.median(map(allocated, own["thrpt"])),
                "spans": sum(each["spans"] for each in own["thrpt"]) / sum(each["operations"] for each in own["thrpt"])}
            to = {key: ratios(runs, scenario, name, mode, of) for key, mode, of in
                  (("cpu", "thrpt", cpu), ("ops", "thrpt", score), ("sample", "sample", score))}
            said = {key: f"{statistics.median(values):.3f}" if values else "" for key, values in to.items()}
            report.say(f"{TITLES[name]:<22}{middle['ops']:>12.0f}{middle['sample']:>11.3f}{middle['p99']:>10.2f}{middle['cpu']:>12.1f}"
                       f"{middle['bytes']:>9.0f}{said['cpu']:>11}{said['ops']:>11}{said['sample']:>14}{middle['spans']:>10.4f}")
            for mode, key in (("thrpt", "ops"), ("sample", "sample")):
                scores = list(map(score, own[mode]))
                columns[mode].append((name, TITLES[name], middle[key], (max(scores) - min(scores)) / 2,
                                      picture.short(middle[key]) + (f" ({said[key]})" if said[key] and name != "none" else "")))
        rows.append([(f"{title}: operations a second", columns["thrpt"]), (f"{title}: sample time, µs", columns["sample"])])
    report.say()
    for scenario in SCENARIOS:
        for name in names:
            for key, mode, of in (("cpu_ratio", "thrpt", cpu), ("throughput_ratio", "thrpt", score), ("sample_ratio", "sample", score)):
                values = ratios(runs, scenario, name, mode, of)
                if name != "none" and values:
                    report.figure(f"overhead.jmh.{scenario}.{name}.{key}", statistics.median(values), "1")
    if rows:
        report.picture("jmh", picture.bars(
            "The talk's scenarios (in brackets: the median ratio to none, of pairs in one round)", rows))
