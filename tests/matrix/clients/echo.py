"""An unknown protocol: an echo."""

import socket
import socketserver

from client import CERTIFICATE, HOST, PORT, context, did, modes


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        near = context().wrap_socket(self.request, server_side=True) if CERTIFICATE else self.request
        while data := near.recv(65536):
            near.sendall(data)


def serve():
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer((HOST, PORT), Echo) as server:
        server.serve_forever()


def sequential():
    for _ in range(3):
        with socket.create_connection((HOST, PORT)) as plain:
            client = context().wrap_socket(plain, server_hostname=HOST) if CERTIFICATE else plain
            for size in (3, 700, 40_000):
                message = b"\xfe\xca" + b"geheim" * (size // 6)
                client.sendall(message)
                seen = 0
                while seen < len(message):
                    seen += len(client.recv(65536))
        did("TCP")


modes(serve=serve, sequential=sequential)
