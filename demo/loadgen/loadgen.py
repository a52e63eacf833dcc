#!/usr/bin/env python3
"""Customers of the shop: at a steady rate, or as fast as C of them can.

  loadgen.py --rate 12                       until stopped
  loadgen.py --concurrency 8 --requests 2000 in 8 threads, each one request after the other
"""

import argparse
import http.client
import json
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "services"))
os.environ.setdefault("SHOP_SERVICE", "loadgen")

from plan import visits  # noqa: E402
from shopkit import calls  # noqa: E402


class Load:
    """State shared by the customers: the next request, its time, and the results."""

    def __init__(self, options):
        self.lock = threading.Lock()
        self.plan = visits(options.seed, secrets.token_hex(3))
        self.left = options.requests
        self.rate = options.rate
        self.next_start = time.monotonic()
        self.end = time.monotonic() + options.seconds if options.seconds else None
        self.stopped = threading.Event()
        self.seconds, self.statuses = [], {}

    def visit(self):
        with self.lock:
            return next(self.plan)

    def may_start(self):
        """Waits until the next request is due. Returns False when the run is over."""
        with self.lock:
            if self.left is not None:
                if self.left == 0:
                    return False
                self.left -= 1
            turn = self.next_start
            if self.rate:
                self.next_start = max(turn, time.monotonic() - 1) + 1 / self.rate
        if self.rate and turn > time.monotonic():
            self.stopped.wait(turn - time.monotonic())
        return not self.stopped.is_set() and (self.end is None or time.monotonic() < self.end)

    def note(self, status, seconds):
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            self.seconds.append(seconds)
            if len(self.seconds) > 200_000:
                del self.seconds[:100_000]


def customer(load, host):
    connection = http.client.HTTPConnection(host, timeout=30)
    while True:
        for step in load.visit():
            if not load.may_start():
                connection.close()
                return
            start = time.monotonic()
            load.note(send(connection, step), time.monotonic() - start)


def send(connection, step):
    """The response's status, or the name of the error."""
    data = json.dumps(step.body) if step.body else None
    with calls.made("http", f"{step.method} {step.path}") as call:
        try:
            # First in the query string, where nginx removes it.
            path, _, query = step.path.partition("?")
            path = calls.in_url(path, call)
            path += f"{'&' if '?' in path else '?'}{query}" if query else ""
            connection.request(step.method, path, data, {"Content-Type": "application/json"} if data else {})
            response = connection.getresponse()
            response.read()
            return response.status
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            time.sleep(0.2)
            return type(error).__name__


def summary(load, took):
    times = sorted(load.seconds)
    if not times:
        return "no requests"
    counts = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items(), key=str))
    at = [times[min(len(times) - 1, int(len(times) * share))] * 1000 for share in (0.5, 0.95, 0.99)]
    return (f"{len(times)} requests in {took:.1f} s, {len(times) / took:.1f}/s: {counts}\n"
            f"p50 {at[0]:.1f} ms, p95 {at[1]:.1f} ms, p99 {at[2]:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--rate", type=float, help="requests a second; without it as fast as it goes")
    parser.add_argument("--concurrency", type=int, default=8, help="customers at a time (default %(default)s)")
    parser.add_argument("--requests", type=int, help="stop after so many")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not (options.rate or options.requests or options.seconds):
        parser.error("give --rate, --requests or --seconds")

    load = Load(options)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: load.stopped.set())
    start = time.monotonic()
    threads = [threading.Thread(target=customer, args=(load, urlsplit(options.url).netloc), daemon=True)
               for _ in range(options.concurrency)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not load.stopped.is_set():
        time.sleep(0.05)
    for thread in threads:
        thread.join(timeout=3)
    print(summary(load, time.monotonic() - start), flush=True)


if __name__ == "__main__":
    main()
