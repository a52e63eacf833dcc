"""The load of the soak test: for each protocol, a client that keeps a rate and reports the number
of responses. Common load generators are used where they exist.
"""

import json
import os
import re

import postgres
from servers import DNS_ADDRESS

PACKAGES = {"h2load": "nghttp2-client", "sysbench": "sysbench", "dnsperf": "dnsperf"}

# Shares of all requests.
MIX = {
    "http": 0.30, "redis": 0.20, "http2": 0.125, "grpc": 0.075, "https": 0.025, "memcached": 0.10,
    "postgresql": 0.075, "mysql": 0.05, "dns": 0.05,
}
# The agent's names of protocols.
PROTOCOLS = {"http2": "http", "https": "http"}
H2LOAD_CLIENTS = 4
# HTTP/1 connections are reopened after this many requests, so that the agent's tables change.
REOPEN_AFTER = 500


class Loads:
    """Prepares, starts and reads the clients."""

    def __init__(self, programs, requests, ports, rate, seconds):
        self.programs = programs
        self.requests = requests
        self.ports = ports
        self.seconds = seconds
        self.rates = {name: rate * share for name, share in MIX.items()}
        self.running = {}

    def prepare(self):
        """Tables and names to query."""
        self.programs.run("pgbench", postgres.tool("pgbench"), "-i", "-q", *self._postgresql(),
                          env=self._environment())
        self.programs.run("sysbench", *self._sysbench(), "prepare")
        names = "".join(f"host{number}.soak.test A\n" for number in range(1000))
        (self.programs.directory / "names.txt").write_text(names)
        (self.programs.directory / "message").write_bytes(b"\0\0\0\0\x07\x0a\x05hello")

    def start(self):
        for name in MIX:
            self.running[name] = self.programs.start(
                f"load-{name}", *getattr(self, f"_start_{name}")(), env=self._environment())

    def check(self):
        """Ends the run if a client failed."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                self.programs.check(f"the load of {name}", process)

    def wait(self, seconds):
        for process in self.running.values():
            process.wait(timeout=seconds)
        self.check()

    def answered(self):
        """Number of responses that each client reports."""
        found = {}
        for name in MIX:
            said = self.programs.log(f"load-{name}").read_text()
            answered, errors = getattr(self, f"_read_{name}", self._read_requests)(said)
            if errors:
                raise SystemExit(f"soak: {errors} requests of {name} failed:\n{said[-2000:]}")
            found[name] = answered
        return found

    def _environment(self):
        return os.environ | {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}

    # Our own generator, where others cannot keep a rate.

    def _own(self, name, connections, *more):
        return [self.requests, "--protocol", name, "--server", f"127.0.0.1:{self.ports[name]}", "--rate",
                self.rates[name], "--connections", connections, "--seconds", self.seconds, *more]

    def _start_http(self):
        return self._own("http", 8, "--reopen-after", REOPEN_AFTER)

    def _start_redis(self):
        return self._own("redis", 4)

    def _start_memcached(self):
        return self._own("memcached", 4)

    def _read_requests(self, said):
        done = json.loads(said)
        return done["answered"], done["errors"]

    # HTTP/2, gRPC and HTTPS by h2load.

    def _h2load(self, name, url, *more, at_once=4):
        count = int(self.rates[name] * self.seconds)
        return ["h2load", f"-n{count}", f"-c{H2LOAD_CLIENTS}", f"-m{at_once}", "-t1",
                f"--rps={self.rates[name] / H2LOAD_CLIENTS:.3f}", *more, url]

    def _start_http2(self):
        return self._h2load("http2", f"http://127.0.0.1:{self.ports['http2']}/item/17")

    def _start_grpc(self):
        return self._h2load(
            "grpc", f"http://127.0.0.1:{self.ports['grpc']}/soak.Items/Get", "-d", "message",
            "-H", "content-type: application/grpc", "-H", "te: trailers")

    def _start_https(self):
        # With HTTP/1 this would be pipelining, which almost no client uses.
        return self._h2load("https", f"https://127.0.0.1:{self.ports['https']}/item/17", "--h1", at_once=1)

    def _read_http2(self, said):
        total, succeeded = re.search(r"^requests: (\d+) total, .* (\d+) succeeded", said, re.M).groups()
        return int(succeeded), int(total) - int(succeeded)

    _read_grpc = _read_https = _read_http2

    # The databases' own load generators.

    def _postgresql(self):
        return ["-h", "127.0.0.1", "-p", str(self.ports["postgresql"]), "-U", "bench", "postgres"]

    def _start_postgresql(self):
        return [postgres.tool("pgbench"), "-n", "-S", "-M", "prepared", "-c4", "-j1",
                f"--rate={self.rates['postgresql']:.0f}", f"-T{self.seconds}", *self._postgresql()]

    def _read_postgresql(self, said):
        answered = re.search(r"transactions actually processed: (\d+)", said)
        failed = re.search(r"failed transactions: (\d+)", said)
        return int(answered[1]), int(failed[1])

    def _sysbench(self):
        return ["sysbench", "oltp_point_select", "--mysql-host=127.0.0.1", f"--mysql-port={self.ports['mysql']}",
                "--mysql-user=root", "--mysql-db=soak", "--tables=1", "--table-size=1000"]

    def _start_mysql(self):
        return [*self._sysbench(), f"--rate={self.rates['mysql']:.0f}", "--threads=4",
                f"--time={self.seconds}", "run"]

    def _read_mysql(self, said):
        answered = re.search(r"^\s*total:\s+(\d+)", said, re.M)
        errors = re.search(r"ignored errors:\s+(\d+)", said)
        return int(answered[1]), int(errors[1])

    def _start_dns(self):
        return ["dnsperf", "-s", DNS_ADDRESS, "-p", self.ports["dns"], "-d", "names.txt", "-l", self.seconds,
                "-Q", f"{self.rates['dns']:.0f}", "-c4", "-T1"]

    def _read_dns(self, said):
        completed = re.search(r"Queries completed:\s+(\d+)", said)
        lost = re.search(r"Queries lost:\s+(\d+)", said)
        return int(completed[1]), int(lost[1])
