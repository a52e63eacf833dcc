"""Slow connections, and very many connections."""

import tempfile
import time
from pathlib import Path

from target import (ANSWER_SECONDS, BODY_SECONDS, HEADER_SECONDS, IDLE_SECONDS, MEBIBYTE, Target, close, closed_within,
                    connect, is_closed)

MARGIN_SECONDS = 4


def trickle(connections, byte=b"x"):
    """Sends one more byte on each."""
    for connection in connections:
        try:
            connection.send(byte)
        except OSError:
            pass


def slow_headers(target):
    """50 incomplete headers at each port, byte by byte."""
    connections = []
    for port in target.ports().values():
        for _ in range(50):
            connection = connect(port)
            connection.send(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            connections.append(connection)
    works = target.works()
    closed = closed_within(connections, HEADER_SECONDS + MARGIN_SECONDS, lambda: trickle(connections))
    close(connections)
    return f"closed {closed} of {len(connections)} in time, others served: {works}", closed == len(connections) and works


def silent_connections(target):
    """50 silent connections at each port."""
    connections = [connect(port) for port in target.ports().values() for _ in range(50)]
    closed = closed_within(connections, HEADER_SECONDS + MARGIN_SECONDS)
    close(connections)
    return f"closed {closed} of {len(connections)} in time", closed == len(connections)


def half_headers_flood(target):
    """3,000 incomplete headers at the API from 8 addresses, more than the maximum."""
    connections, failed = [], 0
    for number in range(3000):
        try:
            connection = connect(target.http, f"127.0.0.{1 + number % 8}")
            connection.send(b"GET / HTTP/1.1\r\nHost: loc")
            connections.append(connection)
        except OSError:
            failed += 1
    open_files = target.open_files()
    time.sleep(2.2)
    works = target.works()
    closed = closed_within(connections, HEADER_SECONDS + MARGIN_SECONDS)
    close(connections)
    held = works and closed == len(connections) and open_files < 1400
    return f"had {open_files} files open, served others: {works}, closed {closed} of {len(connections)}", held


def slow_bodies(target):
    """20 bodies at each HTTP port, byte by byte."""
    paths = {target.otlp: ("/v1/traces", "application/json"), target.zipkin: ("/api/v2/spans", "application/json"),
             target.jaeger_http: ("/api/traces", "application/x-thrift"),
             target.http: ("/api/v1/sql", "text/plain")}
    connections = []
    for port, (path, kind) in paths.items():
        for _ in range(20):
            connection = connect(port)
            connection.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                            f"Spanwise-Request: 1\r\nContent-Length: 100000\r\n\r\n".encode())
            connections.append(connection)
    works = target.works()
    closed = closed_within(connections, BODY_SECONDS + IDLE_SECONDS + MARGIN_SECONDS, lambda: trickle(connections))
    close(connections)
    return f"closed {closed} of {len(connections)} in time, others served: {works}", closed == len(connections) and works


def idle_connections(target):
    """20 connections at each port that sent one request and stay open."""
    connections = []
    for port in target.ports().values():
        for _ in range(20):
            connection = connect(port)
            connection.send(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connections.append(connection)
    time.sleep(1)
    early = sum(is_closed(connection) for connection in connections)
    closed = closed_within(connections, IDLE_SECONDS + MARGIN_SECONDS)
    close(connections)
    return f"closed {early} at once, {closed} in time of {len(connections)}", early == 0 and closed == len(connections)


def unread_answers(target):
    """20 clients that request 4,000 answers each and read none."""
    before = target.rss_bytes()
    connections = []
    for _ in range(20):
        connection = connect(target.http)
        connection.settimeout(0.5)
        try:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000)
        except OSError:
            pass
        connections.append(connection)
    works = target.works()
    time.sleep(ANSWER_SECONDS + MARGIN_SECONDS)
    growth = (target.rss_bytes() - before) / MEBIBYTE
    closed = target.counter("connections_closed_answer_unread")
    close(connections)
    held = works and growth < 128 and closed >= len(connections)
    return f"closed {closed}, {growth:+.0f} MiB, others served: {works}", held


def connection_flood(target):
    """2,000 connections of one address that stay, and 5,000 short ones."""
    held = []
    for _ in range(2000):
        try:
            connection = connect(target.otlp, timeout=1)
            held.append(connection)
        except OSError:
            pass
    works = target.works()
    close(held)
    for _ in range(5000):
        try:
            connect(target.otlp, timeout=1).close()
        except OSError:
            pass
    refused = target.counter("connections_refused_address")
    again = target.works()
    return f"refused {refused}, another address served: {works}, after it: {again}", works and again and refused > 0


def out_of_descriptors(target):
    """A server with a limit of 160 open files: 300 connections at each of two ports."""
    directory = Path(tempfile.mkdtemp(prefix="spanwise-attack-"))
    small = Limited(target.program, directory / "data", directory / "log")
    small.start()
    connections = []
    try:
        for port in (small.http, small.zipkin):
            for _ in range(300):
                try:
                    connections.append(connect(port, timeout=0.5))
                except OSError:
                    pass
        before = small.cpu_seconds()
        time.sleep(3)
        busy = small.cpu_seconds() - before
        works = small.works(8)
        log = Path(small.log_path).read_text(errors="replace")
        said = "open files" in log or "as many connections" in log
        return f"{busy:.2f} CPU-seconds in 3 s, others served: {works}, said in the log: {said}", busy < 1 and works and said
    finally:
        close(connections)
        small.kill()


class Limited(Target):
    """A server with a low limit of open files."""

    def arguments(self):
        return ["prlimit", "--nofile=160:160", *super().arguments()]


ATTACKS = [slow_headers, silent_connections, half_headers_flood, slow_bodies, idle_connections, unread_answers,
           connection_flood, out_of_descriptors]
