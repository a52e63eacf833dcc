#!/usr/bin/env python3
"""Other people's programs on our query APIs: real Jaegers whose storage is ours, Zipkin's own UI, in
headless Chromium, on our API, and the official client of the Model Context Protocol. Screenshots are in
tests/surfaces/out."""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import quote, urlencode

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from checks import Checks  # noqa: E402
from spanwise import Spanwise, binary, free_ports  # noqa: E402

BUILT = HERE / ".built"
OUT = HERE / "out"
ZIPKIN = "io.zipkin:zipkin-server:3.6.1:jar:exec"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
SECONDS = 20


class Brief(Checks):
    """Says of what held only that it did."""

    def check(self, name, held, detail=""):
        return super().check(name, held, "" if held else detail)


def run(arguments, directory):
    done = subprocess.run(list(map(str, arguments)), cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{arguments[0]} failed in {directory}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def install():
    """Jaeger from the Go module proxy, and Zipkin's UI out of its server's jar; each once."""
    BUILT.mkdir(exist_ok=True)
    source = HERE / "jaeger"
    jaegers = [BUILT / "jaeger", BUILT / "all-in-one"]
    for jaeger in jaegers:
        if not jaeger.exists() or jaeger.stat().st_mtime < (source / "go.mod").stat().st_mtime:
            print("building Jaeger, which takes ten minutes of a processor", flush=True)
            # Not `go install`, which refuses modules that replace others.
            package = f"github.com/jaegertracing/jaeger/cmd/{jaeger.name}"
            run(["go", "build", "-trimpath", "-ldflags=-s", "-o", jaeger, package], source)
    lens = BUILT / "lens"
    if not (lens / "index.html").exists():
        print("fetching Zipkin's UI", flush=True)
        run(["mvn", "-q", "-B", COPY, f"-Dartifact={ZIPKIN}", f"-DoutputDirectory={BUILT}",
             "-Dmdep.stripVersion=true"], HERE)
        unpack(BUILT / "zipkin-server-exec.jar", lens)
    return *jaegers, lens


def install_assistant():
    """The Python of a venv with the official client of the Model Context Protocol."""
    venv, requirements = BUILT / "assistant", HERE / "assistant" / "requirements.txt"
    python, installed = venv / "bin" / "python", venv / "installed.txt"
    if not installed.exists() or installed.read_text() != requirements.read_text():
        BUILT.mkdir(exist_ok=True)
        run([sys.executable, "-m", "venv", "--clear", venv], HERE)
        run([python, "-m", "pip", "install", "--quiet", "-r", requirements], HERE)
        installed.write_text(requirements.read_text())
    return python


def unpack(jar, lens):
    """The UI's files, which are in a jar in the jar."""
    with zipfile.ZipFile(jar) as outer:
        inner = next(name for name in outer.namelist() if re.search(r"/zipkin-lens-[^/]*\.jar$", name))
        with outer.open(inner) as file, zipfile.ZipFile(file) as files:
            for name in files.namelist():
                if name.startswith("zipkin-lens/") and not name.endswith("/"):
                    path = lens / name.removeprefix("zipkin-lens/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(files.read(name))


def ask(port, path, method="GET", body=None, headers=None, timeout=20):
    """(status, JSON or text)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def until(find, wanted, seconds=SECONDS):
    """What `find` gives once `wanted` says so of it, or how it is after a while."""
    deadline, found = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            found = find()
            if wanted(found):
                break
        time.sleep(0.2)
    return found


# ---- the traces ------------------------------------------------------------

SHOP = "läden"


def sent_by_otlp(start):
    """A trace with what spans may have: errors, events, links, texts of all kinds, every type of attribute; as
    OTLP's JSON. Its id has 64 bits."""
    trace = "0" * 16 + secrets.token_hex(8)
    root, child = "00f067aa0ba902b7", "00f067aa0ba902b8"
    value = lambda kind, it: {f"{kind}Value": it}  # noqa: E731
    attributes = {
        "text": value("string", "ß \"quoted\" \U0001f9ed"), "int": value("int", "-9007199254740993"),
        "double": value("double", 0.5), "flag": value("bool", True), "bytes": value("bytes", "AQI="),
        "list": value("array", {"values": [value("int", "1"), value("string", "a")]}),
        "map": value("kvlist", {"values": [{"key": "k", "value": value("string", "v")}]}),
    }
    pairs = lambda these: [{"key": key, "value": it} for key, it in these.items()]  # noqa: E731

    def span(span_id, parent, name, kind, at, length, **more):
        return {"traceId": trace, "spanId": span_id, "parentSpanId": parent, "name": name, "kind": kind,
                "startTimeUnixNano": str(start + at), "endTimeUnixNano": str(start + at + length), **more}

    spans = [
        span(root, "", "GET /übung", 2, 0, 50_000_000, traceState="k=v", attributes=pairs(attributes),
             status={"code": 2, "message": "out of stock"},
             events=[{"timeUnixNano": str(start + 1_000_000), "name": "cache miss"},
                     {"timeUnixNano": str(start + 2_000_000), "name": "exception",
                      "attributes": pairs({"exception.type": value("string", "Sold")})}],
             links=[{"traceId": "01" * 16, "spanId": "09" * 8}]),
        span(child, root, "POST /pay", 3, 5_000_000, 20_000_000, attributes=pairs({"peer": value("string", "kasse")})),
    ]
    other = span("00f067aa0ba902b9", child, "POST /pay", 2, 8_000_000, 10_000_000)

    def resource(name, these):
        scope = {"scope": {"name": "shop", "version": "1.2"}, "spans": these}
        return {"resource": {"attributes": pairs({"service.name": value("string", name),
                                                  "zone": value("string", "b")})}, "scopeSpans": [scope]}

    return trace, {"resourceSpans": [resource(SHOP, spans), resource("kasse", [other])]}


def sent_by_zipkin(start):
    """Both halves of a call under one id, as Zipkin's tracers report it."""
    trace = secrets.token_hex(8)
    at = start // 1000

    def span(kind, service, **more):
        return {"traceId": trace, "id": "000000000000000b", "parentId": "000000000000000a", "kind": kind,
                "name": "get /stock", "timestamp": at + 1000, "duration": 9000,
                "localEndpoint": {"serviceName": service, "ipv4": "10.0.0.1"}, **more}

    return trace, [
        {"traceId": trace, "id": "000000000000000a", "kind": "SERVER", "name": "get /", "timestamp": at,
         "duration": 30000, "localEndpoint": {"serviceName": "front"}, "tags": {"http.path": "/"}},
        span("CLIENT", "front", remoteEndpoint={"serviceName": "stock", "ipv4": "10.0.0.2", "port": 8080},
             annotations=[{"timestamp": at + 2000, "value": "retried"}], tags={"error": "timeout"}),
        span("SERVER", "stock", shared=True),
    ]


# ---- Jaeger ----------------------------------------------------------------

CONFIG = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry:
    metrics: {{level: none}}
extensions:
  jaeger_query:
    storage: {{traces: spanwise}}
    http: {{endpoint: "127.0.0.1:{http}"}}
    grpc: {{endpoint: "127.0.0.1:{grpc}"}}
  jaeger_storage:
    backends:
      spanwise:
        grpc: {{endpoint: "127.0.0.1:{storage}", tls: {{insecure: true}}}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: spanwise}}
"""


# What the first version calls its ports.
OLD_FLAGS = ["query.http-server.host-port", "collector.otlp.http.host-port", "query.grpc-server.host-port",
             "admin.http.host-port", "collector.grpc-server.host-port", "collector.http-server.host-port",
             "collector.otlp.grpc.host-port"]


@contextlib.contextmanager
def jaeger(program, storage, directory):
    """A Jaeger whose storage is at this port: the ports of its API and of its receiver."""
    api, otlp, grpc, *others = free_ports(len(OLD_FLAGS))
    if program.name == "all-in-one":
        flags = [f"--{flag}=127.0.0.1:{port}" for flag, port in zip(OLD_FLAGS, [api, otlp, grpc, *others])]
        arguments = [program, f"--grpc-storage.server=127.0.0.1:{storage}", *flags]
    else:
        config = Path(directory) / "jaeger.yaml"
        config.write_text(CONFIG.format(http=api, grpc=grpc, otlp=otlp, storage=storage))
        arguments = [program, f"--config={config}"]
    path = OUT / f"{program.name}.log"
    with open(path, "wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=directory,
                                   env=os.environ | {"SPAN_STORAGE_TYPE": "grpc"})
        try:
            ready = until(lambda: ask(api, "/api/services")[0], lambda status: status == 200, 60)
            if ready != 200:
                raise SystemExit(f"Jaeger does not answer ({ready}): see {path}")
            yield api, otlp
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def without_order(answer):
    """A trace of version 1 as it is, whatever its order: spans by id, tags by key."""
    trace = answer["data"][0]
    by_key = lambda these: sorted(these, key=lambda tag: (tag["key"], str(tag["value"])))  # noqa: E731
    processes = {name: (process["serviceName"], by_key(process["tags"])) for name, process in
                 trace["processes"].items()}
    spans = {}
    for span in trace["spans"]:
        span = dict(span, tags=by_key(span["tags"]), process=processes[span.pop("processID")])
        for log in span["logs"]:
            log["fields"] = by_key(log["fields"])
        spans[span["spanID"]] = span
    return trace["traceID"], spans


def otlp_spans(answer):
    """The spans of an OTLP answer by id, each with its resource and scope; protobuf's defaults left out."""
    def known(it):
        if isinstance(it, dict):
            all_known = {key: known(each) for key, each in it.items()}
            return {key: each for key, each in all_known.items() if each not in ("", 0, None, [], {})}
        if isinstance(it, list):
            items = [known(each) for each in it]
            is_pairs = all(isinstance(each, dict) and "key" in each for each in items)
            return sorted(items, key=lambda pair: pair["key"]) if is_pairs else items
        return it

    spans = {}
    for resource in answer["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                spans[span["spanId"]] = known({**span, "resource": resource["resource"]["attributes"],
                                               "scope": scope.get("scope", {})})
    return spans


def jaeger_checks(checks, spanwise, api, otlp, trace, zipkin_trace, sent):
    services = until(lambda: ask(api, "/api/services")[1]["data"], lambda found: found and len(found) == 4)
    checks.check("Jaeger lists our services", sorted(services) == sorted([SHOP, "kasse", "front", "stock"]), services)
    for name, id_ in (("an SDK's trace", trace), ("Zipkin's trace", zipkin_trace)):
        ours = ask(spanwise.http, f"/jaeger/api/traces/{id_}")[1]
        theirs = ask(api, f"/api/traces/{id_}")[1]
        same = ours["data"] and theirs["data"] and differences(without_order(ours), without_order(theirs))
        checks.check(f"{name} in version 1 is the same from a Jaeger and from us", same == [], same)
        ours = ask(spanwise.http, f"/jaeger/api/v3/traces/{id_}")[1]
        theirs = ask(api, f"/api/v3/traces/{id_}")[1]
        same = differences(otlp_spans(ours["result"]), otlp_spans(theirs["result"]))
        checks.check(f"{name} in version 3 is the same from a Jaeger and from us", same == [], same)
    came = otlp_spans(ask(api, f"/api/v3/traces/{trace}")[1]["result"])
    same = differences(otlp_spans(sent), came)
    checks.check("what was sent by OTLP comes back from a Jaeger", same == [], same)
    now = time.time_ns() // 1000
    times = {"start": now - 600_000_000, "end": now, "limit": 20}
    for name, query, count in [
        ("service", {"service": SHOP}, 1),
        ("operation", {"service": SHOP, "operation": "GET /übung"}, 1),
        ("another operation", {"service": SHOP, "operation": "GET /other"}, 0),
        ("tags", {"service": SHOP, "tags": json.dumps({"error": "true", "text": "ß \"quoted\" \U0001f9ed"})}, 1),
        ("a tag of an event", {"service": SHOP, "tags": json.dumps({"exception.type": "Sold"})}, 1),
        ("a tag of the process", {"service": SHOP, "tags": json.dumps({"zone": "b"})}, 1),
        ("a tag that nothing has", {"service": SHOP, "tags": json.dumps({"zone": "c"})}, 0),
        ("durations", {"service": SHOP, "minDuration": "40ms", "maxDuration": "60ms"}, 1),
        ("durations of none", {"service": SHOP, "minDuration": "51ms"}, 0),
    ]:
        status, answer = ask(api, "/api/traces?" + urlencode({**times, **query}))
        found = answer.get("data") if status == 200 else answer
        checks.check(f"a Jaeger searches us by {name}", isinstance(found, list) and len(found) == count, answer)
    operations = ask(api, f"/api/services/{quote(SHOP)}/operations")[1]["data"]
    checks.check("a Jaeger lists our operations", sorted(operations) == ["GET /übung", "POST /pay"], operations)
    status, answer = ask(api, "/api/traces/" + "0d" * 16)
    checks.check("a Jaeger says 404 for what we do not have", status == 404, answer)
    status, answer = ask(api, f"/api/dependencies?endTs={time.time_ns() // 10**6}&lookback=600000")
    links = {(link["parent"], link["child"]): link["callCount"] for link in answer["data"] or []}
    wanted = {(SHOP, "kasse"): 1, ("front", "stock"): 1}
    checks.check("a Jaeger shows our dependencies", links == wanted, links)
    written, body = sent_by_otlp(time.time_ns() - 10**9)
    status, answer = ask(otlp, "/v1/traces", "POST", json.dumps(body), {"Content-Type": "application/json"})
    kept = until(lambda: ask(spanwise.http, f"/api/v1/traces/{written}")[1],
                 lambda found: isinstance(found, dict) and found.get("span_count") == 3)
    checks.check("what a Jaeger receives is written to us", status == 200 and kept.get("span_count") == 3, kept)


def old_jaeger_checks(checks, spanwise, api, otlp, trace):
    """What the first version of the storage's API gives a Jaeger."""
    same = differences(*[without_order(ask(port, f"{prefix}/api/traces/{trace}")[1])
                         for port, prefix in ((spanwise.http, "/jaeger"), (api, ""))])
    checks.check("a trace is the same from an old Jaeger and from us", same == [], same)
    now = time.time_ns() // 1000
    query = {"service": SHOP, "start": now - 600_000_000, "end": now, "tags": json.dumps({"exception.type": "Sold"})}
    answer = ask(api, "/api/traces?" + urlencode(query))[1]
    found = [found["traceID"] for found in answer["data"] or []]
    checks.check("an old Jaeger searches us", trace.lstrip("0") in [each.lstrip("0") for each in found], answer)
    answer = ask(api, f"/api/dependencies?endTs={now // 1000}&lookback=600000")[1]
    links = [(link["parent"], link["child"]) for link in answer["data"] or []]
    checks.check("an old Jaeger shows our dependencies", (SHOP, "kasse") in links, answer)
    checks.check("an old Jaeger says 404 for what we do not have", ask(api, "/api/traces/" + "0d" * 16)[0] == 404)
    written, body = sent_by_otlp(time.time_ns() - 10**9)
    status, answer = ask(otlp, "/v1/traces", "POST", json.dumps(body), {"Content-Type": "application/json"})
    kept = until(lambda: ask(spanwise.http, f"/api/v1/traces/{written}")[1],
                 lambda found: isinstance(found, dict) and found.get("span_count") == 3)
    checks.check("what an old Jaeger receives is written to us", kept.get("span_count") == 3, kept)


def differences(one, other, place=""):
    """Where two values differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict):
        found = []
        for key in sorted(one.keys() | other.keys()):
            found += differences(one.get(key), other.get(key), f"{place}.{key}")
        return found
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return [each for at, pair in enumerate(zip(one, other)) for each in differences(*pair, f"{place}[{at}]")]
    return [] if one == other else [f"{place}: {one!r} / {other!r}"]


# ---- Zipkin ----------------------------------------------------------------

class Lens(http.server.SimpleHTTPRequestHandler):
    """Zipkin's UI, and our API below it, as a proxy before both would have it."""

    lens, api = None, None

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("/zipkin/api/") or path == "/zipkin/config.json":
            return self.proxied()
        file = self.lens / path.removeprefix("/zipkin/")
        if not file.is_file():
            file = self.lens / "index.html"
        body = file.read_bytes()
        self.answer(200, self.guess_type(str(file)), body)

    def proxied(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api}{self.path}", timeout=20) as response:
                self.answer(response.status, response.headers["Content-Type"], response.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, "text/plain", error.read())

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def lens_at(lens, api):
    """Zipkin's UI on the API at this port: its address."""
    handler = type("Handler", (Lens,), {"lens": lens, "api": api})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/zipkin"
    finally:
        server.shutdown()
        server.server_close()


def browse(url, picture):
    """The text of a page as Chromium shows it, and a picture of it."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory(prefix="spanwise-chromium-") as profile:
        arguments = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                     "--window-size=1400,1000", "--virtual-time-budget=20000", "--hide-scrollbars"]
        done = subprocess.run([*arguments, "--dump-dom", url], capture_output=True, text=True, timeout=90, check=False)
        subprocess.run([*arguments, f"--screenshot={OUT / picture}", url], capture_output=True, timeout=90, check=False)
    return re.sub(r"<(style|script)[^>]*>.*?</\1>|<[^>]+>", " ", done.stdout, flags=re.DOTALL)


def zipkin_checks(checks, spanwise, lens, trace, sent):
    for where, port in (("the UI's port", spanwise.http), ("the receiver's port", spanwise.zipkin)):
        prefix = "/zipkin" if port == spanwise.http else ""
        came = until(lambda: ask(port, f"{prefix}/api/v2/trace/{trace}")[1],  # noqa: B023
                     lambda found: isinstance(found, list) and len(found) == 3)
        order = lambda spans: sorted(spans, key=lambda span: (span["id"], span["kind"]))  # noqa: E731
        same = differences(order(sent), order(came))
        checks.check(f"what was sent by Zipkin comes back at {where}", same == [], same)
        services = ask(port, f"{prefix}/api/v2/services")[1]
        checks.check(f"services are listed at {where}", "front" in services, services)
    with lens_at(lens, spanwise.zipkin) as ui:
        now = time.time_ns() // 10**6
        query = f"serviceName=front&lookback=15m&endTs={now}&limit=10"
        search = browse(f"{ui}/?{query}", "zipkin-search.png")
        found = re.search(r"front\s*:?\s*get /", search, re.IGNORECASE)
        checks.check("Zipkin's UI finds a trace on our API", found, search[:1500])
        page = browse(f"{ui}/traces/{trace}", "zipkin-trace.png")
        shown = all(word in page.lower() for word in ("front", "stock", "get /stock"))
        checks.check("Zipkin's UI shows a trace of our API", shown, page[:1500])
        links = ask(spanwise.zipkin, f"/api/v2/dependencies?endTs={now}&lookback=3600000")[1]
        checks.check("calls are counted", {"parent": "front", "child": "stock", "callCount": 1, "errorCount": 1} in links,
                     links)
        # The UI draws them on a canvas; without them it has no filter.
        times = f"startTime={now - 3_600_000}&endTime={now + 60_000}"
        graph = browse(f"{ui}/dependency?{times}", "zipkin-dependency.png")
        checks.check("Zipkin's UI has our dependencies", "filter" in graph.lower(), graph[:1500])


# ---- assistants ------------------------------------------------------------

TOOLS = {"list_services", "list_operations", "search_traces", "read_trace", "read_spans", "compare_traces",
         "service_graph", "find_cause", "run_sql", "list_attributes", "list_attribute_values"}


def assistant_checks(checks, python, spanwise, trace, zipkin_trace):
    url = f"http://127.0.0.1:{spanwise.http}"
    said = {}
    for where, mode, more in (("HTTP", "auto", []), ("HTTP with a handshake", "legacy", []),
                              ("standard input", "auto", [spanwise.program]),
                              ("standard input with a handshake", "legacy", [spanwise.program])):
        arguments = [python, HERE / "assistant" / "assistant.py", url, mode, trace, zipkin_trace,
                     "00f067aa0ba902b7", *more]
        done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=60, check=False)
        if not checks.check(f"an assistant is answered by {where}", done.returncode == 0, done.stderr[-1500:]):
            continue
        answer = json.loads(done.stdout)
        wanted = "2026-07-28" if mode == "auto" else "2025-11-25"
        checks.check(f"the version by {where}", answer["version"] == wanted, answer["version"])
        checks.check(f"the tools by {where}", set(answer["tools"]) == TOOLS, answer["tools"])
        said[where] = answer["answers"]
    answers = said.get("HTTP") or []
    texts = [[name, is_error, re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z|over \d+ s|[0-9.]+ ?(requests)?/s", "", text)]
             for name, is_error, text in answers]
    for where, others in said.items():
        same = [[name, is_error] for name, is_error, _ in others] == [[name, is_error] for name, is_error, _ in texts]
        checks.check(f"the same answers by {where}", same, others)
    words = [("front", "stock"), ("kinds",), (trace, "FAILED in läden"), (zipkin_trace, "get /"),
             (f"trace {trace}: 3 spans", "GET /übung", "FAILED", "out of stock"),
             ('"int","type":"int","value":"-9007199254740993"', "cache miss", "09" * 8),
             ("A = trace", "B = trace", "absent"), ("front -> stock",), ("nothing is known to be wrong",),
             ("front,2", "kasse,1"), ("http.path",), ("/, 1",),
             ("line 1, column", "^"), ("is no id",), ("there is no `query`",), ("known: q, service",), ("One SELECT",)]
    for (name, is_error, text), wanted, at in zip(answers, words, range(len(words)), strict=True):
        if name == "list_operations":
            wanted = ("further operations are left out",)
        checks.check(f"{name} ({at}) says what it should", all(word in text for word in wanted), text[:1500])
        checks.check(f"{name} ({at}) fails where it should", is_error == (at > 11), text[:500])
        checks.check(f"{name} ({at}) has a bound", len(text.encode()) < 50_000, len(text))
    # A page of another origin cannot ask, whatever name the address has for it.
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    for name, headers, refusal in (("another host", {"Host": "evil.example"}, 421),
                                   ("another origin", {"Origin": "http://evil.example"}, 403),
                                   ("plain text", {"Content-Type": "text/plain"}, 415)):
        usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        status, text = ask(spanwise.http, "/mcp", "POST", message, usual | headers)
        checks.check(f"a message with {name} is refused", status == refusal, (status, text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to test")
    parser.add_argument("--install", action="store_true", help="only build and fetch what is needed")
    parser.add_argument("--assistant", action="store_true", help="only the Model Context Protocol")
    options = parser.parse_args()
    python = install_assistant()
    program, old_program, lens = (None, None, None) if options.assistant else install()
    if options.install:
        return
    OUT.mkdir(exist_ok=True)
    checks = Brief()
    with tempfile.TemporaryDirectory(prefix="spanwise-surfaces-") as directory:
        query, storage = free_ports(2)
        spanwise = Spanwise(binary(options.spanwise), Path(directory) / "data", OUT / "spanwise.log", command="server",
                            more=[f"--jaeger-query=127.0.0.1:{query}", f"--jaeger-storage=127.0.0.1:{storage}"])
        spanwise.start()
        try:
            start = time.time_ns() - 5 * 10**9
            trace, sent = sent_by_otlp(start)
            status, said = ask(spanwise.otlp, "/v1/traces", "POST", json.dumps(sent),
                               {"Content-Type": "application/json"})
            checks.check("the SDK's trace is taken", status == 200, said)
            zipkin_trace, zipkin_sent = sent_by_zipkin(start)
            status, said = ask(spanwise.zipkin, "/api/v2/spans", "POST", json.dumps(zipkin_sent),
                               {"Content-Type": "application/json"})
            checks.check("Zipkin's trace is taken", status == 202, said)
            until(lambda: ask(spanwise.http, f"/zipkin/api/v2/trace/{zipkin_trace}")[1],
                  lambda found: isinstance(found, list) and len(found) == 3)
            assistant_checks(checks, python, spanwise, trace, zipkin_trace)
            if options.assistant:
                return checks.close()
            zipkin_checks(checks, spanwise, lens, zipkin_trace, zipkin_sent)
            answer = ask(query, "/api/services")[1]
            checks.check("Jaeger's port answers", answer["total"] == 4, answer)
            with jaeger(program, storage, directory) as (api, otlp):
                jaeger_checks(checks, spanwise, api, otlp, trace, zipkin_trace, sent)
            with jaeger(old_program, storage, directory) as (api, otlp):
                old_jaeger_checks(checks, spanwise, api, otlp, trace)
        finally:
            spanwise.stop()
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
