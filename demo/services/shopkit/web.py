"""An HTTP server with one thread for each connection, and an HTTP client with a connection pool.
JSON in, JSON out.
"""

import http.client
import json
import os
import queue
import re
import signal
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from . import calls, faults


class Request:
    """A route's input: groups of its path, query and body."""

    def __init__(self, groups, query, body):
        self.groups, self.query, self.body = groups, query, body


class App:
    """Routes: `@app.route("GET", "/things/(\\d+)")` on a function that takes a
    Request and returns (status, JSON value)."""

    def __init__(self):
        self.routes = [("GET", re.compile("/health"), lambda request: (200, {"status": "ok"}))]

    def route(self, method, pattern):
        def add(function):
            self.routes.append((method, re.compile(pattern), function))
            return function
        return add

    def answer(self, method, target, body):
        url = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        calls.serving.set(query.pop("call", None))
        for wanted, pattern, function in self.routes:
            match = pattern.fullmatch(url.path)
            if match and wanted == method:
                try:
                    if url.path != "/health":
                        faults.before_request()
                    return function(Request(match.groups(), query, json.loads(body or "{}")))
                except Exception:
                    traceback.print_exc()
                    return 500, {"error": "internal error; see the log"}
        return 404, {"error": f"no route {method} {url.path}"}

    def serve(self):
        """Serves on PORT until SIGTERM."""
        app = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = os.environ.get("SHOP_SERVICE", "shop")
            sys_version = ""
            wbufsize = 65536  # head and body in one write
            disable_nagle_algorithm = True

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, value = app.answer(self.command, self.path, body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = handle_any

            def log_message(self, format, *args):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        server = Server(("127.0.0.1", int(os.environ["PORT"])), Handler)
        print("listening", server.server_address, flush=True, file=sys.stderr)
        server.serve_forever()


class Client:
    """Calls one service. Any thread may reuse idle connections."""

    def __init__(self, address):
        self.address, self.idle = address, queue.LifoQueue()

    def call(self, method, path, body=None):
        """The response's status and JSON value."""
        with calls.made("http", f"{method} {self.address}{path}") as call:
            try:
                connection = self.idle.get_nowait()
            except queue.Empty:
                connection = http.client.HTTPConnection(self.address, timeout=10)
            data = None if body is None else json.dumps(body)
            connection.request(method, calls.in_url(path, call), data,
                               {"Content-Type": "application/json"} if data else {})
            response = connection.getresponse()
            value = json.loads(response.read() or "null")
            self.idle.put(connection)
            return response.status, value
