"""Helpers for benchmarks: programs that are started and ended with the run, their resource usage,
and an agent with a sink.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

ATTACH_SECONDS = 20
# Debian keeps servers out of users' PATH.
os.environ["PATH"] += ":/usr/sbin:/sbin"


def fail(text):
    """Ends the run with a message."""
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {text}")


def end_on_signals():
    """Makes SIGTERM end the run like Ctrl-C, with all its programs."""
    def end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, seconds=20, address="127.0.0.1"):
    """Waits until the port is open."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    fail(f"nothing listens on {address}:{port} after {seconds} s")


def need(packages):
    """Ends the run if a program is missing. `packages` names the Debian package of each."""
    missing = [package for program, package in packages.items() if not shutil.which(program)]
    if missing:
        fail(f"programs are missing; apt-get install {' '.join(sorted(set(missing)))}")


def cpu_seconds(process):
    """User and system time of a process, in seconds."""
    return sum(times_seconds(process.pid)[:2])


def times_seconds(pid):
    """User and system time of a process, and those of its children that have been waited for."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in stat[11:15]]


def family(pid):
    """A process and all its descendants."""
    found = [pid]
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [one for child in children.read_text().split() for one in family(int(child))]
    return found


def family_seconds(pid):
    """Processor time of a process and its descendants, in seconds."""
    seconds = 0
    for one in family(pid):
        # The time of processes that end meanwhile is added to their parent.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            seconds += sum(times_seconds(one))
    return seconds


def busy_and_all():
    """The host's processor time so far, in seconds: busy, and total."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return tuple(count / os.sysconf("SC_CLK_TCK") for count in (sum(ticks) - idle, sum(ticks)))


BPF_ACCOUNT = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


@contextlib.contextmanager
def bpf_account():
    """Inside it, the kernel counts and times runs of BPF programs (Linux 5.1,
    kernel.bpf_stats_enabled). This costs each run two readings of the clock.
    """
    before = BPF_ACCOUNT.read_text()
    BPF_ACCOUNT.write_text("1")
    try:
        yield
    finally:
        BPF_ACCOUNT.write_text(before)


def bpf_runs(process):
    """The number of counted runs of a process's BPF programs, and their time in seconds."""
    programs = {}
    for file in pathlib.Path(f"/proc/{process.pid}/fdinfo").glob("*"):
        # Files come and go.
        with contextlib.suppress(FileNotFoundError):
            facts = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
            if "run_cnt" in facts:
                programs[facts["prog_id"]] = int(facts["run_cnt"]), int(facts["run_time_ns"])
    return sum(runs for runs, _ in programs.values()), sum(nanos for _, nanos in programs.values()) / 1e9


def memory_mb(process, field):
    """`VmRSS`, the resident memory of a process, or `VmHWM`, its maximum."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Programs:
    """Programs that end with the run."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.running = []

    def start(self, name, *command, core=None, ends_on=signal.SIGTERM, **options):
        """Starts a program, optionally on one core. Its output goes to `NAME.log`."""
        pinned = ["taskset", "-c", core] if core is not None else []
        options = {"cwd": self.directory, "stdin": subprocess.DEVNULL} | options
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(
                [*pinned, *map(str, command)], stdout=log, stderr=log, **options)
        process.ends_on = ends_on
        self.running.append(process)
        return process

    def log(self, name):
        return self.directory / f"{name}.log"

    def run(self, name, *command, **options):
        """Runs a program to its end. Returns its output."""
        options = {"cwd": self.directory, "stdin": subprocess.DEVNULL} | options
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", **options)
        if done.returncode:
            fail(f"{name} failed:\n{done.stdout[-2000:]}")
        return done.stdout

    def check(self, name, process):
        """Ends the run if the program has ended."""
        if process.poll() is not None:
            fail(f"{name} ended with code {process.returncode}:\n{self.log(name).read_text()[-2000:]}")

    def stop(self, process):
        process.send_signal(process.ends_on)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.running.remove(process)

    def stop_all(self):
        for process in reversed(self.running[:]):
            self.stop(process)


class Sink:
    """Receives and discards what agents send (`bench/sink`)."""

    def __init__(self, programs, binary, kinds=False, core=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.path = programs.directory / "sink.json"
        self.process = programs.start("sink", binary, "--listen", f"127.0.0.1:{self.port}", "--report",
                                      self.path, *(["--kinds"] if kinds else []), core=core)
        wait_for(self.port)

    def report(self):
        """What was received, at most a second ago."""
        return json.loads(self.path.read_text())

    def counters(self):
        """The agent's counters, at most two seconds old."""
        agents = [facts for facts in self.report()["agents"].values() if facts]
        return agents[-1]["counters"] if agents else {}


def start_agent(programs, spanwise, url, *flags, core=None):
    """Starts an agent. Returns when it is capturing."""
    log = programs.log("agent")
    said = log.stat().st_size if log.exists() else 0
    agent = programs.start("agent", spanwise, "agent", "--server", url, *flags, core=core)
    end = time.monotonic() + ATTACH_SECONDS
    while b"watches this machine" not in log.read_bytes()[said:]:
        programs.check("agent", agent)
        if time.monotonic() > end:
            fail(f"the agent does not watch after {ATTACH_SECONDS} s; see {log}")
        time.sleep(0.05)
    return agent
