#!/usr/bin/env python3
"""ZeroMQ client, proxy and server in C, traced by the library: recorded to files, replayed to a
Spanwise server, and looked at. `make demo-native` builds what it needs.

With --keep the server stays, for a look at its UI.
"""
import argparse
import csv
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "..", "..", "agents", "native")
REQUESTS = 300
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


def record(to):
    front, back = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    count, dirs = str(REQUESTS), [f"{to}/{name}.trace" for name in ("client", "proxy", "server")]
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


def ask(spanwise, url, sql):
    return list(csv.DictReader(io.StringIO(run(spanwise, "sql", sql, "--url", url, "--format", "csv"))))


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
        dirs = record(to)
        print(f"{REQUESTS} requests are recorded to {to}/*.trace")
        http, grpc = free_port(), free_port()
        server = subprocess.Popen(
            [spanwise, "server", "--data", f"{to}/data", "--http", f"127.0.0.1:{http}", "--otlp-grpc", f"127.0.0.1:{grpc}",
             "--otlp-http", f"127.0.0.1:{free_port()}", *(word for name in OTHERS for word in (f"--{name}", "off"))],
            stdout=subprocess.DEVNULL, stderr=open(f"{to}/server.log", "w"))
        url = f"http://127.0.0.1:{http}"
        for _ in range(300):
            if server.poll() is not None:
                sys.exit(open(f"{to}/server.log").read())
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", grpc)) == 0:
                    break
            time.sleep(0.1)
        print(run(spanwise, "replay", *dirs, "--server", f"http://127.0.0.1:{grpc}").strip())
        rows = ask(spanwise, url, "SELECT trace_id, span_id, parent_span_id, service, operation, duration_nano FROM spans")
        show(rows)
        if arguments.keep:
            print(f"{url}: Ctrl-C ends it")
            server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        if server:
            server.terminate()
            server.wait()
        shutil.rmtree(to, ignore_errors=True)


def show(rows):
    """One trace as a tree; every request must be such a tree."""
    traces = {}
    for row in rows:
        traces.setdefault(row["trace_id"], []).append(row)
    wanted = ["get quote", "forward", "handle quote", "look up"]
    for spans in traces.values():
        parents = {span["span_id"]: span for span in spans}
        chain = [next(span for span in spans if span["operation"] == name) for name in wanted]
        if len(spans) != 4 or any(parents[inner["parent_span_id"]] is not outer for outer, inner in zip(chain, chain[1:])):
            sys.exit(f"this request is no tree of four spans: {spans}")
    if len(traces) != REQUESTS:
        sys.exit(f"{len(traces)} traces of {REQUESTS} requests")
    print(f"{len(traces)} requests are trees like this one:")
    for depth, span in enumerate(chain):
        print(f"  {'  ' * depth}{span['service']}: {span['operation']}, {int(span['duration_nano']) / 1000:.0f} us")


if __name__ == "__main__":
    main()
