#!/usr/bin/env python3
"""ZeroMQ client, proxy and server in C, traced by the library: recorded to files and replayed to a
Spanwise server; then live, with what the kernel saw of the same requests in the same trees, where the
agent may watch it. `make demo-native` builds what it needs.

With --keep the server stays, for a look at its UI.
"""
import argparse
import csv
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "..", "..", "agents", "native")
REQUESTS = 300
# The spans of a request, each the parent of the next: of the programs themselves, and with those of
# the kernel's side.
OWN = ["get quote", "forward", "handle quote", "look up"]
PASSED = ["zmtp request", "zmtp request"]
WITH_KERNEL = [OWN[0], *PASSED, OWN[1], *PASSED, *OWN[2:]]
# Listeners that are not needed.
OTHERS = ("zipkin", "jaeger-grpc", "jaeger-http", "jaeger-udp-compact", "jaeger-udp-binary")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(to):
    run("make", "-s", "-C", NATIVE, f"{to}/libspanwise.a", f"BUILD={to}")
    for name in ("client", "proxy", "server"):
        run("cc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}/include", f"{HERE}/{name}.c", f"{to}/libspanwise.a",
            "-o", f"{to}/{name}", "-lzmq", "-pthread", "-ldl")


def work(to, kind, ports):
    """Runs the three programs. Returns the directories to which they record."""
    front, back = (f"tcp://127.0.0.1:{port}" for port in ports)
    count, dirs = str(REQUESTS), directories(to, kind)
    server = subprocess.Popen([f"{to}/server", back, dirs[2], count])
    proxy = subprocess.Popen([f"{to}/proxy", front, back, dirs[1], count])
    try:
        run(f"{to}/client", front, dirs[0], count)
        if proxy.wait(15) or server.wait(15):
            sys.exit("the proxy or the server failed")
    finally:
        for program in (proxy, server):
            program.kill()
    return dirs


def directories(to, kind):
    return [f"{to}/{kind}.{name}" for name in ("client", "proxy", "server")]


class Spanwise:
    """`spanwise server` or `spanwise up` on free ports."""

    def __init__(self, spanwise, to, command, *more):
        self.program = spanwise
        http, self.grpc = free_port(), free_port()
        self.url, self.log = f"http://127.0.0.1:{http}", f"{to}/{command}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [spanwise, command, "--data", f"{to}/{command}-data", "--http", f"127.0.0.1:{http}",
                 "--otlp-grpc", f"127.0.0.1:{self.grpc}", "--otlp-http", f"127.0.0.1:{free_port()}",
                 *(word for name in OTHERS for word in (f"--{name}", "off")), *more], stdout=log, stderr=log)
        # Its banner's last line says whether the kernel is watched.
        for _ in range(300):
            if self.process.poll() is not None:
                sys.exit(open(self.log).read())
            self.agent = re.search("^  agent +(.*)", open(self.log).read(), re.M)
            if self.agent:
                break
            time.sleep(0.1)
        else:
            sys.exit("the server does not come up: " + open(self.log).read())

    def ask(self, sql):
        answer = run(self.program, "sql", sql, "--url", self.url, "--format", "csv")
        return list(csv.DictReader(io.StringIO(answer)))

    def spans(self, wanted):
        """All spans, once there are as many, in traces."""
        for _ in range(60):
            rows = self.ask("SELECT assembled_trace_id, span_id, assembled_parent, service, operation, protocol, duration_nano "
                            "FROM spans")
            if len(rows) >= wanted and all(row["assembled_trace_id"] for row in rows):
                break
            time.sleep(0.5)
        return rows

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--spanwise", required=True)
    arguments.add_argument("--keep", action="store_true")
    arguments = arguments.parse_args()
    spanwise = os.path.abspath(arguments.spanwise)
    to = tempfile.mkdtemp(prefix="spanwise-native-")
    server = None
    try:
        build(to)
        dirs = work(to, "recorded", (free_port(), free_port()))
        print(f"{REQUESTS} requests are recorded to {to}/recorded.*")
        server = Spanwise(spanwise, to, "server")
        print(run(spanwise, "replay", *dirs, "--server", f"http://127.0.0.1:{server.grpc}").strip())
        show(server.spans(REQUESTS * len(OWN)), OWN)
        server.stop()

        ports = free_port(), free_port()
        dirs = directories(to, "live")
        for directory in dirs:
            os.mkdir(directory)
        followed = [word for directory in dirs for word in ("--native-dir", directory)]
        server = Spanwise(spanwise, to, "up", *followed, "--only", ",".join(f"port={port}" for port in ports))
        watched = server.agent[1].startswith("on")
        print(f"\nlive; the agent is {server.agent[1]}")
        work(to, "live", ports)
        wanted = WITH_KERNEL if watched else OWN
        show(server.spans(REQUESTS * len(wanted)), wanted)
        if arguments.keep:
            print(f"{server.url}: Ctrl-C ends it")
            server.process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        if server:
            server.stop()
        shutil.rmtree(to, ignore_errors=True)


def show(rows, wanted):
    """One trace as a tree; every request must be such a tree."""
    traces = {}
    for row in rows:
        traces.setdefault(row["assembled_trace_id"], []).append(row)
    for spans in traces.values():
        below = {span["assembled_parent"]: span for span in spans}
        chain = [below.get("")]
        while chain[-1] and len(chain) < len(spans):
            chain.append(below.get(chain[-1]["span_id"]))
        found = [(span["protocol"] and f"{span['protocol']} ") + span["operation"] for span in chain if span]
        if len(spans) != len(wanted) or found != wanted:
            sys.exit(f"this request is no such tree: {found}, {len(spans)} spans\nwanted: {wanted}")
    if len(traces) != REQUESTS:
        sys.exit(f"{len(traces)} traces of {REQUESTS} requests")
    print(f"{len(traces)} requests are trees like this one:")
    for depth, (span, name) in enumerate(zip(chain, wanted)):
        print(f"  {'  ' * depth}{span['service']}: {name}, {int(span['duration_nano']) / 1000:.0f} us")


if __name__ == "__main__":
    main()
