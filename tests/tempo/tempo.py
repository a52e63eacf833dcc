#!/usr/bin/env python3
"""Tempo's API as others ask it: Perses' published client, the requests of Grafana's data source
as it sends them, and gRPC. Each against the real program, which must show what was sent."""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlencode

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from checks import Checks  # noqa: E402
from spanwise import Spanwise, binary, free_ports  # noqa: E402

TRACE = "0af7651916cd43dd8448eb211c80319c"
# id, parent, service, name, kind, error
SPANS = [
    ("b7ad6b7169203331", "", "web", "GET /cart", 2, False),
    ("b7ad6b7169203332", "b7ad6b7169203331", "web", "call cart", 3, False),
    ("b7ad6b7169203333", "b7ad6b7169203332", "cart", "load", 2, True),
]


class Server(Spanwise):
    """With Tempo's API on a port of its own."""

    def __init__(self, program, data, log):
        super().__init__(program, data, log, command="server")
        (self.tempo,) = free_ports(1)

    def arguments(self):
        return [*super().arguments(), f"--tempo=127.0.0.1:{self.tempo}"]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.tempo}"

    def ask(self, path, accept="application/json", **query):
        """The status, the type and the body."""
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, headers={"Accept": accept})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.headers["content-type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["content-type"], error.read()

    def json(self, path, **query):
        status, _, body = self.ask(path, **query)
        assert status == 200, f"{path}: {status} {body[:300]}"
        return json.loads(body)


def send(server, start):
    """The trace, by OTLP in JSON."""
    def span(number, one):
        own, parent, _, name, kind, error = one
        at = start + number * 10_000_000
        return {"traceId": TRACE, "spanId": own, "parentSpanId": parent, "name": name, "kind": kind,
                "startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 50_000_000),
                "attributes": [{"key": "http.request.method", "value": {"stringValue": "GET"}}],
                "status": {"code": 2, "message": "no such item"} if error else {}}

    def resource(service):
        spans = [span(number, one) for number, one in enumerate(SPANS) if one[2] == service]
        return {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans}]}

    body = json.dumps({"resourceSpans": [resource("web"), resource("cart")]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.otlp}/v1/traces", data=body,
                                     headers={"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).read()


def wait(server, seconds=20):
    """Until the trace is put together."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.json("/api/search", q="{}")["traces"]:
            return
        time.sleep(0.2)
    raise SystemExit("the trace did not come")


def perses(checks, server):
    """Perses 0.54's client."""
    done = subprocess.run(["node", "perses.mjs", server.url, TRACE], cwd=HERE, capture_output=True, text=True)
    if not checks.check("Perses' client asks", done.returncode == 0, done.stderr[-500:]):
        return
    told = json.loads(done.stdout)
    found = told["search"]["traces"]
    checks.check("Perses searches", [trace["traceID"] for trace in found] == [TRACE.lstrip("0")])
    checks.check("Perses sees the root", (found[0]["rootServiceName"], found[0]["rootTraceName"]) == ("web", "GET /cart"))
    checks.check("Perses finds sums by service, and need not make them",
                 told["summaries"]["traces"][0]["serviceStats"]
                 == {"cart": {"spanCount": 1, "errorCount": 1}, "web": {"spanCount": 2}})
    spans = [span for batch in told["trace"]["batches"] for scope in batch["scopeSpans"] for span in scope["spans"]]
    parents = {base64.b64decode(span["spanId"]).hex(): base64.b64decode(span.get("parentSpanId", "")).hex() for span in spans}
    checks.check("Perses reads the trace", parents == {own: parent for own, parent, *_ in SPANS}, str(parents))
    failed = [span["status"]["message"] for span in spans if span["status"].get("code") == "STATUS_CODE_ERROR"]
    checks.check("Perses sees the error", failed == ["no such item"])
    scopes = {scope["name"]: scope.get("tags", []) for scope in told["tags"]["scopes"]}
    checks.check("Perses lists tags", "http.request.method" in scopes["span"] and "service.name" in scopes["resource"])
    checks.check("Perses lists values", told["values"]["tagValues"]
                 == [{"type": "string", "value": "cart"}, {"type": "string", "value": "web"}])


def grafana(checks, server):
    """What Grafana's data source sends, and what it reads of the answers."""
    now = int(time.time())
    times = {"start": now - 900, "end": now + 60}
    checks.check("Grafana's health check", server.ask("/api/echo")[2] == b"echo")
    checks.check("Grafana reads a version", len(server.json("/api/status/buildinfo")["version"].split(".")) == 3)
    query = '{resource.service.name="cart" && name="load"}'
    found = server.json("/api/search", q=query, limit=20, spss=3, **times)["traces"][0]
    span = found["spanSets"][0]["spans"][0]
    checks.check("Grafana's search builder", (found["traceID"], span["spanID"], span["durationNanos"])
                 == (TRACE.lstrip("0"), SPANS[2][0], "50000000"))
    status, kind, body = server.ask(f"/api/v2/traces/{TRACE}", accept="application/protobuf", **times)
    checks.check("Grafana reads traces as protobuf", (status, kind) == (200, "application/protobuf")
                 and bytes.fromhex(TRACE) in body and all(bytes.fromhex(own) in body for own, *_ in SPANS))
    status, _, body = server.ask("/api/traces/1234", accept="application/protobuf")
    checks.check("Grafana falls back where there is none", (status, body) == (404, b""))
    tags = server.json("/api/v2/search/tags", limit=5000, **times)["scopes"]
    checks.check("Grafana's tags have scopes", {"intrinsic", "resource", "span"} <= {scope["name"] for scope in tags})
    name = quote(quote("resource.service.name", safe=""), safe="")
    values = server.json(f"/api/v2/search/tag/{name}/values", q='{name="load" && status=}')["tagValues"]
    checks.check("Grafana completes values", values == [{"type": "string", "value": "cart"}])
    nano = {"start": times["start"] * 10**9, "end": times["end"] * 10**9}
    series = server.json("/api/metrics/query_range", step="15s", exemplars=10,
                         q="{nestedSetParent<0 && true} | rate() by(resource.service.name)", **nano)["series"]
    labels = [label for one in series for label in one["labels"]]
    checks.check("Grafana's Drilldown counts roots", labels
                 == [{"key": "resource.service.name", "value": {"stringValue": "web"}}], str(labels))
    exemplar = series[0]["exemplars"][0]["labels"][0]
    checks.check("its exemplars lead to the trace", exemplar == {"key": "trace:id", "value": {"stringValue": TRACE}})
    heat = server.json("/api/metrics/query_range", step="15s",
                       q="{nestedSetParent<0} | histogram_over_time(duration) with(sample=true)", **nano)["series"]
    checks.check("Drilldown's heat map has buckets", [label["key"] for label in heat[0]["labels"]] == ["__bucket"])
    compared = server.json("/api/metrics/query_range", step="60s",
                           q="{true} | compare({status = error}, 10)", **nano)["series"]
    kinds = {label["value"]["stringValue"] for one in compared for label in one["labels"] if label["key"] == "__meta_type"}
    checks.check("Drilldown's comparison has both sides", {"baseline", "selection"} <= kinds, str(kinds))
    structure = "({nestedSetParent<0} &>> {status = error}) || ({nestedSetParent<0}) | select(status, resource.service.name, name, nestedSetParent, nestedSetLeft, nestedSetRight)"
    found = server.json("/api/search", q=structure, limit=200, spss=20, **times)["traces"][0]["spanSets"][0]
    told = [{attribute["key"] for attribute in span["attributes"]} for span in found["spans"]]
    checks.check("Drilldown's structure has nested sets", found["matched"] == 2
                 and all({"nestedSetLeft", "nestedSetParent", "service.name"} <= keys for keys in told), str(told))
    status, _, body = server.ask("/api/search", q="{resource.service.name=}")
    checks.check("Grafana shows where a query is wrong", status == 400 and b"line 1, column 24" in body, body.decode())


def grpc(checks, server):
    """gRPC as Grafana streams by it."""
    def call(method, fields):
        message = b"".join(bytes([number << 3 | 2, len(text)]) + text.encode() for number, text in fields)
        done = subprocess.run(["node", "grpc.mjs", server.url, method, message.hex()], cwd=HERE,
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = call("Search", [(8, "{ status = error }")])
    checks.check("gRPC streams what is found", found["status"] == "0" and len(found["messages"]) > 1
                 and sum(TRACE.lstrip("0") in message for message in found["messages"]) == 1)
    wrong = call("Search", [(8, "{ status = ")])
    checks.check("gRPC tells what is wrong", wrong["status"] == "3" and "column" in wrong["message"], str(wrong))
    values = call("SearchTagValuesV2", [(1, "resource.service.name")])
    checks.check("gRPC lists values", "cart" in values["messages"][0] and "web" in values["messages"][0])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--spanwise", help="the program to test")
    program = binary(arguments.parse_args().spanwise)
    if not (HERE / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, check=True)
    checks = Checks()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(program, Path(directory) / "data", Path(directory) / "log")
        server.start()
        try:
            send(server, time.time_ns() - 30 * 10**9)
            wait(server)
            for case in (perses, grafana, grpc):
                checks.case(case.__name__, lambda: case(checks, server))
        finally:
            server.stop()
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
