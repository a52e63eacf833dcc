"""gevent: its WSGI server, and `requests` over patched sockets."""

from gevent import monkey

monkey.patch_all()

import socket  # noqa: E402

import gevent  # noqa: E402
from gevent.pywsgi import WSGIServer  # noqa: E402

import blocking  # noqa: E402
import program  # noqa: E402


def all_at_once(functions):
    gevent.joinall([gevent.spawn(function) for function in functions], raise_error=True)


def application(environment, start_response):
    body = blocking.handle(environment["PATH_INFO"], gevent.sleep, all_at_once)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


class Server(WSGIServer):
    """Without Nagle's delay, as behind any proxy, because it writes head and body separately."""

    def handle(self, connection, address):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle(connection, address)


blocking.start()
tls = {"ssl_context": program.server_tls()} if program.CERTIFICATE else {}
Server(("127.0.0.1", program.PORT), application, backlog=program.BACKLOG, log=None, **tls).serve_forever()
