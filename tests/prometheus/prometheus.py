#!/usr/bin/env python3
"""A real Prometheus scrapes us, once with classic and once with native histograms, and answers what
Grafana's service graph and span panels ask. Its answers must be those of our SQL."""

import argparse
import contextlib
import http.server
import json
import math
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from checks import Checks  # noqa: E402
from spanwise import Spanwise, binary, free_ports  # noqa: E402

MS = 1_000_000
KIND = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
# The names that Grafana's Tempo data source reads (graphTransform.ts).
SECONDS = "traces_service_graph_request_server_seconds_sum"
TOTAL = "traces_service_graph_request_total"
FAILED = "traces_service_graph_request_failed_total"
BUCKETS = "traces_service_graph_request_server_seconds_bucket"
# How far quotients of rates may be off: `rate` extrapolates to the edges of its time, and less for
# a counter that began later. The counts themselves are compared exactly.
RATES = 0.1
TABLE_FILTER = 'span_kind="SPAN_KIND_SERVER"'


class Brief(Checks):
    """Says of what held only that it did."""

    def check(self, name, held, detail=""):
        return super().check(name, held, "" if held else detail)


def fetch(url, headers=None, data=None, timeout=20):
    """(status, headers, bytes)"""
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Prometheus:
    """A Prometheus that scrapes `target` every second."""

    def __init__(self, directory, target, features):
        (self.port,) = free_ports(1)
        directory.mkdir()
        config = directory / "prometheus.yml"
        config.write_text(
            "global: { scrape_interval: 1s }\n"
            "scrape_configs:\n"
            "  - job_name: spanwise\n"
            "    metrics_path: /metrics/spans\n"
            f"    static_configs: [{{ targets: [\"127.0.0.1:{target}\"] }}]\n")
        self.log = directory / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
                 f"--web.listen-address=127.0.0.1:{self.port}", f"--enable-feature={','.join(features)}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def get(self, path, **query):
        status, _, body = fetch(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(query)}")
        answer = json.loads(body)
        assert status == 200 and answer["status"] == "success", f"{path} {query}: {body[:300]}"
        return answer["data"]

    def ask(self, query, *labels):
        """What a query answers: {values of labels: number}"""
        found = {}
        for series in self.get("query", query=query)["result"]:
            key = tuple(series["metric"].get(label, "") for label in labels)
            assert key not in found, f"{query}: {key} twice"
            found[key] = float(series["value"][1])
        return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def until(find, wanted, seconds=40):
    """What `find` gives once it is wanted, or how it is after a while."""
    deadline, found = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, AssertionError):
            found = find()
            if wanted(found):
                break
        time.sleep(0.3)
    return found


# ---- spans -----------------------------------------------------------------

def send(server, spans):
    """Spans by OTLP: (service, trace, id, parent, name, kind, ms, failed, attributes)"""
    start = time.time_ns() - 1_000 * MS

    def otlp(one):
        _, trace, own, parent, name, kind, ms, failed, attributes = one
        pairs = [{"key": key, "value": {"stringValue" if isinstance(value, str) else "intValue": value}}
                 for key, value in attributes.items()]
        return {"traceId": trace, "spanId": own, "parentSpanId": parent, "name": name, "kind": KIND[kind],
                "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + int(ms * MS)),
                "attributes": pairs, "status": {"code": 2} if failed else {}}

    def resource(service):
        return {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                "scopeSpans": [{"scope": {"name": "shop"}, "spans": [otlp(one) for one in spans if one[0] == service]}]}

    body = json.dumps({"resourceSpans": [resource(service) for service in sorted({one[0] for one in spans})]})
    status, _, text = fetch(f"http://127.0.0.1:{server.otlp}/v1/traces", {"Content-Type": "application/json"}, body.encode())
    assert status == 200, text


def order(number):
    """A trace of the shop. Each kind of call always takes as long, so that means are known."""
    trace = secrets.token_hex(16)
    ids = [secrets.token_hex(8) for _ in range(8)]
    http_ = {"http.request.method": "GET"}
    database = {"db.system": "postgresql", "server.address": "10.1.1.1", "server.port": 5432}
    queue = {"messaging.system": "kafka", "messaging.destination.name": "orders"}
    failed = number % 3 == 0
    return [
        ("shop", trace, ids[0], "", 'GET /order "ß"', "server", 100, failed, http_),
        ("shop", trace, ids[1], ids[0], "GET", "client", 40, failed, http_),
        ("cart", trace, ids[2], ids[1], "GET /cart", "server", 30, failed, http_),
        ("cart", trace, ids[3], ids[2], "SELECT", "client", 20, failed, database),
        ("cart", trace, ids[4], ids[2], "price", "internal", 1.5, False, {}),
        ("shop", trace, ids[5], ids[0], "orders publish", "producer", 5, False, queue),
        ("mail", trace, ids[6], ids[5], "orders process", "consumer", 7, False, queue),
        ("shop", trace, ids[7], ids[0], "GET", "client", 800, True, {**http_, "server.address": "pay.example"}),
    ]


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass


def zero_code(directory, ports):
    """Two programs without any instrumentation: `front` asks `back`."""
    source = directory / "zero_code.py"
    source.write_text(f"""
import http.server, sys, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        body = b"back"
        if sys.argv[1] == "front":
            body = urllib.request.urlopen("http://127.0.0.1:{ports[1]}" + self.path).read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
""")
    return [subprocess.Popen([sys.executable, source, name, str(port)], stdin=subprocess.DEVNULL)
            for name, port in zip(("front", "back"), ports)]


# ---- what the SQL says ---------------------------------------------------------

# Calls of which both sides were seen, by the parents that assembly found.
BOTH_SIDES = """
SELECT c.service, s.service, '', count(*), count(*) FILTER (WHERE c.status = 'error'),
       sum(s.duration_nano), sum(c.duration_nano)
FROM spans c JOIN spans s ON s.assembled_trace_id = c.assembled_trace_id AND s.assembled_parent = c.span_id
WHERE c.kind = 'client' AND s.kind = 'server' GROUP BY 1, 2"""
# Calls of which only the calling side was seen.
ONE_SIDE = """
SELECT c.service, trim(c.protocol || ' ' || coalesce(c.server_address || coalesce(':' || c.server_port, ''), '')),
       CASE WHEN c.protocol = 'http' THEN 'virtual_node' WHEN c.kind = 'producer' THEN 'messaging_system'
            ELSE 'database' END,
       count(*), count(*) FILTER (WHERE c.status = 'error'), sum(c.duration_nano), sum(c.duration_nano) AS again
FROM spans c
WHERE (c.kind = 'producer' OR c.kind = 'client' AND NOT EXISTS
       (SELECT 1 FROM spans s WHERE s.assembled_trace_id = c.assembled_trace_id AND s.assembled_parent = c.span_id))
GROUP BY 1, 2, 3"""
TAKEN = """
SELECT protocol, service, 'messaging_system', count(*), count(*) FILTER (WHERE status = 'error'),
       sum(duration_nano), sum(duration_nano) AS again
FROM spans WHERE kind = 'consumer' GROUP BY 1, 2"""
# Requests that nobody is known to have made.
ROOTS = """
SELECT 'user', service, 'virtual_node', count(*), count(*) FILTER (WHERE status = 'error'),
       sum(duration_nano), sum(duration_nano) AS again
FROM spans WHERE kind = 'server' AND assembled_parent IS NULL AND parent_span_id IS NULL GROUP BY 1, 2"""


def edges_of(server):
    """{(client, server, type): (calls, failed, seconds at the server, seconds at the client)}"""
    edges = {}
    for query in (BOTH_SIDES, ONE_SIDE, TAKEN, ROOTS):
        for client, called, kind, calls, failed, at_server, at_client in server.sql(query):
            assert (client, called, kind) not in edges, (client, called)
            edges[client, called, kind] = (int(calls), int(failed), int(at_server) / 1e9, int(at_client) / 1e9)
    return edges


def spans_of(server):
    """{(service, name, kind, status): (spans, seconds)}"""
    rows = server.sql("SELECT service, operation, kind, status, count(*), sum(duration_nano) FROM spans GROUP BY 1, 2, 3, 4")
    return {(service, name, f"SPAN_KIND_{kind.upper()}", f"STATUS_CODE_{status.upper()}"): (int(count), int(nano) / 1e9)
            for service, name, kind, status, count, nano in rows}


def near(one, other, share=1e-9):
    return one.keys() == other.keys() and all(math.isclose(one[key], other[key], rel_tol=share) for key in one)


EDGE = ("client", "server", "connection_type")
SPAN = ("service", "span_name", "span_kind", "status_code")


def counts(checks, server, prometheus, is_native):
    """Sums since the start: exactly those of the SQL."""
    name = "native" if is_native else "classic"
    edges, spans = edges_of(server), spans_of(server)
    column = lambda of, at: {key: float(figures[at]) for key, figures in of.items()}  # noqa: E731
    total = until(lambda: prometheus.ask(TOTAL, *EDGE), lambda found: found == column(edges, 0))
    checks.check(f"{name}: calls of each edge are those of the SQL", total == column(edges, 0),
                 f"{total} is not {column(edges, 0)}")
    checks.check(f"{name}: so are the failed ones", prometheus.ask(FAILED, *EDGE) == column(edges, 1))
    calls = prometheus.ask("traces_spanmetrics_calls_total", *SPAN)
    checks.check(f"{name}: spans of each service, name, kind and status are those of the SQL",
                 calls == column(spans, 0), f"{calls} is not {column(spans, 0)}")
    histograms = [("traces_spanmetrics_latency", SPAN, spans, 1),
                  ("traces_service_graph_request_server_seconds", EDGE, edges, 2),
                  ("traces_service_graph_request_client_seconds", EDGE, edges, 3)]
    for metric, labels, of, at in histograms:
        if is_native:
            sums, found = (prometheus.ask(f"histogram_{what}({metric})", *labels) for what in ("sum", "count"))
        else:
            sums, found = (prometheus.ask(f"{metric}_{what}", *labels) for what in ("sum", "count"))
        checks.check(f"{name}: {metric} has as many, and their seconds",
                     found == column(of, 0) and near(sums, column(of, at)), f"{found} {sums}")
    if not is_native:
        for bound in (0.002, 0.032, 1.024):
            below = {tuple(row[:4]): float(row[4]) for row in server.sql(
                "SELECT service, operation, 'SPAN_KIND_' || upper(kind), 'STATUS_CODE_' || upper(status), count(*) "
                f"FILTER (WHERE duration_nano <= {int(bound * 1e9)}) FROM spans GROUP BY 1, 2, 3, 4")}
            found = prometheus.ask(f'traces_spanmetrics_latency_bucket{{le="{bound}"}}', *SPAN)
            checks.check(f"{name}: spans of at most {bound} s", found == below, f"{found} is not {below}")
    return edges


def panels(checks, prometheus, edges, is_native):
    """What Grafana's service graph asks, as it asks it."""
    name = "native" if is_native else "classic"
    metrics = [SECONDS, TOTAL, FAILED, BUCKETS.removesuffix("_bucket") if is_native else BUCKETS]
    if is_native:
        # A Prometheus of this version keeps no classic series beside native ones.
        metrics.remove(SECONDS)
    rates = {metric: prometheus.ask(f"sum by (client, server) (rate({metric}[60s]))", "client", "server")
             for metric in metrics[:-1]}
    pairs = {key[:2] for key in edges}
    checks.check(f"{name}: Grafana's graph has the edges", set(rates[TOTAL]) == pairs, str(rates[TOTAL].keys() ^ pairs))
    groups = prometheus.ask(f"group by (client, connection_type, server) ({metrics[-1]})", "client", "server", "connection_type")
    checks.check(f"{name}: and their types", set(groups) == set(edges), str(groups.keys() ^ edges.keys()))
    if not is_native:
        mean = {pair: rates[SECONDS][pair] / rates[TOTAL][pair] for pair in (("shop", "cart"), ("cart", "postgresql 10.1.1.1:5432"))}
        checks.check(f"{name}: Grafana's mean times", near(mean, dict(zip(mean, (0.030, 0.020))), RATES), str(mean))
    failed = rates[FAILED]["shop", "cart"] / rates[TOTAL]["shop", "cart"]
    checks.check(f"{name}: Grafana's share of failures", math.isclose(failed, 1 / 3, rel_tol=RATES), str(failed))

    expr = f"topk(5, sum(rate(traces_spanmetrics_calls_total{{{TABLE_FILTER}}}[60s])) by (span_name))"
    names = prometheus.ask(expr, "span_name")
    wanted = {('GET /order "ß"',), ("GET /cart",)}
    checks.check(f"{name}: Grafana's table of operations", wanted <= set(names), str(names))
    errors = prometheus.ask('sum(rate(traces_spanmetrics_calls_total{status_code="STATUS_CODE_ERROR",span_name=~"GET /cart"}[60s])) '
                            "by (span_name)", "span_name")
    share = errors["GET /cart",] / names["GET /cart",]
    checks.check(f"{name}: Grafana's rate of errors", math.isclose(share, 1 / 3, rel_tol=RATES), str(share))
    bucket, by = ("", "") if is_native else ("_bucket", " by (le)")
    p90 = prometheus.ask(f'histogram_quantile(.9, sum(rate(traces_spanmetrics_latency{bucket}{{span_name=~"GET /cart"}}[60s])){by})')
    # All take 30 ms: a native bucket is nine per cent wide, and this classic one is from 16 to 32 ms.
    low, high = (0.027, 0.0328) if is_native else (0.016, 0.032)
    checks.check(f"{name}: Grafana's p90", low <= p90[()] <= high, str(p90))
    resets = prometheus.ask(f"sum(resets({TOTAL}[10m])) + sum(resets(traces_spanmetrics_calls_total[10m]))")
    checks.check(f"{name}: nothing ever decreased", resets == {(): 0.0}, str(resets))


def exemplars(checks, server, prometheus):
    now = time.time()
    found = prometheus.get("query_exemplars", query='traces_spanmetrics_latency_bucket{service="cart",span_name="GET /cart"}',
                           start=now - 300, end=now + 60)
    ids = {exemplar["labels"]["trace_id"] for series in found for exemplar in series["exemplars"]}
    services = {span["service"] for trace in list(ids)[:3] for span in server.get(f"traces/{trace}")["spans"]}
    checks.check("examples of a bucket lead to traces with such a span", "cart" in services, f"{ids} {services}")
    found = prometheus.get("query_exemplars", query='traces_service_graph_request_server_seconds_bucket{client="front"}',
                           start=now - 300, end=now + 60)
    ids = {exemplar["labels"]["trace_id"] for series in found for exemplar in series["exemplars"]}
    services = {span["service"] for trace in list(ids)[:3] for span in server.get(f"traces/{trace}")["spans"]}
    checks.check("and so of what no SDK reported", {"front", "back"} <= services, f"{ids} {services}")


def graph(checks, server, edges):
    """The service map has the same edges."""
    found = {}
    for edge in server.get("graph")["edges"]:
        key = edge["client"], edge["server"]
        found[key] = found.get(key, 0) + int(edge["requests"])
    expected = {key[:2]: figures[0] for key, figures in edges.items() if key[0] != "user"}
    checks.check("the service map has the same calls", found == expected, f"{found} is not {expected}")


def lint(checks, server):
    text = fetch(f"http://127.0.0.1:{server.http}/metrics/spans")[2]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    said = done.stderr.decode().splitlines()
    # Names are Tempo's.
    wrong = [line for line in said if "traces_spanmetrics_latency" not in line]
    checks.check("promtool finds no fault", not wrong, "; ".join(wrong))


def late(checks, server, prometheus):
    """The called side arrives when the call was counted."""
    trace, ids = secrets.token_hex(16), [secrets.token_hex(8) for _ in range(2)]
    send(server, [("early", trace, ids[0], "", "GET", "client", 9, False, {"http.request.method": "GET", "server.address": "late"})])
    key = "early", "http late", "virtual_node"
    found = until(lambda: prometheus.ask(TOTAL, *EDGE), lambda found: key in found)
    checks.check("a call without an answer is counted after ten seconds", found.get(key) == 1.0, str(found))
    send(server, [("late", trace, ids[1], ids[0], "GET /", "server", 8, False, {})])
    again = "metrics_traces_reopened"
    counted = until(lambda: int(server.get("status")["server"]["assembly"]["counters"][again]), lambda count: count == 1)
    checks.check("a late side is told of", counted == 1, str(counted))
    time.sleep(2)
    checks.check("and takes nothing back", prometheus.ask(TOTAL, *EDGE).get(key) == 1.0)


def bounded(checks, program, directory):
    """More names than there is room for."""
    directory.mkdir()
    config = directory / "spanwise.toml"
    config.write_text('[metrics]\nseries = 16\nspan_buckets = "0.5,1"\n')
    server = Spanwise(program, directory / "data", directory / "log", command="server", config=config)
    server.start()
    try:
        send(server, [("many", secrets.token_hex(16), secrets.token_hex(8), "", f"name {number}", "internal", 1, False, {})
                      for number in range(100)])
        text = until(lambda: fetch(f"http://127.0.0.1:{server.http}/metrics/spans")[2].decode(), lambda text: "name 0" in text)
        calls = {line.split('span_name="')[1].split('"')[0]: int(line.rsplit(" ", 1)[1])
                 for line in text.splitlines() if line.startswith("traces_spanmetrics_calls_total{")}
        checks.check("what does not fit is `other`", sum(calls.values()) == 100 and calls.get("other") == 88, str(calls))
        bounds = {line.split('le="')[1].split('"')[0] for line in text.splitlines() if "latency_bucket" in line}
        checks.check("buckets are those of the setting", bounds == {"0.5", "1", "+Inf"}, str(bounds))
        folded = "\nspanwise_assembly_metrics_spans_folded_total 88\n"
        status = until(lambda: fetch(f"http://127.0.0.1:{server.http}/metrics")[2].decode(), lambda text: folded in text)
        checks.check("and is counted", folded in status)
    finally:
        server.stop()
    off = Spanwise(program, directory / "data", directory / "log", command="server", config=config, more=["--span-metrics=off"])
    off.start()
    try:
        status, _, body = fetch(f"http://127.0.0.1:{off.http}/metrics/spans")
        checks.check("what is switched off says so", status == 404 and b"metrics.spans" in body, body.decode())
    finally:
        off.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spanwise", help="the program")
    program = binary(parser.parse_args().spanwise)
    checks = Brief()
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        work = Path(work)
        ports = free_ports(2)
        config = work / "spanwise.toml"
        config.write_text(f'[agent]\nonly = "port={ports[0]},port={ports[1]}"\n' + "".join(
            f'[[agent.service]]\nname = "{name}"\nport = {port}\n' for name, port in zip(("front", "back"), ports)))
        server = Spanwise(program, work / "data", work / "log", config=config)
        server.start()
        stack.callback(server.stop)
        scrapers = []
        for name, features in (("classic", ["exemplar-storage"]), ("native", ["exemplar-storage", "native-histograms"])):
            scrapers.append(Prometheus(work / name, server.http, features))
            stack.callback(scrapers[-1].stop)
        for process in zero_code(work, ports):
            stack.callback(process.wait)
            stack.callback(process.kill)
        for port in ports:
            until(lambda: socket.create_connection(("127.0.0.1", port)).close(), lambda _: True)
        # What is there at the first scrape has no rate. So all series exist before what is asked for.
        for first, rounds in ((0, 3), (0, 30)):
            for number in range(first, rounds):
                send(server, order(number))
                until(lambda: fetch(f"http://127.0.0.1:{ports[0]}/hello"), lambda answer: answer[0] == 200)
            server.wait_quiet()
            for is_native, prometheus in enumerate(scrapers):
                until(lambda: prometheus.ask(TOTAL, *EDGE), lambda found: len(found) >= 8)
            time.sleep(2)
        edges = edges_of(server)
        checks.check("there are calls of all kinds", {kind for *_, kind in edges} ==
                     {"", "database", "messaging_system", "virtual_node"} and ("front", "back", "") in edges, str(edges))
        for is_native, prometheus in enumerate(scrapers):
            checks.case("counts", lambda: counts(checks, server, prometheus, bool(is_native)))
            checks.case("panels", lambda: panels(checks, prometheus, edges, bool(is_native)))
        checks.case("graph", lambda: graph(checks, server, edges))
        checks.case("exemplars", lambda: exemplars(checks, server, scrapers[0]))
        checks.case("lint", lambda: lint(checks, server))
        checks.case("late", lambda: late(checks, server, scrapers[0]))
        checks.case("bounded", lambda: bounded(checks, program, work / "bounded"))
    sys.exit(checks.close())


if __name__ == "__main__":
    main()
