"""Runs a cell: a program with a number of concurrent requests and a set of variants."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from programs import free_port  # noqa: E402
import runtimes
from runtimes import BACKGROUND_AT, CONCURRENCIES, GO, ROOT, TIMED_AT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import hidden  # noqa: E402
import kept  # noqa: E402
import score  # noqa: E402
from spanwise import Spanwise, free_ports  # noqa: E402

# Before measuring, the agent must know the program and the behaviour of its threads.
WARM_UP_REQUESTS, WARM_UP_SECONDS = 40, 5
# Time for attaching probes after a TLS program was first seen.
PROBES_SECONDS = 1.5
START_SECONDS = 30
# Maximum share of failed requests.
MOST_FAILED_SHARE = 0.01
# Time for assembly to report the last spans (`WindowConfig::longest_wait_nano`).
ASSEMBLY_SECONDS = 3
MARKER_SECONDS = 60
# Maximum rows of a saved trace. Wrong links may have made it large.
MOST_KEPT_ROWS = 2000
LOSSES = ("events_lost_in_kernel", "gap", "malformed", "heads_cut", "evicted", "orphan", "over_limit")


class Broken(Exception):
    """A program failed."""


@dataclass
class Cell:
    """What was run, and later its score."""

    runtime: object
    concurrency: int
    flags: tuple
    # Whether only links by time are evaluated.
    hidden: bool = False
    port: int = 0
    leaf_port: int = 0
    directory: Path = None
    certificate: Path = None
    key: Path = None
    begin_nano: int = 0
    end_nano: int = 0
    load: dict = field(default_factory=dict)
    lost: dict = field(default_factory=dict)
    score: object = None
    # Why there is no score.
    reason: str | None = None

    @property
    def variant(self):
        return "-".join(self.flags)

    @property
    def name(self):
        more = f".{self.variant}" if self.flags else ".timing_only" if self.hidden else ""
        return f"{self.runtime.name}.c{self.concurrency}{more}"

    def environment(self):
        """The program's parameters."""
        style = next((flag for flag in self.flags if flag in self.runtime.styles), self.runtime.style)
        told = {"PORT": self.port, "LEAF_PORT": self.leaf_port, "TRUTH": self.directory / "truth", "STYLE": style,
                "FAN_OUT": "parallel" if "parallel" in self.flags else "sequential",
                "CONNECTIONS": "fresh" if "fresh" in self.flags else "pooled", "HTTP": "2" if "h2" in self.flags else "1"}
        if "background" in self.flags:
            told["BACKGROUND"] = 1
        if "tls" in self.flags:
            told |= {"CERTIFICATE": self.certificate, "KEY": self.key}
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return clean | {name: str(value) for name, value in told.items()}

    def protocol(self):
        if self.runtime.protocol != "http1":
            return self.runtime.protocol
        return "http2" if "h2" in self.flags and self.runtime.serves_http2 else "http1"


class Leaf:
    """The backends that programs call. Every response takes a random 1 to 10 ms, except Redis's."""

    def __init__(self, programs, certificate, key):
        self.ports = dict(zip((("http", False), ("grpc", False), ("http", True), ("grpc", True)), free_ports(4)))
        plain, plain_grpc, secure, secure_grpc = self.ports.values()
        self.process = programs.start("leaf", GO, "leaf", plain, plain_grpc, certificate, key, secure, secure_grpc)
        if shutil.which("redis-server"):
            redis, = free_ports(1)
            self.ports["redis", False] = redis
            programs.start("redis", "redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")

    def port(self, runtime, flags):
        return self.ports[runtime.leaf, "tls" in flags]


class Bench:
    """The programs of a run, with one agent and server."""

    def __init__(self, options, programs, directory):
        self.options, self.programs, self.directory = options, programs, directory
        programs.run("openssl", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout",
                     directory / "key.pem", "-out", directory / "certificate.pem", "-subj", "/CN=localhost",
                     "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        config = directory / "spanwise.toml"
        # The host's other traffic is traced, too, and must not displace what is measured.
        config.write_text('[agent]\nring_bytes = "64MiB"\n')
        self.recording = None
        if options.record:
            self.recording = directory / "events.jsonl"
            with open(config, "a") as more:
                more.write(f'record = "{self.recording}"\n')
                # Without whole frames, what follows on a connection with HTTP/2 has no names; and several
                # calls of Redis come in one write.
                chosen = runtimes.chosen([name for name in options.only.split(",") if name])
                if all(runtime.protocol == "http1" and runtime.leaf == "http" for runtime in chosen):
                    more.write(f"payload_bytes = {kept.PAYLOAD_BYTES}\n")
        self.spanwise = Spanwise(options.spanwise, directory / "data", directory / "spanwise.log", config=config)
        self.hidden = hidden.Hidden(options, directory)
        self.count = 0

    def start(self):
        self.hidden.start()
        self.spanwise.start()
        agent = self.spanwise.get("status")["agent"]
        if agent["state"] != "running":
            raise SystemExit(f"accuracy: the agent does not run: {agent['state']}, {agent.get('reason')}")
        self.hook = agent["hook"]
        self.leaf = Leaf(self.programs, self.directory / "certificate.pem", self.directory / "key.pem")

    def counters(self):
        return self.spanwise.get("status")["agent"]["counters"]

    def load(self, cell, concurrency, seconds, most, tokens):
        command = [GO, "load", "-protocol", cell.protocol(), "-port", cell.port, "-concurrency", concurrency,
                   "-seconds", seconds, "-most", most, "-tokens", tokens, *(["-tls"] if "tls" in cell.flags else [])]
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds + 90)
        except subprocess.TimeoutExpired as late:
            raise Broken("the load did not end") from late
        if done.returncode:
            raise Broken(f"the load failed: {done.stderr[-500:]}")
        return json.loads(done.stdout)

    def run(self, cell):
        """Runs the program under load. Its spans are evaluated later."""
        self.count += 1
        cell.directory = self.directory / f"cell-{self.count}"
        cell.directory.mkdir()
        cell.port, cell.leaf_port = free_port(), self.leaf.port(cell.runtime, cell.flags)
        cell.certificate, cell.key = self.directory / "certificate.pem", self.directory / "key.pem"
        before = self.counters()
        log = f"cell-{self.count}"
        process = self.programs.start(log, *cell.runtime.command(cell), env=cell.environment())
        try:
            self.wait(cell, process, log)
            if "tls" in cell.flags:
                self.load(cell, 1, 1, 3, cell.directory / "first")
                time.sleep(PROBES_SECONDS)
            self.load(cell, 1, WARM_UP_SECONDS, WARM_UP_REQUESTS, cell.directory / "warm-up")
            cell.begin_nano = time.time_ns()
            cell.load = self.load(cell, cell.concurrency, self.options.seconds, self.options.most, cell.directory / "tokens")
            cell.end_nano = time.time_ns()
            if cell.load["failed"] > MOST_FAILED_SHARE * cell.load["answered"]:
                raise Broken(f"{cell.load['failed']} requests failed, the first with: {cell.load['error']}; the program "
                             f"said: {self.programs.log(log).read_text(errors='replace')[-300:]}")
        except Broken as broken:
            cell.reason = str(broken)
        finally:
            self.programs.stop(process)
        cell.lost = {name: now - before.get(name, 0) for name, now in self.counters().items()
                     if any(word in name for word in LOSSES) and now != before.get(name, 0)}

    def wait(self, cell, process, log):
        """Waits until the program listens, without connecting: an idle connection would be a span
        without a request.
        """
        end = time.monotonic() + START_SECONDS
        inode = f" 0100007F:{cell.port:04X} 00000000:0000 0A"
        while time.monotonic() < end:
            if process.poll() is not None:
                raise Broken(f"the program ended: {self.programs.log(log).read_text(errors='replace')[-500:]}")
            # Java and others bind to the IPv4-mapped IPv6 address.
            v6 = Path("/proc/net/tcp6")
            if inode in Path("/proc/net/tcp").read_text() or (
                    v6.exists() and f":{cell.port:04X} 00000000000000000000000000000000:0000 0A" in v6.read_text()):
                return
            time.sleep(0.05)
        raise Broken(f"nothing listens after {START_SECONDS} s")

    def settle(self):
        """Waits until everything so far is stored and assembled."""
        since, end = time.time_ns(), time.monotonic() + MARKER_SECONDS
        marker = self.leaf.ports["http", False]
        urllib.request.urlopen(f"http://127.0.0.1:{marker}/marker/{since}", timeout=10).close()
        query = (f"SELECT count(*) FROM spans WHERE server_port = {marker} AND start_unix_nano >= {since} "
                 f"AND attribute(attributes, 'url.path') = '/marker/{since}'")
        while not int(self.spanwise.sql(query)[0][0]):
            if time.monotonic() > end:
                raise SystemExit(f"accuracy: the agent is more than {MARKER_SECONDS} s behind")
            time.sleep(0.1)
        time.sleep(ASSEMBLY_SECONDS)
        waiting = f"SELECT count(*) FROM spans WHERE assembled_trace_id IS NULL AND start_unix_nano < {since}"
        while (count := int(self.spanwise.sql(waiting)[0][0])):
            if time.monotonic() > end:
                print(f"{count} spans were not assembled in {MARKER_SECONDS} s", flush=True)
                break
            time.sleep(0.5)

    # ---- evaluation --------------------------------------------------------

    def judge(self, cell):
        """Compares the assembled links with the program's notes."""
        if cell.reason:
            return
        truth, roots = self.truth(cell)
        if not truth:
            cell.reason = "the program made no calls"
            return
        if cell.hidden:
            rows = self.rows(cell)
            if not rows:
                cell.reason = "there are no spans of it"
                return
            self.hidden.judge(cell, truth, rows)
            return
        spans = self.spans(cell)
        # Requests of the warm-up do not count, and neither do these calls.
        roots -= {span.token for span in spans if span.start_nano < cell.begin_nano}
        cell.score = score.score(truth, spans, roots)
        if self.options.keep:
            for number, wrong in enumerate(cell.score.wrong):
                self.keep(cell, number, wrong)

    def truth(self, cell):
        """The request of each call, by token, and the background calls."""
        answered = (cell.directory / "tokens").read_text().split()
        if cell.runtime.proxy:
            # A proxy forwards the path, so the call has the request's token.
            return {token: token for token in answered}, set()
        answered, found, roots = set(answered), {}, set()
        for request, calls in score.read_notes((cell.directory / "truth").read_text()):
            if request in answered:
                found |= dict.fromkeys(calls, request)
            elif request == score.NOBODY:
                roots.update(calls)
        return found, roots

    def spans(self, cell):
        """Spans at the program's port, its calls to the leaf, and their other parents."""
        # Requests of the warm-up may have been chosen as parents.
        begin = cell.begin_nano - 10 * 10**9
        found = score.read(score.ask(self.spanwise.http, f"""SELECT {score.COLUMNS} FROM spans
            WHERE start_unix_nano >= {begin} AND start_unix_nano <= {cell.end_nano + 10**9}
            AND ((server_port = {cell.port} AND capture = '{score.SERVER}')
                OR (server_port = {cell.leaf_port} AND capture = '{score.CLIENT}'))"""), cell.port)
        known = {span.id for span in found}
        # A proxy calls the leaf, while other programs call others; never one calls itself.
        elsewhere = sorted({span.parent for span in found if span.side == score.CLIENT and span.parent} - known)
        for first in range(0, len(elsewhere), 500):
            some = ", ".join(f"'{each}'" for each in elsewhere[first:first + 500])
            found += score.read(score.ask(self.spanwise.http, f"""SELECT {score.COLUMNS} FROM spans
                WHERE start_unix_nano >= {begin} AND encode(span_id, 'hex') IN ({some})"""), cell.port)
        return found

    @staticmethod
    def when(cell):
        """From before its warm-up to its end."""
        begin = cell.begin_nano - (WARM_UP_SECONDS + 5) * 10**9
        return f"start_unix_nano >= {begin} AND start_unix_nano <= {cell.end_nano + 10**9}"

    @staticmethod
    def served(cell):
        return f"server_port = {cell.port} AND capture = '{score.SERVER}'"

    def processes(self, cell):
        """The processes that served its requests."""
        found = self.spanwise.sql(f"SELECT DISTINCT process_id FROM spans WHERE {self.when(cell)} AND {self.served(cell)}")
        return {process for process, in found}

    def record(self, cells):
        """Saves the kernel events of each cell's program, for tests of attribution. The agent has
        ended, so its recording is complete.
        """
        events = list(kept.read(self.recording))
        for cell, processes in cells:
            count = kept.write(cell, processes, events, *kept.truth_of(cell), self.options.record)
            print(f"{cell.name}: {count} events kept", flush=True)

    def rows(self, cell):
        """What links by time may use of a cell, including its warm-up."""
        when, served = self.when(cell), self.served(cell)
        # Other cells have called the same backend shortly before.
        processes = self.processes(cell)
        if not processes:
            return []
        own = ", ".join(map(str, processes))
        return self.spanwise.sql(f"""SELECT {hidden.COLUMNS} FROM spans WHERE {when} AND process_id IN ({own})
            AND (({served}) OR (server_port = {cell.leaf_port} AND capture = '{score.CLIENT}'))""")

    def keep(self, cell, number, wrong):
        """Saves the rows of a wrong trace, for a test."""
        self.options.keep.mkdir(parents=True, exist_ok=True)
        rows = self.json(f"""SELECT * FROM spans WHERE assembled_trace_id = (SELECT assembled_trace_id FROM spans
            WHERE encode(span_id, 'hex') = '{wrong['call_span']}' LIMIT 1)
            ORDER BY start_unix_nano LIMIT {MOST_KEPT_ROWS}""")
        path = self.options.keep / f"{cell.name}-{number}.json"
        path.write_text(json.dumps({"cell": cell.name, "wrong": wrong, "columns": rows["columns"], "rows": rows["rows"]},
                                   indent=1) + "\n")

    def json(self, query):
        query = urllib.parse.urlencode({"query": query})
        request = urllib.request.Request(f"http://127.0.0.1:{self.spanwise.http}/api/v1/sql?{query}",
                                         headers={"Spanwise-Request": "bench"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def stop(self):
        for server in (self.spanwise, self.hidden.spanwise):
            if server.process:
                server.stop()


def plan(runtime, options):
    """The cells of a runtime."""
    cells = []
    for flags in runtime.variants(options.all):
        at = BACKGROUND_AT if flags == ("background",) else options.variants_at
        for concurrency in options.concurrency or CONCURRENCIES:
            if not flags or options.all or concurrency in at:
                cells.append(Cell(runtime, concurrency, flags))
    if runtime.leaf == "redis":
        # Its calls are of one kind and take no time: there is nothing to tell them by.
        return cells
    return cells + [Cell(runtime, concurrency, (), hidden=True) for concurrency in TIMED_AT]


