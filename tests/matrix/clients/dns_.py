"""The common part of both DNS clients."""

import struct

from client import did, tool

# Only the DNS port is watched, and other programs use it, too.
HOST = "127.0.88.53"
KINDS = {"A": 1, "MX": 15, "AAAA": 28, "SRV": 33}
NAMES = [
    ("www.shop.example", "A", 0), ("missing.shop.example", "A", 3), ("www.shop.example", "AAAA", 0),
    ("elsewhere.example", "MX", 5), ("_http._tcp.shop.example", "SRV", 0), ("alias.shop.example", "A", 0),
]


def note(kind, code):
    # A missing name is no failure of the server.
    did(f"DNS {kind}", code != 0, code, server_failed=False)


def dig(*options):
    words = [word for name, kind, _ in NAMES for word in (name, kind)]
    said = tool("dig", f"@{HOST}", "-p", 53, *options, "+nocookie", *words)
    names = {"NOERROR": 0, "NXDOMAIN": 3, "REFUSED": 5}
    codes = [names[line.split("status: ")[1].split(",")[0]] for line in said.splitlines() if "status: " in line]
    for (_, kind, _), code in zip(NAMES, codes, strict=True):
        note(kind, code)


def query(number, name, kind):
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    return struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)
