#!/usr/bin/env python3
"""Bad input to the real program: each case must end with a clear message, and nothing else may be
affected. After each, spanwise answers and traces as before.
"""

import argparse
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import otlp
from badstore import store_cases
from checks import Checks
from shop import Shop, request
from spanwise import Spanwise, binary
from visible import spans_of_call, status_of, visible_after

SHOP_PORTS = {"nginx": 8080, "storefront": 8101, "catalog": 8102, "cart": 8103, "orders": 8104,
              "payments": 8105, "redis": 8109, "postgres": 8110}
MEBIBYTE = 2**20
GROWTH_LIMIT = 256 * MEBIBYTE


class Bench:
    """State shared by the cases."""

    def __init__(self, checks, spanwise, shop):
        self.checks, self.spanwise, self.shop = checks, spanwise, shop
        self.random = random.Random(5)

    def run(self, name, case):
        """Runs the case, and then checks that everything works as before."""
        print(f"\n## {name}\n", flush=True)
        before = self.spanwise.rss_bytes()
        self.checks.case(name, lambda: case(self))
        self.checks.case(f"after {name}", lambda: self.as_before(name, before))

    def as_before(self, name, rss_before):
        if not self.checks.check(f"it lives after {name}", self.spanwise.alive()):
            print(self.spanwise.tail())
            self.spanwise.start()
            return
        status, seconds = status_of(self.spanwise)
        self.checks.check(f"it answers after {name}", seconds < 2 and status["agent"]["state"] == "running",
                          f"in {seconds:.2f} s, agent {status['agent']['state']}")
        start = time.time_ns()
        answer, call, ended = request("GET", f"/product/{self.random.randint(1, 200)}")
        seconds = visible_after(self.spanwise, self.shop, call, start, ended)
        self.checks.check(f"it traces after {name}", answer == 200 and seconds < 10, f"whole tree in {seconds:.2f} s")
        growth = self.spanwise.rss_bytes() - rss_before
        self.checks.check(f"memory after {name}", growth < GROWTH_LIMIT, f"{growth / MEBIBYTE:+.0f} MiB")


def swallow(connection, seconds=0.5):
    """Reads what arrives for a while."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except OSError:
        pass


def random_bytes(bench):
    """Random bytes, and requests cut off at random, to every service of the shop."""
    starts = [b"", b"GET / HTTP/1.1\r\n", b"POST /cart HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
              b"GET /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"*3\r\n$-7\r\n",
              b"*1000000000\r\n$3\r\nGET\r\n", b"$99999999999\r\n", b"Q\x00\x00\x00\x04", b"Q\xff\xff\xff\xff",
              struct_startup(), b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    sent = 0
    for port in SHOP_PORTS.values():
        for start in starts:
            with socket.socket() as connection:
                connection.settimeout(5)
                try:
                    connection.connect(("127.0.0.1", port))
                    connection.sendall(start + bench.random.randbytes(bench.random.choice([0, 1, 7, 1024, 40_000])))
                    sent += 1
                except OSError:
                    pass  # the service closed the connection, which is fine
                swallow(connection, 0.05)
    bench.checks.check("noise was sent", sent >= 0.8 * len(SHOP_PORTS) * len(starts), f"{sent} times")


def struct_startup():
    """A PostgreSQL startup message that ends in the middle of a name."""
    return (90).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"user\x00sh"


def noise_both_ways(bench):
    """A server that sends random bytes to a client that does the same."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            for _ in range(300):
                connection.recv(65536)
                connection.sendall(bench.random.randbytes(2000))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with socket.create_connection(listener.getsockname()) as connection:
        for number in range(300):
            head = b"HTTP/1.1 200 OK\r\n" if number % 3 == 0 else b"GET / HTTP/1.1\r\n" if number % 3 == 1 else b""
            connection.sendall(head + bench.random.randbytes(500))
            connection.recv(65536)
    thread.join(5)
    listener.close()
    bench.checks.check("noise went both ways", not thread.is_alive())


def long_header(bench):
    """10 MB in one header line: to nginx and Python, which refuse it, and to a server that accepts
    it; the next request on that connection is traced.
    """
    line = b"X-Long: " + b"a" * 10_000_000 + b"\r\n"
    for name in ("nginx", "catalog"):
        with socket.create_connection(("127.0.0.1", SHOP_PORTS[name])) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n")
            except OSError:
                pass
            swallow(connection)

    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            for _ in range(2):
                got = b""
                while b"\r\n\r\n" not in got[-4:]:
                    part = connection.recv(1 << 20)
                    if not part:
                        return
                    got = got[-4:] + part
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    threading.Thread(target=serve, daemon=True).start()
    start, call = time.time_ns(), secrets.token_hex(8)
    with socket.create_connection(listener.getsockname()) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n")
        first = connection.recv(100)
        connection.sendall(f"GET /next?call={call} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        second = connection.recv(100)
    listener.close()
    bench.checks.check("the server took 10 MB of header", first.startswith(b"HTTP/1.1 200") and second.startswith(b"HTTP/1.1 200"))
    found = spans_of_call(bench.spanwise, call, start, "client-process")
    bench.checks.check("the request after it on the same connection is traced", len(found) == 1, f"{len(found)} spans")


def silent_clients(bench):
    """300 clients that connect and send nothing; others are traced meanwhile."""
    silent = []
    for number in range(300):
        silent.append(socket.create_connection(("127.0.0.1", list(SHOP_PORTS.values())[number % 3])))
    start = time.time_ns()
    _, call, ended = request("GET", "/product/5")
    seconds = visible_after(bench.spanwise, bench.shop, call, start, ended)
    bench.checks.check("a request among silent clients is a whole tree", seconds < 10, f"{seconds:.2f} s")
    for connection in silent:
        connection.close()


DYING_SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
connection.recv(65536)
if sys.argv[1] == "half":
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 100000\\r\\n\\r\\n" + b"x" * 5000)
print("killme", flush=True)
connection.recv(1)
"""


def killed_server(bench):
    """A server killed before its response, and during it."""
    for when in ("none", "half"):
        server = subprocess.Popen([sys.executable, "-c", DYING_SERVER, when], stdout=subprocess.PIPE, text=True)
        port = int(server.stdout.readline())
        start, call = time.time_ns(), secrets.token_hex(8)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"GET /dying?call={call} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            server.stdout.readline()
            time.sleep(0.1)
            server.send_signal(signal.SIGKILL)
            server.wait()
            swallow(connection)
        server.stdout.close()
        found = spans_of_call(bench.spanwise, call, start, "client-process")
        said = "half a response" if when == "half" else "no response"
        bench.checks.check(f"{said} is an error on the client's span", len(found) == 1 and found[0]["status"] == "error",
                           ", ".join(f"{span['status']} {span.get('error')}" for span in found) or "no span")


def port_in_use(bench):
    """Each of its ports held by another process: it says which port, by which process, and what to
    do.
    """
    for flag in ("http", "otlp-grpc", "otlp-http", "zipkin", "jaeger-grpc", "jaeger-http"):
        with socket.create_server(("127.0.0.1", 0)) as holder, tempfile.TemporaryDirectory() as data:
            port = holder.getsockname()[1]
            other = Spanwise(bench.spanwise.program, data, Path(data) / "log", "server")
            command = other.arguments()
            command = [f"--{flag}=127.0.0.1:{port}" if part.startswith(f"--{flag}=") else part for part in command]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            said = done.stderr + done.stdout
            bench.checks.check(f"--{flag} in use: exit code and message",
                               done.returncode == 1 and str(port) in said and "in use" in said and str(os.getpid()) in said
                               and f"--{flag}" in said, f"{done.returncode}, {said.strip()[-200:]}")


def wrong_settings(bench):
    """Invalid settings: it says which, and what would be right."""
    with tempfile.TemporaryDirectory() as directory:
        garbage = Path(directory) / "garbage.wasm"
        garbage.write_bytes(bench.random.randbytes(1000))
        cases = [
            (["--only", "nginx"], "service=NAME"),
            (["--except", "port=70000"], "1 to 65535"),
            (["--sample", "2"], "10%"),
            (["--cpu-budget", "0"], "at least 0.01"),
            (["--memory-budget", "1MiB"], "at least 64MiB"),
            (["--plugin", f"{directory}/missing.wasm"], "missing.wasm"),
            (["--plugin", str(garbage)], "garbage.wasm"),
        ]
        for flags, word in cases:
            done = subprocess.run([str(bench.spanwise.program), "agent", *flags], capture_output=True, text=True, timeout=30)
            bench.checks.check(f"{flags[0]} {Path(flags[1]).name}: exit code and message",
                               done.returncode == 2 and word in done.stderr, f"{done.returncode}, {done.stderr.strip()[-200:]}")


def settings_under_way(bench):
    """SIGHUP applies the file's settings, unless they are invalid."""
    with tempfile.TemporaryDirectory() as directory:
        config, log = Path(directory) / "spanwise.toml", Path(directory) / "log"
        config.write_text("[agent]\n")
        other = Spanwise(bench.spanwise.program, Path(directory) / "data", log, config=config)
        other.start()
        try:
            for text, wanted in [('except = "service=a,port=9"', "everything except service=a,port=9"),
                                 ('only = "wrong"', "everything except service=a,port=9"),
                                 ('hook = "sys-exit-raw"', "everything")]:
                config.write_text(f"[agent]\n{text}\n")
                heard = log.read_text().count("SIGHUP")
                other.process.send_signal(signal.SIGHUP)
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline and (log.read_text().count("SIGHUP") == heard
                                                       or other.get("status")["agent"]["filter"] != wanted):
                    time.sleep(0.1)
                found = other.get("status")["agent"]["filter"]
                bench.checks.check(f"SIGHUP with {text}", found == wanted and log.read_text().count("SIGHUP") > heard, found)
            said = log.read_text()
            bench.checks.check("what is wrong with the file is said", "`wrong` is no selector" in said, other.tail(3))
            bench.checks.check("what waits for a start is said", "next start: agent.hook" in said, other.tail(3))
        finally:
            other.stop()


def otlp_garbage(bench):
    """OTLP with wrong lengths, of the wrong kind, too large, and incomplete."""
    port, good = bench.spanwise.otlp, otlp.spans(50)
    cut = good[: len(good) // 2]
    cases = [
        ("cut protobuf", cut, "application/x-protobuf", {}, {400}),
        ("random bytes", bench.random.randbytes(5000), "application/x-protobuf", {}, {400}),
        ("a length beyond the end", b"\x0a\xff\xff\xff\xff\x0f" + good, "application/x-protobuf", {}, {400}),
        ("cut JSON", b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"', "application/json", {}, {400}),
        ("no gzip, said to be", good, "application/x-protobuf", {"Content-Encoding": "gzip"}, {400}),
        ("text", b"hello", "text/plain", {}, {415}),
        ("100 MB", b"\0" * 100_000_000, "application/x-protobuf", {}, {413, 0}),
    ]
    for name, body, content_type, headers, wanted in cases:
        status, _, answer = otlp.post(port, body, content_type, headers)
        bench.checks.check(f"OTLP of {name} is refused", status in wanted, f"{status} {answer[:120]!r}")
    import gzip
    status, _, answer = otlp.post(port, gzip.compress(b"\0" * 200_000_000, 6), headers={"Content-Encoding": "gzip"})
    bench.checks.check("OTLP of 200 MB in a small gzip is refused", status == 413, f"{status} {answer[:120]!r}")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                           + f"Content-Length: {len(good)}\r\n\r\n".encode() + cut)
    with socket.create_connection(("127.0.0.1", bench.spanwise.grpc)) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bench.random.randbytes(5000))
        swallow(connection)
    status, _, answer = otlp.post(port, good)
    bench.checks.check("good OTLP after all that is taken", status == 200, f"{status} {answer[:120]!r}")


CASES = [random_bytes, noise_both_ways, long_header, silent_clients, killed_server, port_in_use, wrong_settings,
         settings_under_way, otlp_garbage]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spanwise", help="the program to test (default: target/release/spanwise, else the debug build)")
    parser.add_argument("--only", help="run the cases whose name contains this")
    options = parser.parse_args()
    program = binary(options.spanwise)

    checks = Checks()
    work = Path(tempfile.mkdtemp(prefix="spanwise-badinput-"))
    spanwise = Spanwise(program, work / "data", work / "spanwise.log")

    def wanted(case):
        return not options.only or options.only in case.__name__

    try:
        if any(map(wanted, CASES)):
            spanwise.start()
            with Shop(work / "truth", spanwise.otlp, work / "shop.log") as shop:
                bench = Bench(checks, spanwise, shop)
                for case in filter(wanted, CASES):
                    bench.run(case.__name__.replace("_", " "), case)
            code, seconds = spanwise.stop()
            checks.check("it ends in good order", code == 0, f"exit code {code} after {seconds:.1f} s")
        for case in filter(wanted, store_cases):
            name = case.__name__.replace("_", " ")
            print(f"\n## {name}\n", flush=True)
            directory = work / case.__name__
            directory.mkdir()
            checks.case(name, lambda case=case, directory=directory: case(checks, program, directory))
    finally:
        spanwise.kill()
        if checks.failed:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(checks.close())


if __name__ == "__main__":
    main()
