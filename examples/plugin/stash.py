#!/usr/bin/env python3
"""Stash: a small invented protocol, with its server and client.

    stash.py serve PORT        answers until it is stopped
    stash.py use PORT          sends one of each request

stash.c describes the messages. A watch request is answered after the next request for a bucket, so
answers come in another order than requests.
"""

import socket
import struct
import sys
import threading

REQUEST, ANSWER, ANSWER_PART, NOTICE, PING = 1, 2, 3, 4, 5
OK, NOT_FOUND, UNKNOWN = 0, 404, 400


def message(kind, number, body=b""):
    return b"ST" + struct.pack("!BBII", 1, kind, number, len(body)) + body


def short(text):
    return struct.pack("!B", len(text)) + text.encode()


def request(number, operation, bucket="", value=b"", trace_parent="", kind=REQUEST):
    return message(kind, number, short(operation) + short(bucket) + short(trace_parent) + value)


def exactly(connection, count):
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def receive(connection):
    """Returns the next message: its kind, its number and its body."""
    _, _, kind, number, length = struct.unpack("!2sBBII", exactly(connection, 12))
    return kind, number, exactly(connection, length)


def texts(body, count):
    found, at = [], 0
    for _ in range(count):
        length = body[at]
        found.append(body[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return found, body[at:]


class Stash:
    def __init__(self):
        self.values = {}

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send = connection.sendall
        watching = []

        def answer(number, status=OK, value=b"", error=""):
            send(message(ANSWER, number, struct.pack("!H", status) + short(error) + value))

        try:
            while True:
                kind, number, body = receive(connection)
                if kind == PING:
                    send(message(PING, number))
                    continue
                (operation, bucket, _), value = texts(body, 3)
                if operation == "put":
                    self.values[bucket] = value
                    answer(number)
                elif operation == "get" and bucket in self.values:
                    answer(number, value=self.values[bucket])
                elif operation == "get":
                    answer(number, NOT_FOUND, error="no_such_bucket")
                elif operation == "scan":
                    for part in range(3):
                        send(message(ANSWER_PART, number, b"p" * 1000 * (part + 1)))
                    answer(number)
                elif operation == "watch":
                    watching.append(number)
                elif kind == REQUEST:
                    answer(number, UNKNOWN, error="unknown_operation")
                # The latest watcher is answered first.
                while watching and operation in ("put", "get"):
                    answer(watching.pop())
        except (EOFError, ConnectionError):
            connection.close()


def serve(port):
    stash = Stash()
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=stash.serve, args=(connection,), daemon=True).start()


def use(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(number, *args, **kwargs):
            connection.sendall(request(number, *args, **kwargs))
            return answered()

        def answered():
            while True:
                kind, number, body = receive(connection)
                if kind == ANSWER:
                    return number, struct.unpack("!H", body[:2])[0]

        trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        connection.sendall(message(PING, 0))
        receive(connection)
        assert ask(1, "put", "apples", b"x" * 5000, trace_parent) == (1, OK)
        assert ask(2, "get", "apples") == (2, OK)
        assert ask(3, "get", "pears") == (3, NOT_FOUND)
        assert ask(4, "scan", "apples") == (4, OK)
        connection.sendall(request(0, "forget", "apples", kind=NOTICE))
        # Three requests in one write. The first is answered last.
        three = [("watch", "a"), ("watch", "b"), ("get", "apples")]
        batch = enumerate(three, start=10)
        connection.sendall(b"".join(request(number, *what) for number, what in batch))
        assert [answered()[0] for _ in three] == [12, 11, 10]
        assert ask(20, "dance") == (20, UNKNOWN)


if __name__ == "__main__":
    {"serve": serve, "use": use}[sys.argv[1]](int(sys.argv[2]))
