"""A thread for each connection: `http.server` and `requests`."""

import http.server
import time
from concurrent.futures import ThreadPoolExecutor

import blocking
import program

calls = ThreadPoolExecutor(max_workers=program.POOL)


def all_at_once(functions):
    for future in [calls.submit(function) for function in functions]:
        future.result()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        body = blocking.handle(self.path, time.sleep, all_at_once)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = program.BACKLOG
    daemon_threads = True


server = Server(("127.0.0.1", program.PORT), Handler)
if program.CERTIFICATE:
    # The handshake runs in the connection's own thread, not while accepting.
    server.socket = program.server_tls().wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
blocking.start()
server.serve_forever()
