"""Faults that a Python service of the shop has while a file for it is in the directory SHOP_FAULTS.

The file's name is FAULT.SERVICE. `shop.py fault` writes and removes it. The faults are real: queries
are slow because PostgreSQL takes long, and threads wait because others hold what they need.
"""

import os
import random
import threading
import time

_directory = os.environ.get("SHOP_FAULTS")
_service = os.environ.get("SHOP_SERVICE", "python")
_checked, _active = 0.0, frozenset()
_lock = threading.Lock()
_hogs = []

SLOW_QUERY_SECONDS = 0.15
CRITICAL_SECONDS = 0.03
MORE_QUERIES = 12
TRIES = 4
HOGS = 3
EXHAUSTED = 1
"""Connections that an exhausted pool has left."""
TRANSACTION_SECONDS = 0.04


def active(name):
    """Whether this service has the fault now."""
    global _checked, _active
    if not _directory:
        return False
    now = time.monotonic()
    if now - _checked > 0.2:
        _checked = now
        try:
            names = os.listdir(_directory)
        except FileNotFoundError:
            names = []
        ending = f".{_service}"
        _active = frozenset(one.removesuffix(ending) for one in names if one.endswith(ending))
        if "cpu-hog" in _active and not _hogs:
            _hogs.extend(threading.Thread(target=_spin, daemon=True) for _ in range(HOGS))
            for thread in _hogs:
                thread.start()
    return name in _active


def _spin():
    """Needs the processor as long as the fault lasts."""
    while active("cpu-hog"):
        sum(number * number for number in range(20_000))
    _hogs.clear()


def before_request():
    """What a request runs into before anything else is done for it."""
    active("cpu-hog")
    if active("crash") and random.random() < 0.4:
        raise RuntimeError("the feature flag service has no value for checkout.v2")
    if active("lock-contention"):
        # Work that was thoughtlessly put into a lock that all requests need.
        with _lock:
            time.sleep(CRITICAL_SECONDS)
    if active("slow-code"):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            sorted(range(2_000), key=lambda number: -number)


def around_query(execute, sql, values):
    """Runs a statement with `execute`, and what the fault adds to it."""
    if active("slow-query") and sql.startswith("SELECT"):
        # PostgreSQL takes so much longer for the statement itself.
        sql = sql.replace("SELECT ", f"SELECT (SELECT pg_sleep({SLOW_QUERY_SECONDS})) IS NULL AS waited, ", 1)
    if active("n-plus-one"):
        for number in range(MORE_QUERIES):
            execute("SELECT name, price_cents FROM products WHERE id = %s", (number + 1,))
    if active("retry-storm"):
        for _ in range(TRIES):
            try:
                execute("SELECT 1 / (id - id) FROM products LIMIT 1", ())
            except Exception:  # the retry's own fault: it does not look at what went wrong
                continue
    return execute(sql, values)
