"""DNS over TCP: sequential queries with dig, and pipelined ones."""

import socket
import struct

from client import modes
from dns_ import HOST, KINDS, NAMES, dig, note, query


def sequential():
    dig("+tcp", "+keepopen")


def multiplexed():
    codes = {}
    with socket.create_connection((HOST, 53)) as client:
        asked = [query(number, name, KINDS[kind]) for number, (name, kind, _) in enumerate(NAMES)]
        client.sendall(b"".join(struct.pack(">H", len(one)) + one for one in asked))
        stream = client.makefile("rb")
        while len(codes) < len(NAMES):
            answer = stream.read(int.from_bytes(stream.read(2)))
            codes[int.from_bytes(answer[:2])] = answer[3] & 15
    for number, (_, kind, _) in enumerate(NAMES):
        note(kind, codes[number])


modes(sequential=sequential, multiplexed=multiplexed)
