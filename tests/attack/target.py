"""The attacked server, and helpers for attacks."""

import http.client
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from spanwise import Spanwise, binary  # noqa: E402, F401

MEBIBYTE = 2**20
# Short, so that connections that are closed too late are noticed in seconds. The defaults are
# longer.
HEADER_SECONDS, BODY_SECONDS, IDLE_SECONDS, ANSWER_SECONDS = 3, 3, 6, 3
ALLOWED_ORIGIN = "https://shop.example.org"
CONFIG = f"""
[listen]
header_time = "{HEADER_SECONDS}s"
body_time = "{BODY_SECONDS}s"
idle_time = "{IDLE_SECONDS}s"
answer_time = "{ANSWER_SECONDS}s"

[receivers]
allowed_origins = ["{ALLOWED_ORIGIN}"]
"""


class Target(Spanwise):
    """A separate server, with one address for attackers and one for others."""

    def __init__(self, program, data, log):
        config = Path(data).with_suffix(".toml")
        config.write_text(CONFIG)
        super().__init__(program, data, log, command="server", config=config)
        self.jaeger_grpc, self.jaeger_http = self.jaeger[:2]
        self.spans_sent = 0

    def ports(self):
        """Every TCP port by name."""
        return {"api": self.http, "otlp-grpc": self.grpc, "otlp-http": self.otlp, "zipkin": self.zipkin,
                "jaeger-grpc": self.jaeger_grpc, "jaeger-http": self.jaeger_http}

    def counter(self, name):
        return self.get("status")["ingest"]["counters"][name]

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def works(self, seconds=5):
        """Whether a span from another address is accepted and the API answers, in time."""
        start = time.monotonic()
        try:
            self.spans_sent += 1
            status, _, _ = ask(self.otlp, "POST", "/v1/traces", {"Content-Type": "application/json"},
                               otlp_json(self.spans_sent), source="127.0.0.99", timeout=seconds)
            answered, _, _ = ask(self.http, "GET", "/api/v1/services", source="127.0.0.99", timeout=seconds)
            return status == 200 and answered == 200 and time.monotonic() - start < seconds
        except OSError:
            return False


def otlp_json(number, name="good", attributes=(), service="attack"):
    """A request with one span, as bytes."""
    now = time.time_ns()
    span = {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": name, "kind": 2,
            "startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 1000), "attributes": list(attributes)}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}).encode()


def ask(port, method, path, headers=None, body=None, source=None, timeout=15):
    """Sends a request over HTTP/1.1. Returns status, headers and body."""
    where = (source, 0) if source else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout, source_address=where)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def connect(port, source="127.0.0.1", timeout=5):
    made = socket.socket()
    made.settimeout(timeout)
    made.bind((source, 0))
    made.connect(("127.0.0.1", port))
    return made


def is_closed(connection):
    """Whether the server has closed it. Discards what it sent before."""
    connection.setblocking(False)
    try:
        while True:
            if not connection.recv(65536):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def closed_within(connections, seconds, meanwhile=lambda: None):
    """How many connections the server has closed by the deadline."""
    deadline = time.monotonic() + seconds
    left = list(connections)
    while left and time.monotonic() < deadline:
        meanwhile()
        left = [connection for connection in left if not is_closed(connection)]
        time.sleep(0.2)
    return len(connections) - len(left)


def close(connections):
    for connection in connections:
        connection.close()


def grpc_message(message, flag=0, length=None):
    return struct.pack(">BI", flag, len(message) if length is None else length) + message


GRPC = {"Content-Type": "application/grpc", "TE": "trailers"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
