"""The shop as a whole: up, healthy, down."""

import fcntl
import http.client
import os
import shutil
import socket
import time

from . import databases, faults, frontdoor, layout, ports
from .layout import ShopError
from .processes import Processes, log_of, tail_of

HEALTHY_SECONDS = 30


class Shop:
    """Starts on entering, and removes everything on leaving."""

    def __init__(self, say, truth=None):
        self.say, self.truth = say, truth
        self.processes = Processes()
        self.postgres = None
        self.faults = None
        self.lock = None

    def __enter__(self):
        self._claim()
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception):
        self.stop()

    def _claim(self):
        """Checks that no other shop runs from this checkout."""
        layout.RUN.mkdir(exist_ok=True)
        layout.RUN.chmod(0o755)
        lock = open(layout.RUN / "lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ShopError(f"another shop runs from {layout.DEMO}; stop it first") from None
        self.lock = lock

    def _prepare(self):
        """Checks that the ports are free, and removes what a killed shop left."""
        taken = [(name, port, holder) for name, port in layout.PORTS.items() if (holder := ports.holder(port))]
        if taken:
            lines = [f"  port {port} (for {name}) is in use by {holder}" for name, port, holder in taken]
            raise ShopError("the shop needs these ports; stop what holds them and start again:\n" + "\n".join(lines))
        self._sweep()
        shutil.rmtree(layout.LOG, ignore_errors=True)
        layout.LOG.mkdir()
        if self.truth:
            os.makedirs(self.truth, exist_ok=True)

    def _start(self):
        self.postgres = databases.Postgres()
        self._launch(databases.redis())
        self._launch(self.postgres.service())
        self._wait("redis", _redis_answers)
        self._wait("postgres", self.postgres.accepts)
        self.postgres.load()
        services = layout.services()
        for service in services:
            self._launch(service)
        for service in services:
            self._wait(service.name, lambda name=service.name: _http_answers(layout.PORTS[name]))
        self._launch(frontdoor.nginx(self.truth))
        self._wait("nginx", lambda: _http_answers(layout.PORTS["nginx"]))
        self.faults = faults.Outside(self.processes, self.postgres.psql, self.say)
        self.faults.start()

    def _launch(self, service):
        self.processes.start(service, {"SHOP_TRUTH": str(self.truth)} if self.truth else None)

    def _wait(self, name, healthy):
        start = time.monotonic()
        while not healthy():
            gone = self.processes.ended()
            if gone:
                raise ShopError(f"{gone[0]} ended with exit code {gone[1]}; the end of {log_of(gone[0])}:\n{tail_of(gone[0])}")
            if time.monotonic() - start > HEALTHY_SECONDS:
                raise ShopError(f"{name} does not answer on port {layout.PORTS[name]} after {HEALTHY_SECONDS} s; "
                                f"the end of {log_of(name)}:\n{tail_of(name)}")
            time.sleep(0.05)
        self.say(f"{name:<11} {layout.address(name)}")

    def load(self, rate, seed):
        """Starts the load generator beside the shop."""
        self.processes.start(layout.loadgen(rate, seed))

    def stop(self):
        """Ends all processes that this started, and removes what they wrote, except for the logs.
        """
        if self.faults:
            self.faults.stop()
            self.faults = None
        self.processes.stop()
        if self.postgres:
            self.postgres.remove()
            self.postgres = None
        if self.lock:
            self._sweep()
            (layout.RUN / "lock").unlink(missing_ok=True)
            self.lock.close()
            self.lock = None

    def _sweep(self):
        for name in ("nginx", "redis", "postgres", "faults"):
            shutil.rmtree(layout.RUN / name, ignore_errors=True)


def _http_answers(port):
    connection = http.client.HTTPConnection(layout.HOST, port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _redis_answers():
    try:
        with socket.create_connection((layout.HOST, layout.PORTS["redis"]), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
