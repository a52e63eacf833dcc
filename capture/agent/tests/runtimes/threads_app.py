"""A server with a thread for each connection, with calls by that thread and by others. Arguments:
port, the backend's port, and how others are started: `thread`, one for each call; `pool`, an
executor for each request; `shared`, one for all.
"""

import contextlib
import http.client
import http.server
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

port, backend, others = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
idle = []
pool = ThreadPoolExecutor(max_workers=16)


def one(token, number):
    try:
        connection = idle.pop()
    except IndexError:
        connection = http.client.HTTPConnection("127.0.0.1", backend)
    connection.request("GET", f"/out/{token}/{number}")
    connection.getresponse().read()
    idle.append(connection)


def all_at_once(token, numbers):
    if others == "thread":
        threads = [threading.Thread(target=one, args=(token, number)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return
    own = ThreadPoolExecutor(max_workers=2) if others == "pool" else None
    with own or contextlib.nullcontext():
        list((own or pool).map(one, [token] * len(numbers), numbers))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        token = self.path.rsplit("/", 1)[1]
        one(token, 0)
        one(token, 1)
        all_at_once(token, (2, 3, 4))
        one(token, 5)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


Server(("127.0.0.1", port), Handler).serve_forever()
