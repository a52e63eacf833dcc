"""The common part of the Python programs: their parameters, and the notes that they write.

A program serves `/r/TOKEN` and calls `/leaf/TOKEN`, each with a new token. It writes to a file
which calls were made for which request. Nothing that it sends contains that information.
"""

import hashlib
import os
import random
import secrets
import ssl
import threading

PORT = int(os.environ["PORT"])
LEAF_PORT = int(os.environ["LEAF_PORT"])
PARALLEL = os.environ["FAN_OUT"] == "parallel"
FRESH = os.environ["CONNECTIONS"] == "fresh"
BACKGROUND = "BACKGROUND" in os.environ
HTTP2 = os.environ["HTTP"] == "2"
CERTIFICATE = os.environ.get("CERTIFICATE")
KEY = os.environ.get("KEY")
CALLS = 3 if PARALLEL else 2
# More connections than concurrent requests, so that no call waits for one.
POOL = 1024
BACKLOG = 1024
# Interval of background calls, and the name in the notes of the request that they belong to.
BACKGROUND_SECONDS = 0.005
NOBODY = "-"

_truth = open(os.environ["TRUTH"], "a", buffering=1)
_lock = threading.Lock()


def leaf_url(token):
    return f"http{'s' if CERTIFICATE else ''}://127.0.0.1:{LEAF_PORT}/leaf/{token}"


def tokens():
    """One token for each call of a request."""
    return [secrets.token_hex(8) for _ in range(CALLS)]


def note(path, made):
    """Records the calls that were made for the request with this path."""
    with _lock:
        _truth.write(" ".join([path.rpartition("/")[2], *made]) + "\n")


def work(body=b""):
    """Uses a little processor time, like a handler."""
    return hashlib.sha256(body + bytes(4096)).hexdigest().encode()


def pause_seconds():
    return random.uniform(0, 0.002)


def server_tls():
    if not CERTIFICATE:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def client_tls():
    return ssl.create_default_context(cafile=CERTIFICATE) if CERTIFICATE else None
