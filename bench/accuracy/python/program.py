"""What the Python programs share: what they were told, and the truth that they
write down.

A program serves `/r/TOKEN` and makes calls of its own to `/leaf/TOKEN`, each with
a fresh token. Which calls were made for which request it writes to a file: no
byte that leaves it says so.
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
# More connections than requests at a time, so that nobody waits for one.
POOL = 1024
BACKLOG = 1024
# Of calls that are made for no request, and noted as made for this one.
BACKGROUND_SECONDS = 0.005
NOBODY = "-"

_truth = open(os.environ["TRUTH"], "a", buffering=1)
_lock = threading.Lock()


def leaf_url(token):
    return f"http{'s' if CERTIFICATE else ''}://127.0.0.1:{LEAF_PORT}/leaf/{token}"


def tokens():
    """One for each call of a request."""
    return [secrets.token_hex(8) for _ in range(CALLS)]


def note(path, made):
    """The calls that were made for the request of this path."""
    with _lock:
        _truth.write(" ".join([path.rpartition("/")[2], *made]) + "\n")


def work(body=b""):
    """A little processor time, as a handler takes."""
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
