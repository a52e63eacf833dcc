"""Sends spans of a given size as OTLP over HTTP: each is one message of JCallGraph's transfer layer."""

import http.client
import os
import time

# Processes that send, as its clients do.
SENDERS = 2
# Spans of one request; OpenTelemetry's batches are as large.
BATCH = 512
# A span without its padding: see `span`.
LEAST = 74


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, content):
    """A field of protobuf that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def fixed64(number, value):
    return varint(number << 3 | 1) + value.to_bytes(8, "little")


def text(key, value):
    """An attribute."""
    return field(1, key) + field(2, field(1, value))


def span(size, start, trace, own):
    """A server's span of `size` bytes as it stands in a batch, its tag and length included."""
    body = (field(1, trace) + field(2, own) + field(5, b"GET /item") + varint(6 << 3) + b"\x02"
            + fixed64(7, start) + fixed64(8, start + 1_000_000))
    whole = field(2, body)
    # The attribute's own bytes are found by trying: lengths are of varying length themselves.
    for padding in range(size):
        if len(whole) == size:
            return whole
        whole = field(2, body + field(9, text(b"k", b"x" * padding)))
    raise ValueError(f"a span cannot have {size} bytes; the least are about {LEAST}")


def batch(size):
    """A request of BATCH spans, and where in it the ids and times of each stand."""
    # No byte of these occurs elsewhere.
    trace, own = b"\xf1" * 16, b"\xf2" * 8
    one = span(size, 1, trace, own)
    at = one.index(trace), one.index(own), one.index((1).to_bytes(8, "little"))
    spans = one * BATCH
    scope = field(2, spans)
    resource = field(1, field(1, text(b"service.name", b"messages")))
    head = varint(1 << 3 | 2) + varint(len(resource) + len(scope)) + resource
    request = bytearray(head + scope)
    first = len(request) - len(spans)
    return request, [first + number * len(one) for number in range(BATCH)], at


def send(port, size, seconds):
    """Sends for some time, and waits for each answer. Returns the number of spans that were taken in."""
    request, places, (trace, own, start) = batch(size)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        now = time.time_ns()
        times = now.to_bytes(8, "little") + b"\x41" + (now + 1_000_000).to_bytes(8, "little")
        ids = os.urandom(24 * BATCH)
        for number, place in enumerate(places):
            random = number * 24
            request[place + trace:place + trace + 16] = ids[random:random + 16]
            request[place + own:place + own + 8] = ids[random + 16:random + 24]
            request[place + start:place + start + 17] = times
        connection.request("POST", "/v1/traces", bytes(request), {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the server answered {answer.status}: {said[:200]!r}")
        sent += BATCH
    return sent
