#!/usr/bin/env python3
"""Agent memory and loss under a steady load.

Starts a server and an agent of their own, nginx and Redis on free ports, and
sends a steady rate of requests over kept-alive connections: half HTTP, half
Redis. Samples the agent's resident memory, and compares the requests sent with
the spans that the agent made of them.

    soak.py --spanwise target/release/spanwise [--rate 5000] [--seconds 600]
"""

import argparse
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

CONNECTIONS = 8
STEP_SECONDS = 0.01
DRAIN_SECONDS = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"soak: nothing listens on port {port} after {seconds} s")


class Programs:
    """What was started here; all of it ends with the run."""

    def __init__(self, directory):
        self.directory = directory
        self.running = []

    def start(self, name, *command):
        log = open(self.directory / f"{name}.log", "wb")
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        self.running.append(process)
        return process

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def nginx_configuration(directory, port):
    path = directory / "nginx.conf"
    path.write_text(f"""
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {directory}; proxy_temp_path {directory};
    fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "ok\\n"; }} }}
}}
""")
    return path


class Load:
    """Sends one request at a time on each connection, in turn."""

    def __init__(self, http_port, redis_port):
        self.selector = selectors.DefaultSelector()
        http = b"GET /soak HTTP/1.1\r\nHost: soak\r\nUser-Agent: soak\r\n\r\n"
        redis = b"*2\r\n$3\r\nGET\r\n$9\r\nsoak:item\r\n"
        self.idle = []
        for index in range(CONNECTIONS):
            port, request = ((http_port, http), (redis_port, redis))[index % 2]
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(connection, selectors.EVENT_READ, request)
            self.idle.append((connection, request))
        self.sent = 0

    def run(self, rate, seconds, every_second):
        start = time.monotonic()
        next_report = 1
        while (elapsed := time.monotonic() - start) < seconds:
            due = int(elapsed * rate) - self.sent
            for _ in range(min(due, len(self.idle))):
                connection, request = self.idle.pop(0)
                connection.sendall(request)
                self.sent += 1
            behind = due > len(self.idle)
            for key, _ in self.selector.select(0 if behind else STEP_SECONDS / 10):
                if not key.fileobj.recv(65536):
                    sys.exit("soak: a server closed its connection")
                self.idle.append((key.fileobj, key.data))
            if elapsed >= next_report:
                every_second(elapsed)
                next_report += 1
        rate = self.sent / (time.monotonic() - start)
        # A request whose response nobody read is no lost one.
        while len(self.idle) < CONNECTIONS:
            ready = self.selector.select(DRAIN_SECONDS)
            if not ready:
                sys.exit("soak: a server does not answer")
            for key, _ in ready:
                key.fileobj.recv(65536)
                self.idle.append((key.fileobj, key.data))
        return rate


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
        return json.load(reply)


def query(port, sql):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/sql", json.dumps({"query": sql}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["rows"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=600)
    arguments = parser.parse_args()
    spanwise = os.path.abspath(arguments.spanwise)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-soak-"))
    os.chmod(directory, 0o755)
    programs = Programs(directory)
    http, grpc, otlp, nginx_port, redis_port = (free_port() for _ in range(5))
    try:
        programs.start("server", spanwise, "server", "--data", str(directory / "data"),
                       "--http", str(http), "--otlp-grpc", str(grpc), "--otlp-http", str(otlp),
                       "--zipkin", "off", "--jaeger-grpc", "off", "--jaeger-http", "off",
                       "--jaeger-udp-compact", "off", "--jaeger-udp-binary", "off")
        wait_for(http)
        agent = programs.start("agent", spanwise, "agent", "--server", f"http://127.0.0.1:{grpc}")
        programs.start("nginx", shutil.which("nginx") or "/usr/sbin/nginx", "-c",
                       str(nginx_configuration(directory, nginx_port)))
        programs.start("redis", "redis-server", "--port", str(redis_port), "--bind", "127.0.0.1",
                       "--save", "", "--dir", str(directory))
        wait_for(nginx_port)
        wait_for(redis_port)
        time.sleep(2)
        samples = []

        def sample(elapsed):
            samples.append(resident_mb(agent.pid))
            if int(elapsed) % 30 == 0:
                print(f"{elapsed:5.0f} s  agent {samples[-1]:.1f} MB", flush=True)

        before = cpu_seconds(agent.pid)
        rate = (load := Load(nginx_port, redis_port)).run(
            arguments.rate, arguments.seconds, sample)
        agent_cpu = cpu_seconds(agent.pid) - before
        time.sleep(5)
        (told,) = fetch(http, "/api/v1/status")["agent"]["agents"]
        counters = told["facts"]["counters"]
        ((seen,),) = query(
            http, "SELECT count(*) FROM spans WHERE capture = 'client-process' "
            f"AND server_port IN ({nginx_port}, {redis_port})")
        seen = int(seen)
        lost = load.sent - seen
        half = samples[len(samples) // 2:]
        print(f"\n{load.sent} requests at {rate:.0f}/s; {seen} client spans stored; "
              f"agent {agent_cpu / load.sent * 1e6:.1f} us of CPU per request")
        for name, value in sorted(counters.items()):
            if value and ("lost" in name or "drop" in name or "gap" in name):
                print(f"  {name} {value}")
        print(f"figure soak.rate {rate:.0f} requests/s")
        print(f"figure soak.peak_rss_mb {max(samples):.1f} MB")
        print(f"figure soak.rss_growth_mb {half[-1] - half[0]:.1f} MB")
        print(f"figure soak.lost_share {max(lost, 0) / load.sent:.6f} 1")
        print(f"figure soak.agent_us_per_request {agent_cpu / load.sent * 1e6:.2f} us")
    finally:
        programs.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
