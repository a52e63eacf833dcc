#!/usr/bin/env python3
"""The UI in headless Chromium, with the shop under the tracer.

Starts both, waits until requests have been traced, sends one trace of many thousand spans, and
runs web/test/browser.mjs, which searches, opens traces, reads trees from the page and saves
screenshots to tests/e2e/out/screenshots.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import otlp
from shop import Shop
from spanwise import ROOT, Spanwise, binary

REQUESTS = 200
# More than three pages of the trace view.
LARGE = 32_000
BATCH = 4_000


def large_trace(spans):
    """OTLP requests (JSON) of one trace: a job, its steps, and their queries."""
    trace, root = secrets.token_hex(16), secrets.token_hex(8)
    start = time.time_ns() - 60_000_000_000
    step = root

    def span(at, parent, name, length, kind=1, failed=False):
        return {"traceId": trace, "spanId": root if parent is None else secrets.token_hex(8),
                "parentSpanId": parent or "", "name": name, "kind": kind,
                "startTimeUnixNano": str(start + at), "endTimeUnixNano": str(start + at + length),
                "status": {"code": 2, "message": "deadlock detected"} if failed else {}}

    made = [span(0, None, "POST /reports/settlement", 50_000_000_000, kind=2)]
    for number in range(1, spans):
        at = number * 1_500_000
        if number % 50 == 1:
            made.append(span(at, root, "settle account", 70_000_000))
            step = made[-1]["spanId"]
        else:
            made.append(span(at, step, "UPDATE balance", 1_000_000, kind=3, failed=number % 400 == 7))
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "settlement"}}]}
    for first in range(0, spans, BATCH):
        scope = {"spans": made[first:first + BATCH]}
        yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to test")
    parser.add_argument("--out", default=ROOT / "tests" / "e2e" / "out" / "screenshots", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spanwise-browser-") as directory:
        spanwise = Spanwise(binary(options.spanwise), Path(directory) / "data",
                            options.out.parent / "browser-spanwise.log")
        spanwise.start()
        try:
            with Shop(Path(directory) / "truth", spanwise.otlp, None) as shop:
                print(shop.load(concurrency=1, requests=REQUESTS, seed=3))
                for body in large_trace(LARGE):
                    status, _, said = otlp.post(spanwise.otlp, body, "application/json")
                    if status != 200:
                        raise SystemExit(f"the large trace was refused: {status} {said[:200]}")
                spanwise.wait_quiet()
                receiver = f"http://127.0.0.1:{spanwise.otlp}"
                result = subprocess.run(
                    ["node", str(ROOT / "web" / "test" / "browser.mjs"),
                     f"http://127.0.0.1:{spanwise.http}", str(options.out)], check=False,
                    env={**os.environ, "OTLP": receiver})
        finally:
            spanwise.stop()
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
