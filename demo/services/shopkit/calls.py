"""The ground truth for tests: which call was made while which one was served.

Off unless SHOP_TRUTH names a directory. Then every hop carries a random id, which identifies that
hop and says nothing about any other. Only the file written here says that call B was made while
call A was served. A tracer that watches sockets cannot see it.
"""

import contextlib
import contextvars
import json
import os
import secrets
import threading
import time

serving = contextvars.ContextVar("serving", default=None)
"""Id of the call that this thread is serving."""

_directory = os.environ.get("SHOP_TRUTH")
_service = os.environ.get("SHOP_SERVICE", "python")
_lock = threading.Lock()
_file = None


@contextlib.contextmanager
def made(kind, target):
    """Adds an id to a call that the body makes. Yields the id, or None if off."""
    if not _directory:
        yield None
        return
    call = secrets.token_hex(8)
    start = time.time_ns()
    try:
        yield call
    finally:
        _write({"service": _service, "serving": serving.get(), "made": call, "kind": kind,
                "target": target, "start_unix_nano": start, "end_unix_nano": time.time_ns()})


def in_url(url, call):
    """The URL with the call's id in its query string."""
    return url if call is None else f"{url}{'&' if '?' in url else '?'}call={call}"


def in_sql(sql, call):
    """The statement with the call's id in a comment."""
    return sql if call is None else f"{sql} /*call:{call}*/"


def _write(record):
    global _file
    with _lock:
        if _file is None:
            path = os.path.join(_directory, f"{_service}-{os.getpid()}.jsonl")
            _file = open(path, "a", buffering=1, encoding="utf-8")
        _file.write(json.dumps(record) + "\n")
