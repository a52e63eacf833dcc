#!/usr/bin/env python3
"""What tracing costs a server in the worst case: nginx that serves a small page
on one core, as fast as it can (DeepFlow's paper, Appendix B).

nginx has the first core; the load (wrk) and the agent share the second. Three
settings take turns: no agent, the kernel side alone (its events are read and
thrown away), and the whole agent, whose spans go to a sink on the second core,
too. Figures are medians over rounds of what changes within a round. The load
stands for clients on other machines: it is left out by the agent's filter, so a
request makes one span.

All of it twice: bare, where nginx does the least that it can (files stay open,
nothing is logged, connections last), and as it is installed, with sendfile. Bare, a
request costs nginx about what it costs wrk, so the second core is full without an
agent. As installed, wrk waits for nginx, and nginx has to wake it: the slower nginx
is, the more often. Waking a processor that sleeps costs nginx microseconds on virtual
machines, which clients on other machines would not; so processors do not sleep while
this runs (/dev/cpu_dma_latency, for root), and how often wrk waited is printed.

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
# What nginx is told beside where things are; the second is what Debian installs.
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
    """Keeps idle processors from sleeping while the file is open."""
    try:
        awake = open("/dev/cpu_dma_latency", "wb", buffering=0)
        awake.write(bytes(4))
        return awake
    except OSError as error:
        print(f"processors may sleep: {error}", file=sys.stderr)
        return None


def waits_of_children():
    """How often programs that were run to their ends have waited."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw


def load(port, seconds):
    """Requests that were answered, and in how many seconds."""
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
    # Where the load has to share its core with the agent, it may be what limits.
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
