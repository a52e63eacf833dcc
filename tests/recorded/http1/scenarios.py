"""HTTP/1.1: nginx and Python's server, with curl and hand-written requests."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from relay import Relay, run
from servers import Nginx


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/upgrade"):
            self.send_response(101)
            self.send_header("Upgrade", "echo")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(b"\x81\x05hello")
            self.close_connection = True
            return
        if self.path.startswith("/events"):
            # Server-sent events, each in its own chunk.
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(5):
                event = b"data: %d\n\n" % number
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                time.sleep(0.06)
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.headers["If-None-Match"]:
            # The following headers describe the body that is not sent.
            self.send_response(304)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            return
        if self.path.startswith("/close"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 3000)
            self.close_connection = True
            return
        if self.path.startswith("/half"):
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b"x" * 2000)
            self.close_connection = True
            return
        if self.path.startswith("/none"):
            self.close_connection = True
            return
        sizes = [5, 3000, 20000, 17] if self.path.startswith("/chunks") else [4]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Request-ID", "from-response")
        self.end_headers()
        for size in sizes:
            self.wfile.write(b"%x\r\n%s\r\n" % (size, b"y" * size))
            time.sleep(0.002)
        self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"ok":true}'
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Python:
    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def curl(relay, *arguments):
    urls = [f"http://127.0.0.1:{relay.port}{a}" if a.startswith("/") else a for a in arguments]
    run("curl", "-s", *urls)


def keep_alive():
    with Nginx() as server:
        relay = Relay(server.port)
        curl(relay, "/?q=1&token=hunter2", "/missing/42", "/gone", "/empty",
             "-H", "Authorization: Bearer hunter2", "-H", "Cookie: session=hunter2",
             "-H", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "-H", "X-Request-ID: abc-1")
        curl(relay, "-I", "/index.html", "/index.html")
        curl(relay, "/large.bin", "/index.html")
        relay.write("http1", "keep_alive")


def pipelined():
    with Nginx() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"".join(
                b"%s /index.html?n=%d HTTP/1.1\r\nHost: shop.example:8000\r\n\r\n" % (method, n)
                for n, method in enumerate([b"GET", b"HEAD", b"GET"])
            ) + b"GET /gone HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
            while client.recv(65536):
                pass
        relay.write("http1", "pipelined")


def at_once():
    """More responses in one write than are captured, and then the end."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        near, _ = listener.accept()
        with near:
            asked = b""
            while asked.count(b"\r\n\r\n") < 5:
                asked += near.recv(65536)
            near.sendall(b"".join(
                b"HTTP/1.1 %d x\r\nContent-Length: 200\r\nServer: %s\r\n\r\n%s" % (code, b"s" * 60, b"x" * 200)
                for code in (200, 404, 200, 503, 200)))

    threading.Thread(target=serve, daemon=True).start()
    relay = Relay(listener.getsockname()[1])
    with socket.create_connection(("127.0.0.1", relay.port)) as client:
        client.sendall(b"".join(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % name
                                for name in (b"one", b"two", b"three", b"four", b"five")))
        while client.recv(65536):
            pass
    relay.write("http1", "at_once")


def bodies():
    with Python() as server:
        relay = Relay(server.port)
        curl(relay, "/chunks", "/small", "-H", "b3: 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1")
        curl(relay, "-H", "Expect: 100-continue", "-d", "a" * 5000, "/orders/42/items")
        curl(relay, "/close")
        curl(relay, "/half")
        curl(relay, "/none")
        relay.write("http1", "bodies")


def bodiless():
    with Python() as server:
        relay = Relay(server.port)
        curl(relay, "-H", "If-None-Match: x", "/a", "/b")
        curl(relay, "-I", "/c", "/d")
        curl(relay, "/events", "/after")
        relay.write("http1", "bodiless")


def upgrade():
    with Python() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"GET /upgrade HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
            time.sleep(0.1)
            client.sendall(b"\x81\x85\0\0\0\0GET / HTTP/1.1\r\n\r\n")
            while client.recv(65536):
                pass
        relay.write("http1", "upgrade")


SCENARIOS = (keep_alive, pipelined, at_once, bodies, bodiless, upgrade)
