#!/usr/bin/env python3
"""What the UI takes in headless Chromium: starts a server, sends it one trace of 100,000 spans and
one of a million, and runs web/test/bench.mjs, which opens pages and prints `figure` lines.
"""

import argparse
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to measure")
    parser.add_argument("--quick", action="store_true", help="no trace of a million spans")
    options = parser.parse_args()
    sizes = {"100k": 100_000} if options.quick else {"100k": 100_000, "1m": 1_000_000}
    with tempfile.TemporaryDirectory(prefix="spanwise-bench-web-") as directory:
        spanwise = Spanwise(binary(options.spanwise), Path(directory) / "data", Path(directory) / "log",
                            command="server")
        spanwise.start()
        try:
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
            result = subprocess.run(["node", str(ROOT / "web" / "test" / "bench.mjs"),
                                     f"http://127.0.0.1:{spanwise.http}", *named], check=False)
        finally:
            spanwise.stop()
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
