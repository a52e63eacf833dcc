"""The services of a topology: JVMs that are started with a way to trace them, and ended."""

import pathlib
import socket
import subprocess
import time

from host import ROOT  # noqa: F401  (finds the modules of bench/)
from programs import cpu_seconds, fail, free_port
from tracers import CLASS_PATH, TITLES, tracer

TOPOLOGIES = {"low": 4, "middle": 11, "high": 28}
# How services are traced here. Micrometer Tracing with Brave is what became of Sleuth.
WAYS = ("none", "micrometer", "otel-agent", "skywalking", "spanwise", "zero-code")
START_SECONDS = 180
# Heap of a JVM, and of each service in it.
HEAP_MB, HEAP_OF_SERVICE_MB = 48, 24


def title(way):
    return "Micrometer, Brave" if way == "micrometer" else TITLES[way]


def missing(way, server):
    """Why a way cannot run here; empty if it can."""
    return "" if way in ("micrometer", "zero-code") else tracer(way, server).missing


class Fleet:
    """All services of a topology, traced in one way. A turn with zero-code capture has the fleet of `none`."""

    def __init__(self, options, directory, topology, way, server, sampled=1.0, services_per_jvm=7):
        self.options, self.way, self.topology = options, way, topology
        self.port = free_range(TOPOLOGIES[topology])
        self.processes = []
        name = "none" if way in ("micrometer", "zero-code") else way
        flags = tracer(name, server, service=topology, sampled=sampled).flags
        for first in range(0, TOPOLOGIES[topology], services_per_jvm):
            count = min(services_per_jvm, TOPOLOGIES[topology] - first)
            self.processes.append(start(options, directory, f"{topology}-{way}-{sampled:g}-{first}", [
                *flags, *heap(count), f"-XX:SharedArchiveFile={archive(options, directory)}"],
                topology, self.port, first, count, "micrometer" if way == "micrometer" else "none"))
        for process in self.processes:
            wait(options, process)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/rest/"

    def cpu_seconds(self):
        return sum(map(cpu_seconds, self.processes))

    def stop(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            self.options.programs.stop(process)


def heap(services):
    size = HEAP_MB + HEAP_OF_SERVICE_MB * services
    return [f"-Xms{size}m", f"-Xmx{size}m", "-Xss512k", "-XX:+UseSerialGC"]


def free_range(count):
    """The first of ports that are free one after the other."""
    while True:
        first = free_port()
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except (OSError, OverflowError):
            continue


def start(options, directory, name, flags, *arguments):
    # An earlier one of the same name may have said that it is ready.
    log = options.programs.log(name)
    said = log.stat().st_size if log.exists() else 0
    process = options.programs.start(name, "java", *flags, "-cp", CLASS_PATH, "bench.topology.Services", *arguments,
                                     stdin=subprocess.PIPE)
    process.name, process.said = name, said
    return process


def wait(options, process):
    """Until all services of a JVM answer."""
    end = time.monotonic() + START_SECONDS
    log = options.programs.log(process.name)
    while b"ready\n" not in log.read_bytes()[process.said:]:
        options.programs.check(process.name, process)
        if time.monotonic() > end:
            fail(f"{process.name} is not ready after {START_SECONDS} s; see {log}")
        time.sleep(0.1)


def archive(options, directory):
    """Class data that JVMs share: made once, by a run of one service. It spares each JVM a second of its start."""
    path = pathlib.Path(directory) / "services.jsa"
    if not path.exists():
        process = start(options, directory, "archive", [*heap(1), f"-XX:ArchiveClassesAtExit={path}"], "low", free_range(4),
                        3, 1, "none")
        wait(options, process)
        process.stdin.close()
        process.wait(timeout=START_SECONDS)
        options.programs.running.remove(process)
        if not path.exists():
            fail(f"no archive of classes was made; see {options.programs.log('archive')}")
    return path
