"""dnsmasq with dig, the C library and Go.

Needs dnsmasq and dig (Debian: dnsmasq-base, bind9-dnsutils), Go, and for the C library root, to
set the server for its own process only.
"""

import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time

from relay import DatagramRelay, run
from servers import Dnsmasq

HERE = pathlib.Path(__file__).parent


def dig(relay, *words):
    run("dig", "-p", relay.port, "@127.0.0.1", *words)


def query(number, name, kind):
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b"."))
    return struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)


def digs():
    with Dnsmasq() as server:
        relay = DatagramRelay(server.port)
        dig(relay, "www.shop.example")
        dig(relay, "www.shop.example", "AAAA")
        dig(relay, "alias.shop.example")
        dig(relay, "_http._tcp.shop.example", "SRV")
        dig(relay, "-x", "10.1.2.3")
        dig(relay, "missing.shop.example")
        dig(relay, "elsewhere.example")
        dig(relay, "+noedns", "www.shop.example", "TYPE4711")
        # Too long for UDP, so repeated over TCP.
        dig(relay, "+bufsize=512", "large.shop.example", "TXT")
        dig(relay, "+tcp", "www.shop.example", "www.shop.example", "MX")
        dig(relay, "+tcp", "+keepopen", "www.shop.example", "missing.shop.example", "AAAA")
        relay.write("dns", "digs")


def by_hand():
    """Pipelined, repeated and unanswered queries."""
    with Dnsmasq() as server:
        relay = DatagramRelay(server.port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", relay.port))
            # Answered out of order, by id; two with the same id.
            for number, name in ((1, b"www.shop.example"), (2, b"missing.shop.example"),
                                 (1, b"alias.shop.example")):
                client.send(query(number, name, 1))
            for _ in range(3):
                client.recv(4096)
            # No answer, sent three times.
            for _ in range(3):
                client.send(query(3, b"www.slow.example", 1))
                time.sleep(0.05)
            client.send(query(4, b"www.shop.example", 28))
            client.recv(4096)
            client.send(b"geheim, and no DNS")
            client.send(query(5, b"www.shop.example", 1)[:-3])
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            # Both in one write, the second split.
            both = b"".join(struct.pack(">H", len(q)) + q for q in (
                query(7, b"www.shop.example", 1), query(8, b"many.shop.example", 1)))
            client.sendall(both[:-9])
            time.sleep(0.05)
            client.sendall(both[-9:])
            seen = b""
            while len(seen) < 2 * (2 + 12 + 22 + 16):
                seen += client.recv(4096)
        relay.write("dns", "by_hand")


def libraries():
    with Dnsmasq() as server, tempfile.TemporaryDirectory(prefix="record-") as directory:
        program = pathlib.Path(directory) / "resolve"
        subprocess.run(["go", "build", "-o", program, HERE / "resolve.go"], check=True)
        relay = DatagramRelay(server.port)
        run(program, f"127.0.0.1:{relay.port}")
        relay.write("dns", "go")
        address = f"127.{random.randrange(1, 255)}.0.53"
        relay = DatagramRelay(server.port, address, 53)
        configuration = pathlib.Path(directory) / "resolv.conf"
        configuration.write_text(f"nameserver {address}\nsearch shop.example\n")
        ask = "import socket\nfor name in ('www', 'missing'):\n try: socket.getaddrinfo(name, 80)\n except OSError: pass"
        run("unshare", "--mount", "sh", "-c",
            f'mount --bind {configuration} /etc/resolv.conf && exec "$@"', "sh",
            sys.executable, "-c", ask)
        relay.write("dns", "libc")


SCENARIOS = (digs, by_hand, libraries)
