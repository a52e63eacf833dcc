#!/usr/bin/env python3
"""Common tracing clients in four languages against the real server: each sends one known tree, and
the API must show that tree.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from checks import Checks  # noqa: E402
from spanwise import Refused, Spanwise, binary  # noqa: E402

# Kept, so that a second run is faster.
BUILT = HERE / ".built"
SECONDS = 10

# (operation, kind, status), children sorted by operation.
TREE = ("checkout", "server", "unset", [("charge", "client", "error", []), ("price", "internal", "unset", [])])
# Zipkin's tracers report both sides of a call under one id.
SHARED = ("checkout", "server", "unset", [
    ("charge", "client", "error", [("charge", "server", "unset", [("authorize", "internal", "unset", [])])]),
    ("price", "internal", "unset", [])])


class Language:
    """How to build and run the clients of a language, and their names."""

    def __init__(self, name, inputs, build, command, clients):
        self.name, self.inputs, self.build, self.command, self.clients = name, inputs, build, command, clients

    def install(self):
        """Builds, unless it was done with the same inputs."""
        stamp = BUILT / f"{self.name}.stamp"
        newest = max((path.stat().st_mtime for path in self.inputs()), default=0)
        if stamp.exists() and stamp.stat().st_mtime > newest:
            return
        print(f"installing the clients of {self.name}", flush=True)
        BUILT.mkdir(exist_ok=True)
        for arguments, directory in self.build():
            done = subprocess.run(list(map(str, arguments)), cwd=directory, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{arguments[0]} failed in {directory}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        stamp.touch()


def python_with(name, requirements, clients):
    venv = BUILT / name
    return Language(
        name, lambda: [requirements],
        lambda: [([sys.executable, "-m", "venv", venv], HERE),
                 ([venv / "bin" / "pip", "install", "--quiet", "-r", requirements], HERE)],
        [venv / "bin" / "python", HERE / "python" / "tree.py"], clients)


def python():
    return python_with("python", HERE / "python" / "requirements.txt",
                       ["otlp-grpc", "otlp-http", "zipkin-json", "jaeger-udp"])


def py_zipkin():
    """Its protobuf classes need an older protobuf than OpenTelemetry's."""
    return python_with("py-zipkin", HERE / "python" / "requirements-py-zipkin.txt",
                       ["py-zipkin-v1-thrift", "py-zipkin-v1-json", "py-zipkin-v2-protobuf"])


def node():
    source = HERE / "node"
    return Language(
        "node", lambda: [source / "package-lock.json"],
        lambda: [(["npm", "ci", "--no-audit", "--no-fund", "--silent"], source)],
        ["node", source / "tree.js"],
        ["otlp-grpc", "otlp-http", "otlp-json", "zipkin-json", "zipkin-js-v1", "zipkin-js-v2", "jaeger-udp",
         "jaeger-http"])


def go():
    source = HERE / "go"
    return Language(
        "go", lambda: [*source.glob("*.go"), source / "go.sum"],
        lambda: [(["go", "build", "-o", BUILT / "go-tree", "."], source)],
        [BUILT / "go-tree"],
        ["otlp-grpc", "otlp-http", "otap", "otap-zstd", "otap-every", "otap-large", "zipkin-json",
         "zipkin-go-json", "zipkin-go-protobuf", "jaeger-udp", "jaeger-http"])


def java():
    source = HERE / "java"
    target = source / "target"
    return Language(
        "java", lambda: [source / "pom.xml", *source.rglob("*.java")],
        lambda: [(["mvn", "-q", "-B", "package"], source)],
        ["java", "-cp", f"{target}/clients.jar:{target}/lib/*", "clients.Tree"],
        ["brave", "otlp-grpc", "otlp-http", "zipkin-json", "jaeger-udp", "jaeger-http"])


LANGUAGES = [python, py_zipkin, node, go, java]


def endpoint(spanwise, language, client):
    """A client's endpoint, in the form that it expects."""
    _, http, compact, binary_udp = spanwise.jaeger
    for part, url in [
        ("otlp-grpc", f"http://127.0.0.1:{spanwise.grpc}"),
        ("otap", f"http://127.0.0.1:{spanwise.grpc}"),
        ("otlp-", f"http://127.0.0.1:{spanwise.otlp}/v1/traces"),
        ("py-zipkin-v1", f"http://127.0.0.1:{spanwise.zipkin}/api/v1/spans"),
        ("zipkin-js-v1", f"http://127.0.0.1:{spanwise.zipkin}/api/v1/spans"),
        ("py-zipkin-v2", f"http://127.0.0.1:{spanwise.zipkin}/api/v2/spans"),
        ("zipkin", f"http://127.0.0.1:{spanwise.zipkin}/api/v2/spans"),
        ("brave", f"http://127.0.0.1:{spanwise.zipkin}/api/v2/spans"),
        # Node.js' client uses the binary protocol, the others the compact one.
        ("jaeger-udp", f"udp://127.0.0.1:{binary_udp if language == 'node' else compact}"),
        # The clients of Go and Java need the format in the URL.
        ("jaeger-http", f"http://127.0.0.1:{http}/api/traces" + ("?format=jaeger.thrift" if language == "go" else "")),
    ]:
        if client.startswith(part):
            return url
    raise KeyError(client)


def shape(trace):
    """The trace as (operation, kind, status, children)."""
    spans = {span["span_id"]: span for span in trace["spans"]}

    def of(span):
        children = sorted(of(spans[child]) for child in span["children"])
        return span["operation"], span["kind"], span["status"], children

    roots = [of(spans[root]) for root in trace["roots"]]
    return roots[0] if len(roots) == 1 else roots


def wait_for(spanwise, trace_id, wanted):
    """The trace once it has the expected shape, or its state after the timeout."""
    deadline, trace = time.monotonic() + SECONDS, None
    while time.monotonic() < deadline:
        try:
            trace = spanwise.get(f"traces/{trace_id}")
            if shape(trace) == wanted:
                break
        except Refused:
            pass
        time.sleep(0.1)
    return trace


def details(trace, service):
    """Errors in the spans themselves; empty if there are none."""
    wrong = []
    for span in trace["spans"]:
        attributes = {each["key"]: each["value"] for each in span["attributes"]}
        if span["operation"] == "price":
            # Zipkin sends a text. A format in which all numbers are doubles sends a double.
            if float(attributes.get("items", "nan")) != 3:
                wrong.append(f"items is {attributes.get('items')!r}")
            if [event["name"] for event in span["events"]] != ["cache miss"]:
                wrong.append(f"events are {[event['name'] for event in span['events']]}")
        if span["operation"] == "charge" and span["kind"] == "client" and "card declined" not in str(span.get("error")):
            wrong.append(f"error is {span.get('error')!r}")
        if not span["service"].startswith(service):
            wrong.append(f"service is {span['service']!r}")
        if abs(int(span["start_unix_nano"]) - time.time_ns()) > 10**11 or not 0 <= int(span["duration_nano"]) < 10**10:
            wrong.append(f"{span['operation']} began at {span['start_unix_nano']} for {span['duration_nano']}")
    return wrong


def spans_of(spanwise, trace_id, count):
    """The trace's spans by id, once there are enough, or their state after the timeout. Parts
    without an order in OTAP are sorted, and trace ids are removed.
    """
    deadline, spans = time.monotonic() + SECONDS, []
    while len(spans) != count and time.monotonic() < deadline:
        try:
            spans = spanwise.get(f"traces/{trace_id}", limit=10_000)["spans"]
        except Refused:
            time.sleep(0.1)
    for span in spans:
        span["links"].sort(key=lambda link: (link["trace_id"], link["span_id"]))
        for each in [span, *span["events"], *span["links"]]:
            each["attributes"].sort(key=lambda attribute: attribute["key"])
        for name in ("trace_id", "assembled_trace_id"):
            span.pop(name, None)
    return {span["span_id"]: span for span in spans}


def every(spanwise, ids):
    """Differences between the first trace and the second, which has the same spans over OTLP;
    empty if there are none.
    """
    otap, otlp = [spans_of(spanwise, trace_id, 412) for trace_id in ids]
    if len(otap) != 412 or otap.keys() != otlp.keys():
        return f"{len(otap)} spans by OTAP, {len(otlp)} by OTLP, of 412"
    for span_id, span in otap.items():
        for name in span.keys() | otlp[span_id].keys():
            if span.get(name) != otlp[span_id].get(name):
                return f"{name} of {span_id} is {span.get(name)!r}, and by OTLP {otlp[span_id].get(name)!r}"
    return ""


def large(spanwise, service):
    """Errors in many spans, each of which has a unique text."""
    found = spanwise.sql(f"""SELECT count(*), count(DISTINCT attribute(attributes, 'app.request')) FROM spans
                             WHERE service = '{service}'""")[0]
    return "" if [int(count) for count in found] == [72_000, 72_000] else f"{found} of 72000 spans and texts"


def run(checks, spanwise, language, client):
    service = f"{language.name}-{client}"
    command = [*map(str, language.command), client, service, endpoint(spanwise, language.name, client)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "JAEGER_"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    said = re.findall(r"^[0-9a-f]{32}$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not said:
        checks.check(f"{service} sends", False, f"exit code {done.returncode}\n{done.stdout}{done.stderr[-2000:]}")
        return
    if client in ("otap-every", "otap-large"):
        wrong = every(spanwise, said) if client == "otap-every" else large(spanwise, service)
        checks.check(service, not wrong, wrong)
        return
    wanted = SHARED if client == "brave" or client.startswith("zipkin-js-") else TREE
    trace = wait_for(spanwise, said[-1], wanted)
    if trace is None:
        checks.check(service, False, f"no trace {said[-1]}; the client said: {done.stderr[-1000:]}")
        return
    wrong = details(trace, service)
    found = shape(trace)
    checks.check(service, found == wanted and not wrong,
                 "; ".join(wrong) if found == wanted else f"{found}; {'; '.join(trace['warnings'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spanwise", help="the program to test (default: target/release/spanwise, else the debug build)")
    parser.add_argument("--only", default="", help="run the clients whose LANGUAGE-CLIENT contains this")
    options = parser.parse_args()
    program = binary(options.spanwise)

    checks, languages = Checks(), [language() for language in LANGUAGES]
    chosen = [(language, client) for language in languages for client in language.clients
              if options.only in f"{language.name}-{client}"]
    for language in languages:
        if any(each is language for each, _ in chosen):
            language.install()
    work = Path(tempfile.mkdtemp(prefix="spanwise-clients-"))
    spanwise = Spanwise(program, work / "data", work / "spanwise.log", "server")
    try:
        spanwise.start()
        for language, client in chosen:
            checks.case(f"{language.name}-{client}", lambda: run(checks, spanwise, language, client))
        counters = spanwise.get("status")["ingest"]["counters"]
        lost = {name: count for name, count in counters.items() if count and ("reject" in name or "drop" in name)}
        checks.check("nothing was rejected or dropped", not lost, str(lost or ""))
        spanwise.stop()
    finally:
        spanwise.kill()
        shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(checks.close())


if __name__ == "__main__":
    main()
