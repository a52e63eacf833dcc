"""Connections of unknown protocols: an echo, SSH, and hand-written ones.

Needs OpenSSH's client and server (Debian: openssh-client, openssh-server).
"""

import os
import socket
import socketserver
import struct
import threading
import time

from relay import Relay, Server, run


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(4096):
            self.request.sendall(data)


class Greets(socketserver.BaseRequestHandler):
    """A server that sends first, and closes without reading."""

    def handle(self):
        self.request.sendall(b"\x01welcome\xff geheim")
        time.sleep(0.05)
        linger = struct.pack("ii", 1, 0)
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.request.close()


class Served:
    def __init__(self, handler):
        self.handler = handler

    def __enter__(self):
        socketserver.ThreadingTCPServer.daemon_threads = True
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self.handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def plain():
    with Served(Echo) as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            for size in (3, 700, 40_000):
                message = b"\xfe\xca" + b"geheim" * (size // 6)
                client.sendall(message)
                seen = 0
                while seen < len(message):
                    seen += len(client.recv(65536))
                time.sleep(0.01)
        # Like a health check: no data, so no span.
        socket.create_connection(("127.0.0.1", relay.port)).close()
        relay.write("tcp", "plain")


def reset():
    with Served(Greets) as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.recv(1024)
            try:
                client.recv(1024)
            except ConnectionResetError:
                pass
        relay.write("tcp", "reset")


class Sshd(Server):
    def start(self):
        os.makedirs("/run/sshd", exist_ok=True)
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / name)
        (self.directory / "user.pub").rename(self.directory / "allowed")
        return self.spawn(
            "/usr/sbin/sshd", "-D", "-p", self.port, "-f", "/dev/null",
            "-h", self.directory / "host", "-o", "ListenAddress=127.0.0.1",
            "-o", f"AuthorizedKeysFile={self.directory}/allowed", "-o", "StrictModes=no",
            "-o", "PidFile=none", "-o", "UsePAM=no",
        )


def ssh():
    with Sshd() as server:
        relay = Relay(server.port)
        run("ssh", "-F", "/dev/null", "-p", relay.port, "-i", server.directory / "user",
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "BatchMode=yes", "127.0.0.1", "echo geheim; head -c 100000 /dev/zero")
        relay.write("tcp", "ssh")


SCENARIOS = (plain, reset, ssh)
