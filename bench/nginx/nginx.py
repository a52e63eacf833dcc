#!/usr/bin/env python3
"""What tracing costs a server in the worst case: nginx that serves a tiny page
from memory on one core, as fast as it can (DeepFlow's paper, Appendix B).

nginx has the first core; the load (wrk), the agent and its server share the
second. Three settings take turns: no agent, the kernel side alone (its events
are read and thrown away), and the whole agent. Figures are medians over rounds
of what changes within a round. Both ends of each request are on this machine,
so that every request makes two spans.

    nginx.py --spanwise target/release/spanwise \\
             --kernel-only target/release/spanwise-bench-capture [--rounds 5] [--seconds 6]
"""

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from programs import Programs, cpu_seconds, fail, free_port, need, wait_for  # noqa: E402

SERVER_CORE, OTHER_CORE = "0", "1"
CONNECTIONS = 50
SETTINGS = ("none", "kernel", "full")


def start_nginx(programs, directory):
    port = free_port()
    (directory / "index.html").write_text("<html><body>hello</body></html>\n" * 20)
    (directory / "nginx.conf").write_text(
        f"""daemon off; master_process off; worker_processes 1; user root;
        pid {directory}/pid; error_log {directory}/error.log;
        events {{ worker_connections 1024; }}
        http {{
            access_log off; keepalive_requests 100000000; open_file_cache max=100;
            client_body_temp_path {directory}/body;
            server {{ listen 127.0.0.1:{port}; root {directory}; }}
        }}"""
    )
    nginx = programs.start(
        "nginx", "nginx", "-p", directory, "-c", directory / "nginx.conf", core=SERVER_CORE
    )
    wait_for(port)
    return nginx, port


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


def start_setting(setting, options, programs, grpc):
    if setting == "none":
        return None
    if setting == "kernel":
        process = programs.start(setting, options.kernel_only, "--drain", core=OTHER_CORE)
    else:
        process = programs.start(
            setting, options.spanwise, "agent", "--server", f"http://127.0.0.1:{grpc}", core=OTHER_CORE
        )
    time.sleep(2)  # Loading and attaching.
    programs.check(setting, process)
    return process


def measure(setting, options, programs, nginx, port, grpc):
    process = start_setting(setting, options, programs, grpc)
    load(port, 1)
    nginx_before = cpu_seconds(nginx)
    agent_before = cpu_seconds(process) if process else 0
    requests, seconds = load(port, options.seconds)
    figures = {
        "rate": requests / seconds,
        "nginx_us": (cpu_seconds(nginx) - nginx_before) / requests * 1e6,
        "agent_us": ((cpu_seconds(process) - agent_before) / requests * 1e6) if process else 0,
    }
    if process:
        programs.stop(process)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True, type=pathlib.Path)
    parser.add_argument("--kernel-only", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    options.spanwise = options.spanwise.resolve()
    options.kernel_only = options.kernel_only.resolve()
    need({"wrk": "wrk", "nginx": "nginx-light", "taskset": "util-linux"})
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-nginx-"))
    directory.chmod(0o755)
    programs = Programs(directory)
    try:
        run(options, programs, directory)
    finally:
        programs.stop_all()
        shutil.rmtree(directory, ignore_errors=True)


def run(options, programs, directory):
    nginx, port = start_nginx(programs, directory)
    grpc = free_port()
    off = [word for name in ("--zipkin", "--jaeger-grpc", "--jaeger-http",
                             "--jaeger-udp-compact", "--jaeger-udp-binary") for word in (name, "off")]
    programs.start(
        "server", options.spanwise, "server", "--data", directory / "data",
        "--otlp-grpc", f"127.0.0.1:{grpc}", "--otlp-http", f"127.0.0.1:{free_port()}",
        "--http", f"127.0.0.1:{free_port()}", *off, core=OTHER_CORE,
    )
    wait_for(grpc)
    load(port, 1)
    rounds = []
    for index in range(options.rounds):
        order = SETTINGS[index % 3:] + SETTINGS[:index % 3]
        rounds.append({
            setting: measure(setting, options, programs, nginx, port, grpc) for setting in order
        })
        print(f"round {index + 1} of {options.rounds}", file=sys.stderr)
    median = lambda pick: statistics.median(pick(found) for found in rounds)
    print(f"{'setting':<10}{'requests/s':>12}{'nginx us':>10}{'agent us':>10}")
    for setting in SETTINGS:
        rate, nginx_us, agent_us = (
            median(lambda found, name=name: found[setting][name])
            for name in ("rate", "nginx_us", "agent_us")
        )
        print(f"{setting:<10}{rate:>12.0f}{nginx_us:>10.2f}{agent_us:>10.2f}")
    print()
    share = lambda setting: median(lambda found: found[setting]["rate"] / found["none"]["rate"])
    added = median(lambda found: found["kernel"]["nginx_us"] - found["none"]["nginx_us"])
    agent = median(lambda found: found["full"]["agent_us"])
    print(f"figure nginx.kept_ebpf_share {share('kernel'):.3f} 1")
    print(f"figure nginx.kept_full_share {share('full'):.3f} 1")
    print(f"figure nginx.kernel_us_per_request {added:.2f} us")
    print(f"figure nginx.agent_us_per_request {agent:.2f} us")


if __name__ == "__main__":
    main()
