"""FastCGI encoded by hand: several requests on one connection, answered when they are done."""

import socket
import struct

from client import HOST, PORT, did, modes

PATHS = ["/index", "/missing", "/gone", "/empty", "/index-a", "/gone-bc", "/missing-def", "/index-gh"]
CODES = {"index": 200, "missing": 404, "gone": 503, "empty": 204}


def record(kind, number, content=b""):
    padding = -len(content) % 8
    return struct.pack(">BBHHBx", 1, kind, number, len(content), padding) + content + bytes(padding)


def params(path):
    pairs = {"REQUEST_METHOD": "GET", "REQUEST_URI": path, "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "shop.example"}
    return b"".join(bytes([len(name), len(value)]) + name.encode() + value.encode() for name, value in pairs.items())


def multiplexed():
    with socket.create_connection((HOST, PORT)) as client:
        for number, path in enumerate(PATHS, 1):
            # A connection that stays open.
            client.sendall(record(1, number, struct.pack(">HB5x", 1, 1)) + record(4, number, params(path))
                           + record(4, number) + record(5, number))
        stream, texts, ended = client.makefile("rb"), {}, 0
        while ended < len(PATHS):
            _, kind, number, length, padding = struct.unpack(">BBHHBx", stream.read(8))
            content = stream.read(length + padding)[:length]
            if kind == 6:
                texts[number] = texts.get(number, b"") + content
            ended += kind == 3
    for number, path in enumerate(PATHS, 1):
        head = texts.get(number, b"")
        code = int(head.split(b"Status: ")[1].split()[0])
        if code != CODES[path.strip("/").split("-")[0]]:
            raise SystemExit(f"{path} was answered with {code}")
        did(f"GET {path}", code >= 400, code, server_failed=code >= 500)


modes(multiplexed=multiplexed)
