"""gevent's server of WSGI, with calls of its greenlet and of others that it makes.
Arguments: port, the backend's port."""

from gevent import monkey

monkey.patch_all()

import http.client
import sys

import gevent
from gevent.pywsgi import WSGIServer

port, backend = int(sys.argv[1]), int(sys.argv[2])
idle = []


def one(token, number):
    connection = idle.pop() if idle else http.client.HTTPConnection("127.0.0.1", backend)
    connection.request("GET", f"/out/{token}/{number}")
    connection.getresponse().read()
    idle.append(connection)


def app(environ, start_response):
    token = environ["PATH_INFO"].rsplit("/", 1)[1]
    one(token, 0)
    one(token, 1)
    gevent.joinall([gevent.spawn(one, token, number) for number in (2, 3, 4)])
    one(token, 5)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


WSGIServer(("127.0.0.1", port), app, log=None, backlog=1024).serve_forever()
