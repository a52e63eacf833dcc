"""Small bodies that expand, or are not what they claim."""

import gzip
import json
import os
import socket
import struct
import time

from target import EXPORT, GRPC, MEBIBYTE, ask, close, connect, grpc_message, otlp_json

JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
DO_PUT = "/arrow.flight.protocol.FlightService/DoPut"


def measured(target, attack, growth_mebibytes=192, cpu_seconds=8):
    """Runs an attack: the responses, the cost, and whether others were served."""
    cpu, rss, start = target.cpu_seconds(), target.rss_bytes(), time.monotonic()
    answered, right = attack()
    works = target.works()
    cpu, growth = target.cpu_seconds() - cpu, (target.rss_bytes() - rss) / MEBIBYTE
    said = (f"{answered}; {time.monotonic() - start:.1f} s, {cpu:.1f} CPU-seconds, {growth:+.0f} MiB, "
            f"others served: {works}")
    return said, right and works and growth < growth_mebibytes and cpu < cpu_seconds


def zstd_zeros(mebibytes):
    """A zstd frame of zeros: blocks that repeat one byte (RFC 8878, section 3.1.1.2)."""
    size = 128 << 10
    block = struct.pack("<I", 1 << 1 | size << 3)[:3] + b"\x00"
    last = struct.pack("<I", 1 | 1 << 1 | size << 3)[:3] + b"\x00"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (mebibytes * 8 - 1) + last


def bombs(target):
    """1 GiB of zeros with gzip and zstd, at every port that accepts compressed bodies."""
    zeros = {"gzip": gzip.compress(bytes(1 << 30), 1), "zstd": zstd_zeros(1024)}
    places = [(target.otlp, "/v1/traces", "application/x-protobuf"), (target.otlp, "/v1/traces", "application/json"),
              (target.zipkin, "/api/v2/spans", "application/json"),
              (target.jaeger_http, "/api/traces", "application/x-thrift")]

    def attack():
        statuses = []
        for encoding, body in zeros.items():
            for port, path, kind in places:
                headers = {"Content-Type": kind, "Content-Encoding": encoding}
                statuses.append(ask(port, "POST", path, headers, body)[0])
            call = grpc_message(body, 1)
            _, headers, _ = ask(target.grpc, "POST", EXPORT, {**GRPC, "grpc-encoding": encoding}, call)
            statuses.append(f"grpc {headers['grpc-status']}")
        return statuses, all(status in (413, "grpc 3", "grpc 8") for status in statuses)

    # The limit for all requests together is 512 MiB.
    return measured(target, attack, growth_mebibytes=512, cpu_seconds=12)


def deep_json(target):
    """JSON nested 200,000 deep, as a whole and as an attribute, over OTLP and Zipkin."""
    deep = b"[" * 200_000 + b"]" * 200_000
    value = b'{"arrayValue":{"values":[' * 5_000 + b"]}}" * 5_000
    span = otlp_json(1).replace(b'"attributes": []', b'"attributes":[{"key":"a","value":' + value + b"}]")
    zipkin = b'[{"traceId":"1","id":"1","tags":{"a":' + deep + b"}}]"

    def attack():
        statuses = [ask(port, "POST", path, JSON, body)[0] for port, path, body in (
            (target.otlp, "/v1/traces", deep), (target.otlp, "/v1/traces", b'{"resourceSpans":' + deep + b"}"),
            (target.otlp, "/v1/traces", span), (target.zipkin, "/api/v2/spans", zipkin),
            (target.zipkin, "/api/v2/spans", deep))]
        return statuses, all(status == 400 for status in statuses)

    return measured(target, attack)


def many_attributes(target):
    """Spans with 200,000 distinct attributes, eight of them."""
    attributes = [{"key": f"key.{number}", "value": {"stringValue": f"value {number}"}} for number in range(60_000)]
    numbers = [int.from_bytes(os.urandom(7)) for _ in range(8)]

    def attack():
        bodies = [otlp_json(number, attributes=attributes) for number in numbers]
        statuses = [ask(target.otlp, "POST", "/v1/traces", JSON, body)[0] for body in bodies]
        span = target.get(f"traces/{numbers[0]:032x}")["spans"][0]
        attributes_kept = len(span["attributes"])
        dropped = target.counter("attributes_dropped_limit")
        said = f"{statuses}, kept {attributes_kept}, counted {dropped}"
        return said, set(statuses) == {200} and attributes_kept <= 1025 and dropped >= 8 * (60_000 - 1024)

    return measured(target, attack)


def long_texts(target):
    """Names of a service and of an operation of 1 MiB each, and 1 MiB in an attribute."""
    number = int.from_bytes(os.urandom(7))
    attribute = [{"key": "long", "value": {"stringValue": "x" * MEBIBYTE}}]
    body = otlp_json(number, name="n" * MEBIBYTE, service="s" * MEBIBYTE, attributes=attribute)

    def attack():
        status, _, _ = ask(target.otlp, "POST", "/v1/traces", JSON, body)
        services = [one["name"] for one in target.get("services")["services"]]
        cut = target.counter("texts_cut")
        longest = max(map(len, services))
        return f"{status}, longest service name {longest}, counted {cut}", status == 200 and longest <= 1024 and cut >= 3

    return measured(target, attack)


def compressed_without_encoding(target):
    """gRPC messages with the compression flag, in calls without an encoding."""
    def attack():
        statuses = []
        for port, path in ((target.grpc, EXPORT), (target.jaeger_grpc, "/jaeger.api_v2.CollectorService/PostSpans")):
            _, headers, _ = ask(port, "POST", path, GRPC, grpc_message(b"anything", 1))
            statuses.append(headers["grpc-status"])
        return f"grpc-status {statuses}", set(statuses) == {"13"}

    return measured(target, attack)


def lying_lengths(target):
    """A gRPC message that claims 4 GiB, protobuf fields that claim more than exists, and endless
    chunks.
    """
    def attack():
        _, headers, _ = ask(target.grpc, "POST", EXPORT, GRPC, grpc_message(b"x", 0, 0xFFFFFFFF))
        status, _, _ = ask(target.otlp, "POST", "/v1/traces", PROTOBUF, b"\x0a\xff\xff\xff\xff\x0f")
        huge, _, _ = ask(target.otlp, "POST", "/v1/traces", {**JSON, "Content-Length": str(1 << 40)}, None)
        answers = [headers["grpc-status"], status, huge]
        return answers, answers == ["3", 400, 413]

    return measured(target, attack)


def facts_bombs(target):
    """2,000 agents that report facts of 60 KiB each."""
    facts = json.dumps({f"k{number}": number for number in range(4_000)}).encode()

    def attack():
        for _ in range(2000):
            metadata = os.urandom(16) + struct.pack("<Q", 0) + facts
            message = b"\x1a" + varint(len(metadata)) + metadata
            ask(target.grpc, "POST", DO_PUT, GRPC, grpc_message(message))
        start = time.monotonic()
        _, _, body = ask(target.http, "GET", "/api/v1/status", timeout=30)
        seconds = time.monotonic() - start
        forgotten = target.counter("agents_forgotten")
        said = f"status has {len(body) / MEBIBYTE:.1f} MiB in {seconds:.1f} s, {forgotten} agents forgotten and counted"
        return said, len(body) < 48 * MEBIBYTE and seconds < 5 and forgotten >= 900

    return measured(target, attack, cpu_seconds=30)


def large_traces_unread(target):
    """60 clients that request a trace of 40,000 spans and read nothing, and 60 that download it."""
    number = int.from_bytes(os.urandom(7))
    for part in range(20):
        request = json.loads(otlp_json(number, attributes=[{"key": "text", "value": {"stringValue": "x" * 200}}]))
        spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        spans[:] = [{**spans[0], "spanId": f"{part * 2000 + index + 1:016x}"} for index in range(2000)]
        ask(target.otlp, "POST", "/v1/traces", JSON, json.dumps(request).encode())

    def attack():
        connections = []
        for query in ("limit=20000", "download=1"):
            for _ in range(60):
                connection = connect(target.http)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                path = f"/api/v1/traces/{number:032x}?{query}"
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                connections.append(connection)
        before, peak, slowest = target.rss_bytes(), 0, 0
        for _ in range(15):
            start = time.monotonic()
            if not target.works():
                return "others are not served", False
            slowest = max(slowest, time.monotonic() - start)
            peak = max(peak, target.rss_bytes() - before)
            time.sleep(0.5)
        close(connections)
        return f"others waited {slowest:.1f} s at most, {peak / MEBIBYTE:+.0f} MiB at most", peak < 768 * MEBIBYTE

    return measured(target, attack, growth_mebibytes=768, cpu_seconds=60)


def varint(number):
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


ATTACKS = [bombs, deep_json, many_attributes, long_texts, compressed_without_encoding, lying_lengths, facts_bombs,
           large_traces_unread]
