"""Runs the real program and queries its API."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent.parent
JAEGER_FLAGS = ("jaeger-grpc", "jaeger-http", "jaeger-udp-compact", "jaeger-udp-binary")
SHOP_CONFIG = ROOT / "demo" / "spanwise.toml"


def binary(given=None):
    """The program to test: the one named, else the release build, else the debug build."""
    candidates = [Path(given)] if given else [ROOT / "target" / kind / "spanwise" for kind in ("release", "debug")]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    raise SystemExit(f"no program at {' nor '.join(map(str, candidates))}; build it with `cargo build --release` "
                     "or name it with --spanwise")


def free_ports(count):
    """Free ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Spanwise:
    """`spanwise up` (or `server`) on free ports."""

    def __init__(self, program, data, log, command="up", config=SHOP_CONFIG, more=()):
        self.program, self.data, self.log_path = program, Path(data), Path(log)
        self.command, self.config, self.more = command, config, more
        self.http, self.grpc, self.otlp, self.zipkin, *self.jaeger = free_ports(8)
        self.process = None

    def arguments(self):
        where = [f"--{flag}=127.0.0.1:{port}" for flag, port in
                 (("http", self.http), ("otlp-grpc", self.grpc), ("otlp-http", self.otlp), ("zipkin", self.zipkin),
                  *zip(JAEGER_FLAGS, self.jaeger))]
        return [str(self.program), self.command, f"--data={self.data}", f"--config={self.config}", *where, *self.more]

    def start(self, seconds=30):
        """Starts it and waits until it answers. Returns the seconds that it took."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPANWISE_")}
        start = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.arguments(), env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=tempfile.gettempdir())
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"spanwise ended with exit code {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(OSError, Refused):
                status = self.get("status")
                if self.command != "up" or status["agent"]["state"] != "starting":
                    return time.monotonic() - start
            if time.monotonic() - start > seconds:
                self.kill()
                raise SystemExit(f"spanwise does not answer after {seconds} s:\n{self.tail()}")
            time.sleep(0.05)

    def stop(self, seconds=15):
        """Stops it cleanly: (exit code, seconds). After the timeout it is killed, and the exit
        code is None.
        """
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds), time.monotonic() - start
        except subprocess.TimeoutExpired:
            self.kill()
            return None, time.monotonic() - start

    def kill(self):
        """kill -9."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def alive(self):
        return self.process.poll() is None

    def rss_bytes(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def tail(self, lines=20):
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def get(self, path, **query):
        """The JSON of GET /api/v1/PATH."""
        return Api(self.http).get(path, **query)

    def sql(self, query):
        return self.get("sql", query=query)["rows"]

    def spans(self):
        """Number of stored spans."""
        return int(self.sql("SELECT count(*) FROM spans")[0][0])

    def wait_quiet(self, seconds=30, still=2.5):
        """Waits until no more spans arrive. Returns their number."""
        deadline = time.monotonic() + seconds
        count, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            now = self.spans()
            if now != count:
                count, since = now, time.monotonic()
            elif time.monotonic() - since > still:
                break
            time.sleep(0.25)
        return count


class Refused(Exception):
    """The API answered with an error."""


class Api:
    """One connection to the API."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path, **query):
        target = f"/api/v1/{path}"
        if query:
            target += "?" + urlencode(query, doseq=True)
        self.connection.request("GET", target, headers={"Spanwise-Request": "test"})
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise Refused(f"GET {target}: {response.status} {body[:300].decode(errors='replace')}")
        return json.loads(body)


def trace_ids(spanwise, start_unix_nano):
    """Ids of all traces that began after a time, by paging through the search."""
    api, found, end = Api(spanwise.http), {}, time.time_ns() + 10**9
    while end is not None:
        answer = api.get("search", start=start_unix_nano, end=end, limit=500)
        found.update((each["trace_id"], each) for each in answer["traces"])
        end = answer["older_end_unix_nano"]
    return list(found)


def traces(spanwise, start_unix_nano):
    """All complete traces that began after a time."""
    api = Api(spanwise.http)
    return [api.get(f"traces/{each}") for each in trace_ids(spanwise, start_unix_nano)]
