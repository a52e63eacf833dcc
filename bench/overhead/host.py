"""The host that a suite runs on, the server that takes its spans, and where results go."""

import contextlib
import datetime
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "bench")]
from spanwise import Spanwise  # noqa: E402

RESULTS = ROOT / "bench" / "results"
# Spans are counted, not kept for long: a suite makes millions.
KEEP = "2GB"
# Zipkin's reporters send once a second.
QUIET_SECONDS, SETTLE_AT_MOST_SECONDS = 1.5, 10


class Server(Spanwise):
    """The real server: takes every tracer's spans, and counts them."""

    def __init__(self, options, directory, command="server", more=()):
        super().__init__(options.spanwise, directory / "data", directory / "spanwise.log", command=command,
                         more=("--retain-bytes", KEEP, *more))
        if options.ports:
            self.http, self.grpc, self.otlp, self.zipkin, *self.jaeger = range(options.ports, options.ports + 8)

    def counters(self):
        return self.get("status")["ingest"]["counters"]

    def accepted(self):
        """Spans taken in so far, by whichever way."""
        return sum(value for name, value in self.counters().items() if name.endswith("_spans_accepted"))

    def messages(self):
        """Requests and batches so far, by whichever way."""
        return sum(value for name, value in self.counters().items()
                   if name.endswith(("_http_requests", "_grpc_requests", "zipkin_requests", "_batches_accepted", "jvm_requests"))
                   and not name.startswith("requests_"))

    def settle(self):
        """Waits until what exporters still hold has come in. The count of spans is the answer."""
        end = time.monotonic() + SETTLE_AT_MOST_SECONDS
        count, since = self.accepted(), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS and time.monotonic() < end:
            time.sleep(0.1)
            if (now := self.accepted()) != count:
                count, since = now, time.monotonic()
        return count

    def cpu_seconds(self):
        return self.get("status")["process"]["cpu_seconds"]


def load():
    """The host's load average of a minute: how busy it is with other things, too."""
    return os.getloadavg()[0]


def facts():
    """Lines that say where and when figures were measured."""
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    java = subprocess.run(["java", "-version"], stderr=subprocess.PIPE, text=True).stderr.splitlines()[0]
    return (f"# {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, commit {commit}, {os.cpu_count()} processors "
            f"({model}), Linux {os.uname().release}, {java}, load before {load():.1f}")


class Report:
    """Prints lines, and keeps them in bench/results/DATE-overhead-SUITE.txt."""

    def __init__(self, suite, directory=None):
        self.base = (directory or RESULTS) / f"{datetime.date.today()}-overhead-{suite}"
        self.pictures = directory or ROOT / "docs" / "images"
        self.lines = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def figure(self, name, value, unit):
        self.say(f"figure {name} {value:.4g} {unit}")

    def picture(self, name, drawn):
        (self.pictures / f"overhead-{name}.svg").write_text(drawn)

    def path(self, extension):
        return self.base.with_name(self.base.name + extension)

    def close(self):
        self.path(".txt").write_text("\n".join(self.lines) + "\n")


@contextlib.contextmanager
def running(server):
    server.start()
    try:
        yield server
    finally:
        server.stop()
