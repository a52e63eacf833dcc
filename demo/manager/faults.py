"""Faults of the shop, switched on and off while it runs.

A fault is a file FAULT.SERVICE in demo/.run/faults. Python services look there themselves
(services/shopkit/faults.py). The others are made from outside, by the shop that runs: through
PostgreSQL, Redis, signals and the packet filter.
"""

import os
import signal
import socket
import subprocess
import threading
import time

from . import layout
from .layout import ShopError

DIRECTORY = layout.RUN / "faults"

PYTHON = ("catalog", "stock", "ledger")
ALL = ("storefront", "catalog", "cart", "orders", "payments", "stock", "ledger")
WRITERS = {"orders": "orders", "stock": "movements", "ledger": "ledger"}

IN_SERVICES = {
    "slow-code": ("computes for 20 ms for each request", PYTHON),
    "lock-contention": ("lets all requests wait for one lock", PYTHON),
    "cpu-hog": ("has threads that never rest", PYTHON),
    "n-plus-one": ("asks PostgreSQL once for each row", PYTHON),
    "retry-storm": ("repeats a failing statement at once", PYTHON),
    "exhausted-pool": ("has one connection to PostgreSQL left, and slow transactions", PYTHON),
    "crash": ("fails for two of five requests", PYTHON),
}
FROM_OUTSIDE = {
    "slow-query": ("waits 150 ms for PostgreSQL in a query of its own", ("catalog", "orders", "stock", "ledger")),
    "failing-dependency": ("gets an error from PostgreSQL for every write", tuple(WRITERS)),
    "table-lock": ("waits for a table that a long transaction has locked", ("catalog", *WRITERS)),
    "pauses": ("stands still for 200 ms each second, as in a collection of garbage", ALL),
    "throttled": ("gets the processor for a fifth of the time", ALL),
    "packet-loss": ("loses 8 % of the packets that it is sent", ALL),
    "expired-cache": ("finds nothing in Redis", ("stock",)),
}
KINDS = IN_SERVICES | FROM_OUTSIDE


def switch(name, state, service):
    """Switches a fault of a running shop."""
    if name not in KINDS:
        raise ShopError(f"there is no fault {name}; known: {', '.join(KINDS)}")
    services = KINDS[name][1]
    if service not in services:
        raise ShopError(f"{name} is a fault of {', '.join(services)}, not of {service}")
    if not DIRECTORY.is_dir():
        raise ShopError("no shop runs from here; start it with `shop.py up`")
    path = DIRECTORY / f"{name}.{service}"
    if state == "on":
        path.touch()
    else:
        path.unlink(missing_ok=True)


def listing():
    """All faults, as lines for people."""
    return [f"{name:<20}{text}  ({', '.join(services)})" for name, (text, services) in KINDS.items()]


class Outside:
    """Makes the faults that are not in the services' own code."""

    def __init__(self, processes, psql, say):
        self.processes, self.psql, self.say = processes, psql, say
        self.active = {}
        self.ending = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def start(self):
        DIRECTORY.mkdir(exist_ok=True)
        for path in DIRECTORY.iterdir():
            path.unlink()
        self.watcher.start()

    def stop(self):
        """Ends all faults."""
        self.ending.set()
        if self.watcher.is_alive():
            self.watcher.join(10)

    def _watch(self):
        while not self.ending.wait(0.2):
            self._follow({path.name for path in DIRECTORY.iterdir()})
        self._follow(set())

    def _follow(self, wanted):
        for key in [*self.active]:
            if key not in wanted:
                self._undo(key)
        for key in wanted - self.active.keys():
            name, _, service = key.partition(".")
            if name not in FROM_OUTSIDE:
                continue
            try:
                self.active[key] = _START[name](self, service)
                self.say(f"{service} {FROM_OUTSIDE[name][0]}")
            except (OSError, ShopError, subprocess.SubprocessError) as error:
                self.active[key] = None
                self.say(f"cannot make {name} of {service}: {error}")

    def _undo(self, key):
        undo = self.active.pop(key)
        if undo:
            undo()

    def _sql(self, statement):
        done = self.psql("shop", "-c", statement)
        if done.returncode:
            raise ShopError(done.stdout.strip())

    def _repeat(self, body):
        """Calls `body` until the fault ends."""
        ending = threading.Event()

        def run():
            while not ending.is_set():
                try:
                    body(ending)
                except (OSError, ShopError, subprocess.SubprocessError) as error:
                    self.say(f"a fault has failed: {error}")
                    ending.wait(1)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def undo():
            ending.set()
            thread.join(10)
        return undo

    def _trigger(self, service, body):
        table = WRITERS[service]
        self._sql(f"CREATE OR REPLACE FUNCTION fault_{table}() RETURNS trigger LANGUAGE plpgsql AS "
                  f"$$ BEGIN {body} RETURN NEW; END $$; CREATE OR REPLACE TRIGGER fault BEFORE INSERT ON {table} "
                  f"FOR EACH ROW EXECUTE FUNCTION fault_{table}()")
        return lambda: self._sql(f"DROP TRIGGER IF EXISTS fault ON {table}")

    def slow_query(self, service):
        if service == "catalog":
            return None  # its own: it only reads
        return self._trigger(service, "PERFORM pg_sleep(0.15);")

    def failing_dependency(self, service):
        return self._trigger(service, "RAISE EXCEPTION 'could not extend file: no space left on device' "
                                      "USING ERRCODE = '53100';")

    def table_lock(self, service):
        table = WRITERS.get(service, "products")

        def body(ending):
            self._sql(f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(0.3); COMMIT")
            ending.wait(0.3)
        return self._repeat(body)

    def _process(self, service):
        for one, process in self.processes.running:
            if one.name == service:
                return process.pid
        raise ShopError(f"{service} does not run")

    def _stopping(self, service, still, running):
        pid = self._process(service)

        def body(ending):
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(still)
            finally:
                os.kill(pid, signal.SIGCONT)
            ending.wait(running)
        return self._repeat(body)

    def pauses(self, service):
        return self._stopping(service, 0.2, 0.8)

    def throttled(self, service):
        return self._stopping(service, 0.02, 0.005)

    def packet_loss(self, service):
        port = layout.PORTS[service]
        table = f"shop_fault_{service}"
        rules = (f"table inet {table} {{\n chain input {{\n type filter hook input priority 0\n"
                 f"tcp dport {port} numgen random mod 100 < 8 drop\n }}\n}}\n")
        done = subprocess.run(["nft", "-f", "-"], input=rules, text=True, capture_output=True)
        if done.returncode:
            raise ShopError(f"nft says {done.stderr.strip()}; it needs root and the package nftables")
        return lambda: subprocess.run(["nft", "delete", "table", "inet", table], capture_output=True)

    def expired_cache(self, service):
        def body(ending):
            with socket.create_connection((layout.HOST, layout.PORTS["redis"]), timeout=2) as connection:
                while not ending.wait(0.02):
                    connection.sendall(b"EVAL \"for _, key in ipairs(redis.call('KEYS', 'stock:*')) do "
                                       b"redis.call('DEL', key) end\" 0\r\n")
                    connection.recv(64)
        return self._repeat(body)


_START = {name: getattr(Outside, name.replace("-", "_")) for name in FROM_OUTSIDE}
