"""Costs of the native library, beside LTTng-UST and opentelemetry-cpp where they are installed, a
flood, its replay, and metrics. Prints `figure NAME VALUE`; what belongs to nobody (`none.…`) is the
clock alone."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "agents/native/bench"


def run(*command, **more):
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **more)
    return done.stdout


def lttng(dir_):
    """The same by LTTng-UST, with a session daemon of its own."""
    header = subprocess.run(["cc", "-E", "-"], input="#include <lttng/tracepoint.h>", text=True, capture_output=True)
    if header.returncode or not shutil.which("lttng-sessiond"):
        return print("peer LTTng-UST is not measured: SPANWISE_SETUP=lttng scripts/setup.sh installs it")
    program = dir_ / "lttng"
    run("cc", "-O2", f"-I{BENCH}", f"{BENCH}/lttng.c", "-o", program, "-llttng-ust", "-ldl")
    home = {**os.environ, "LTTNG_HOME": str(dir_), "LTTNG_RUNDIR": str(dir_ / "run"), "LTTNG_UST_REGISTER_TIMEOUT": "5000"}
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if subprocess.run(["lttng", "list"], env=home, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        for command in (
            ["create", "bench", f"--output={dir_}/trace"],
            # What is discarded would cost less.
            ["enable-channel", "-u", "channel", "--overwrite", "--subbuf-size=1M", "--num-subbuf=4"],
            ["enable-event", "-u", "bench:span", "-c", "channel"],
            ["start"],
        ):
            run("lttng", *command, env=home)
        print(run(program, env=home), end="")
        run("lttng", "destroy", "bench", env=home)
    finally:
        daemon.terminate()
        daemon.wait()


def opentelemetry(dir_):
    """The same by opentelemetry-cpp."""
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "opentelemetry_trace"], capture_output=True, text=True)
    if found.returncode:
        return print("peer opentelemetry-cpp is not measured: pkg-config finds no opentelemetry_trace")
    program = dir_ / "opentelemetry"
    # Twice, as libraries of it need each other.
    flags = found.stdout.split()
    run("c++", "-std=c++17", "-O2", f"{BENCH}/opentelemetry.cpp", "-o", program, *flags, *flags, "-pthread")
    print(run(program), end="")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60, help="of the flood; of each run with metrics, at most 20")
    parser.add_argument("--dir", help="where the flood goes; default: the system's temporary directory")
    arguments = parser.parse_args()
    build = ROOT / "target/native"
    run("make", "-s", "-C", "agents/native", f"BUILD={build}", f"{build}/native")
    run("cargo", "build", "-q", "--release", "--locked", "-p", "spanwise-native", "--example", "decode")
    dir_ = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-bench-", dir=arguments.dir))
    try:
        print(run(build / "native", dir_ / "hot", "hot"), end="")
        shutil.rmtree(dir_ / "hot")
        opentelemetry(dir_)
        lttng(dir_)
        flood = run(build / "native", dir_ / "flood", "flood", str(arguments.seconds))
        made = int(re.search(r"made (\d+)", flood)[1]) + 1  # and the one of the disabled site
        print(flood.splitlines()[0])
        decoded = run(ROOT / "target/release/examples/decode", dir_ / "flood")
        read, rate = re.search(r"spans (\d+) per_second (\d+)", decoded).groups()
        # The last segment is as long as the others, but empty at its end.
        used = int(re.search(r"bytes (\d+)", decoded)[1])
        print(f"figure native.flood_lost {made - int(read)}")
        print(f"figure native.bytes_per_span {used / int(read):.2f}")
        print(f"figure native.replay_spans_per_second {rate}")
        shutil.rmtree(dir_ / "flood")
        # The first is the goal's; the helper thread itself is in both.
        for milliseconds, name in ((500, ""), (1000, "_1000ms")):
            seconds = str(min(arguments.seconds, 20))
            said = run(build / "native", dir_ / f"metrics{milliseconds}", "metrics", seconds, str(milliseconds))
            print(f"figure native.metrics_overhead_share{name} {said.split()[1]}")
    finally:
        shutil.rmtree(dir_, ignore_errors=True)


if __name__ == "__main__":
    main()
