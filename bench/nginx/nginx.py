#!/usr/bin/env python3
"""What tracing costs a server in the worst case: nginx with a small page on one core.

nginx serves the page as fast as it can (DeepFlow's paper, Appendix B). It has the first core. The
load (wrk) and the agent share the second. Three settings take turns: no agent; the kernel side
alone (its events are read and discarded); and the whole agent, whose spans go to a sink on the
second core. Figures are medians over rounds of the changes within a round. The load represents
clients on other hosts. The agent's filter excludes it, so a request makes one span.

Everything is measured twice: bare, where nginx does as little as possible (open files are cached,
no log, persistent connections), and as installed, with sendfile. Bare, a request costs nginx about
as much as wrk, so the second core is busy even without an agent. As installed, wrk waits for
nginx, and nginx has to wake it, the more often the slower nginx is. Waking an idle processor costs
nginx microseconds on virtual machines, which clients on other hosts would not. So processors are
kept awake (/dev/cpu_dma_latency, for root), and the number of wrk's waits is printed.

    nginx.py --spanwise target/release/spanwise --sink target/release/spanwise-bench-sink \\
             --kernel-only target/release/spanwise-bench-capture [--rounds 5] [--seconds 6]
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from programs import (  # noqa: E402
    Programs, Sink, cpu_seconds, fail, free_port, need, start_agent, wait_for,
)

SERVER_CORE, OTHER_CORE = "0", "1"
CONNECTIONS = 50
SETTINGS = ("none", "kernel", "full")
# nginx's settings besides paths. The second one is Debian's default.
CONFIGURATIONS = {
    "bare": "access_log off; keepalive_requests 100000000; open_file_cache max=100;",
    "installed": "sendfile on; tcp_nopush on; types_hash_max_size 2048; gzip on; "
                 "access_log {directory}/access.log;",
}


def start_nginx(programs, directory, configuration):
    port = free_port()
    settings = CONFIGURATIONS[configuration].format(directory=directory)
    (directory / "index.html").write_text("<html><body>hello</body></html>\n" * 20)
    (directory / "nginx.conf").write_text(
        f"""daemon off; master_process off; worker_processes 1; user root;
        pid {directory}/pid; error_log {directory}/error.log;
        events {{ worker_connections 1024; }}
        http {{
            {settings}
            client_body_temp_path {directory}/body;
            server {{ listen 127.0.0.1:{port}; root {directory}; }}
        }}"""
    )
    nginx = programs.start(
        "nginx", "nginx", "-p", directory, "-c", directory / "nginx.conf", core=SERVER_CORE
    )
    wait_for(port)
    return nginx, port


def stay_awake():
    """Keeps idle processors awake while the file is open."""
    try:
        awake = open("/dev/cpu_dma_latency", "wb", buffering=0)
        awake.write(bytes(4))
        return awake
    except OSError as error:
        print(f"processors may sleep: {error}", file=sys.stderr)
        return None


def waits_of_children():
    """How often finished child processes have waited."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw


def load(port, seconds):
    """Number of answered requests, and the seconds that they took."""
    output = subprocess.run(
        ["taskset", "-c", OTHER_CORE, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s",
         f"http://127.0.0.1:{port}/index.html"],
        check=True, capture_output=True, text=True, timeout=seconds + 60,
    ).stdout
    found = re.search(r"(\d+) requests in ([\d.]+)s", output)
    if not found or "Non-2xx" in output:
        fail(f"wrk said\n{output}")
    return int(found[1]), float(found[2])


def start_setting(setting, options, programs, sink):
    if setting == "none":
        return None
    if setting == "full":
        return start_agent(programs, options.spanwise, sink.url, "--except", "service=wrk",
                           core=OTHER_CORE)
    process = programs.start(setting, options.kernel_only, "--drain", "wrk", core=OTHER_CORE)
    time.sleep(2)  # Loading and attaching.
    programs.check(setting, process)
    return process


def measure(setting, options, programs, nginx, port, sink):
    rows_before = sink.report()["rows"]
    process = start_setting(setting, options, programs, sink)
    warming, _ = load(port, 1)
    measured = [one for one in (process, nginx, sink.process) if one]
    before = {one: cpu_seconds(one) for one in measured}
    waits = waits_of_children()
    requests, seconds = load(port, options.seconds)
    waits = waits_of_children() - waits
    micros = {one: (cpu_seconds(one) - before[one]) / requests * 1e6 for one in measured}
    if process:
        programs.stop(process)
        time.sleep(1.5)  # The sink reports once a second.
    return {
        "rate": requests / seconds,
        "nginx_us": micros[nginx],
        "agent_us": micros.get(process, 0),
        "sink_us": micros[sink.process],
        "waits": waits / requests,
        "spans": (sink.report()["rows"] - rows_before) / (warming + requests),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True, type=pathlib.Path)
    parser.add_argument("--kernel-only", required=True, type=pathlib.Path)
    parser.add_argument("--sink", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    options.spanwise = options.spanwise.resolve()
    options.kernel_only = options.kernel_only.resolve()
    options.sink = options.sink.resolve()
    need({"wrk": "wrk", "nginx": "nginx-light", "taskset": "util-linux"})
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-nginx-"))
    directory.chmod(0o755)
    programs = Programs(directory)
    awake = stay_awake()
    try:
        sink = Sink(programs, options.sink, core=OTHER_CORE)
        time.sleep(1.5)
        for configuration in CONFIGURATIONS:
            run(options, programs, directory, sink, configuration)
    finally:
        programs.stop_all()
        if awake:
            awake.close()
        shutil.rmtree(directory, ignore_errors=True)


def run(options, programs, directory, sink, configuration):
    nginx, port = start_nginx(programs, directory, configuration)
    load(port, 1)
    rounds = []
    for index in range(options.rounds):
        order = SETTINGS[index % 3:] + SETTINGS[:index % 3]
        rounds.append({
            setting: measure(setting, options, programs, nginx, port, sink) for setting in order
        })
        print(f"{configuration}: round {index + 1} of {options.rounds}", file=sys.stderr)
    programs.stop(nginx)
    median = lambda pick: statistics.median(pick(found) for found in rounds)
    columns = {"rate": "requests/s", "nginx_us": "nginx us", "agent_us": "agent us",
               "sink_us": "sink us", "waits": "wrk waits", "spans": "spans/request"}
    print(f"{configuration:<10}" + "".join(f"{title:>15}" for title in columns.values()))
    for setting in SETTINGS:
        figures = [median(lambda found, name=name: found[setting][name]) for name in columns]
        print(f"{setting:<10}" + "".join(
            f"{figure:>15.{0 if name == 'rate' else 2}f}" for name, figure in zip(columns, figures)))
    print()
    share = lambda setting: median(lambda found: found[setting]["rate"] / found["none"]["rate"])
    added = median(lambda found: found["kernel"]["nginx_us"] - found["none"]["nginx_us"])
    agent = median(lambda found: found["full"]["agent_us"])
    # If the load shares its core with the agent, the load may be the bottleneck.
    by_cpu = median(lambda found: found["none"]["nginx_us"] / found["full"]["nginx_us"])
    name = "nginx" if configuration == "bare" else f"nginx.{configuration}"
    print(f"figure {name}.kept_ebpf_share {share('kernel'):.3f} 1")
    print(f"figure {name}.kept_full_share {share('full'):.3f} 1")
    print(f"figure {name}.kept_full_by_server_cpu_share {by_cpu:.3f} 1")
    print(f"figure {name}.kernel_us_per_request {added:.2f} us")
    print(f"figure {name}.agent_us_per_request {agent:.2f} us")
    print(flush=True)


if __name__ == "__main__":
    main()
