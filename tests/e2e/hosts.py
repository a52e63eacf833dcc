#!/usr/bin/env python3
"""Two hosts with different clocks: namespaces with an agent each, one of them in a time namespace.
Calls between them are still one trace, and the clock difference is reported without changing any
time.
"""

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from checks import Checks
from spanwise import Spanwise, binary

HOSTS = {"alpha": "10.213.77.1", "beta": "10.213.77.2"}
BEHIND_SECONDS = 3
CALLS = 40
SERVER = """
import http.server, sys, time, urllib.request
address, ask = sys.argv[1], sys.argv[2:]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.01)
        body = urllib.request.urlopen(ask[0]).read() if ask else b"ok"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((address, 8080), Handler).serve_forever()
"""


def run(*command, check=True):
    subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=None if check else subprocess.DEVNULL)


@contextlib.contextmanager
def namespaces():
    """A network namespace for each host, connected by a pair of devices."""
    names = {host: f"spanwise-{host}" for host in HOSTS}
    remove = lambda: [run("ip", "netns", "del", name, check=False) for name in names.values()]
    remove()
    try:
        for name in names.values():
            run("ip", "netns", "add", name)
        one, other = names.values()
        run("ip", "link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0", "netns", other)
        for host, name in names.items():
            run("ip", "-n", name, "addr", "add", f"{HOSTS[host]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", device, "up")
        yield names
    finally:
        remove()


@contextlib.contextmanager
def running(*command, log):
    with open(log, "ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def agents_ready(spanwise, seconds=30):
    """Whether both agents report."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(spanwise.get("status")["ingest"]["agents"]) == len(HOSTS):
            return True
        time.sleep(0.2)
    return False


def is_whole(trace):
    """Whether the trace has the four ends of the two calls, nested, on the right hosts."""
    ends = [(span["host"], span["capture"], span["depth"]) for span in trace["spans"]]
    return ends == [("alpha", "client-process", 0), ("alpha", "server-process", 1), ("alpha", "client-process", 2),
                    ("beta", "server-process", 3)]


def traces(spanwise):
    found = spanwise.get("search", service="curl", limit=CALLS)["traces"]
    return [spanwise.get(f"traces/{trace['trace_id']}") for trace in found]


def is_right(clock):
    """Whether the reported clock difference contains the truth and is close to it."""
    ahead, uncertain = int(clock["ahead_nano"]), int(clock["uncertainty_nano"])
    truth = {("alpha", "beta"): -BEHIND_SECONDS, ("beta", "alpha"): BEHIND_SECONDS}[clock["reference"], clock["host"]]
    # The namespace's offset is exact, except for drift between an agent's own two clocks.
    return abs(ahead - truth * 10**9) <= uncertain + 1_000_000 and uncertain < 100_000_000


def case(checks, program, folder):
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(namespaces())
        spanwise = Spanwise(program, folder / "data", folder / "server.log", command="server", config=folder / "none.toml")
        (folder / "none.toml").write_text("")
        spanwise.start()
        stack.callback(spanwise.kill)
        for host, name in names.items():
            config = folder / f"{host}.toml"
            config.write_text(f'[agent]\nonly = "netns={name}"\n')
            late = ["unshare", "--time", "--monotonic", str(BEHIND_SECONDS)] if host == "beta" else []
            # A process enters its time namespace at the next fork.
            late += ["--fork", "--kill-child=SIGTERM"] if late else []
            stack.enter_context(running(*late, program, "agent", f"--config={config}", f"--host={host}",
                                        f"--server=http://127.0.0.1:{spanwise.grpc}", log=folder / f"{host}.log"))
        inside = lambda host: ["ip", "netns", "exec", names[host]]
        program_of = [sys.executable, "-c", SERVER]
        stack.enter_context(running(*inside("beta"), *program_of, HOSTS["beta"], log=folder / "servers.log"))
        stack.enter_context(running(*inside("alpha"), *program_of, HOSTS["alpha"], f"http://{HOSTS['beta']}:8080/price",
                                    log=folder / "servers.log"))
        if not checks.check("both agents report", agents_ready(spanwise)):
            print("".join((folder / f"{host}.log").read_text(errors="replace") for host in HOSTS))
            return
        # Time for the agents to examine the programs.
        time.sleep(3)
        for _ in range(CALLS):
            run(*inside("alpha"), "curl", "--silent", "--max-time", "5", f"http://{HOSTS['alpha']}:8080/buy")
        spanwise.wait_quiet()
        found = traces(spanwise)
        whole = [trace for trace in found if is_whole(trace)]
        checks.check("calls between hosts are one trace", len(whole) >= CALLS * 0.95, f"{len(whole)} of {CALLS}")
        right = [trace for trace in whole if len(trace["clocks"]) == 1 and is_right(trace["clocks"][0])]
        checks.check("a trace tells how far the clocks are apart", whole and len(right) == len(whole),
                     f"{len(right)} of {len(whole)}")
        warned = [trace for trace in whole if any("the clock of beta is" in text for text in trace["warnings"])]
        checks.check("and warns of it", whole and len(warned) == len(whole), str(whole and whole[0]["warnings"]))
        early = [trace for trace in whole
                 if int(trace["spans"][3]["start_unix_nano"]) < int(trace["spans"][2]["start_unix_nano"]) - 10**9]
        checks.check("no time is moved", whole and len(early) == len(whole))
        status = spanwise.get("status")
        clocks = status["server"]["assembly"]["clocks"]
        checks.check("so does the status", len(clocks) == 1 and is_right(clocks[0]), str(clocks))
        checks.check("which warns as well", any("clock of beta" in text for text in status["warnings"]))
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{spanwise.http}/metrics").read().decode()
        name = 'spanwise_assembly_clock_ahead_seconds{host="beta",reference="alpha"} -2.9'
        again = name.replace("-2.9", "-3.0")
        checks.check("and the metrics", name in metrics or again in metrics)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spanwise", help="the program")
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="spanwise-hosts-") as folder:
        checks.case("two hosts", lambda: case(checks, str(binary(arguments.spanwise)), Path(folder)))
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
