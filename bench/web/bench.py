#!/usr/bin/env python3
"""What the UI takes in headless Chromium: starts a server, sends it one trace of 100,000 spans and
one of a million, and runs web/test/bench.mjs, which opens pages and prints `figure` lines. Then it
does the same with a server that has ten million spans of 30 services, to search in them.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import otlp  # noqa: E402
from spanwise import Spanwise, binary  # noqa: E402

BATCH = 10_000
STEPS = 50


def large_trace(trace, spans):
    """OTLP requests (JSON) of one trace: a job, its steps, and the statements of each step."""
    start = time.time_ns() - 120_000_000_000
    length = 60_000_000_000 // spans

    def span(number, parent, name, nanos, kind):
        at = start + number * length
        return {"traceId": trace, "spanId": f"{number + 1:016x}", "name": name, "kind": kind,
                "parentSpanId": "" if parent is None else f"{parent + 1:016x}",
                "startTimeUnixNano": str(at), "endTimeUnixNano": str(at + nanos)}

    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "settlement"}}]}
    for first in range(0, spans, BATCH):
        made = []
        for number in range(first, min(spans, first + BATCH)):
            if number == 0:
                made.append(span(0, None, "POST /reports/settlement", 60_000_000_000, 2))
            elif number % STEPS == 1:
                made.append(span(number, 0, "settle account", length * STEPS, 1))
            else:
                made.append(span(number, (number - 2) // STEPS * STEPS + 1, "UPDATE balance", length, 3))
        yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": made}]}]}).encode()


@contextlib.contextmanager
def server(program):
    """A server with an empty store."""
    with tempfile.TemporaryDirectory(prefix="spanwise-bench-web-") as directory:
        spanwise = Spanwise(binary(program), Path(directory) / "data", Path(directory) / "log", command="server")
        spanwise.start()
        try:
            yield spanwise
        finally:
            spanwise.stop(60)


def measure(spanwise, *parts):
    """Whether all of these parts of web/test/bench.mjs could be measured."""
    script = str(ROOT / "web" / "test" / "bench.mjs")
    return subprocess.run(["node", script, f"http://127.0.0.1:{spanwise.http}", *parts], check=False).returncode == 0


def pages(program, sizes):
    with server(program) as spanwise:
        named = []
        for number, (name, spans) in enumerate(sizes.items(), 1):
            trace = f"{number:032x}"
            named.append(f"{name}={trace}")
            for body in large_trace(trace, spans):
                status, _, said = otlp.post(spanwise.otlp, body, "application/json")
                if status != 200:
                    raise SystemExit(f"a trace was refused: {status} {said[:200]}")
        spanwise.wait_quiet(120)
        if (stored := spanwise.spans()) != sum(sizes.values()):
            raise SystemExit(f"{stored} spans are stored, {sum(sizes.values())} were sent")
        return measure(spanwise, "load", "map", *named)


def search(program, generator, spans):
    if not generator.is_file():
        raise SystemExit(f"no generator at {generator}; build it with `cargo build --release -p spanwise-bench-load`")
    with server(program) as spanwise:
        # The page searches the last hour: all spans are of it, still after they have been sent.
        subprocess.run([generator, "--spans", str(spans), "--seconds", "2400", "--post",
                        f"127.0.0.1:{spanwise.otlp}"], check=True)
        deadline = time.monotonic() + 600
        while spanwise.sql("SELECT count(*) FROM spans WHERE assembled_trace_id IS NULL")[0][0] not in (0, "0"):
            if time.monotonic() > deadline:
                raise SystemExit("spans were not joined to traces for ten minutes")
            time.sleep(1)
        print(f"  {spanwise.spans()} spans are stored", flush=True)
        return measure(spanwise, "search")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to measure")
    parser.add_argument("--load", type=Path, default=ROOT / "target" / "release" / "spanwise-bench-load",
                        help="the generator of spans to search in")
    parser.add_argument("--quick", action="store_true",
                        help="no trace of a million spans, and a search in 500,000 spans")
    options = parser.parse_args()
    sizes = {"100k": 100_000} if options.quick else {"100k": 100_000, "1m": 1_000_000}
    done = pages(options.spanwise, sizes)
    done &= search(options.spanwise, options.load, 500_000 if options.quick else 10_000_000)
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
