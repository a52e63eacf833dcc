"""DNS over UDP: sequential queries with dig, and concurrent ones."""

import socket

from dns_ import HOST, KINDS, NAMES, dig, note, query
from client import modes


def sequential():
    dig()


def multiplexed():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((HOST, 53))
        for number, (name, kind, _) in enumerate(NAMES):
            client.send(query(number, name, KINDS[kind]))
        codes = {}
        while len(codes) < len(NAMES):
            answer = client.recv(4096)
            codes[int.from_bytes(answer[:2])] = answer[3] & 15
    for number, (_, kind, _) in enumerate(NAMES):
        note(kind, codes[number])


modes(sequential=sequential, multiplexed=multiplexed)
