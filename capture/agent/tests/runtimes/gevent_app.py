"""gevent's WSGI server, with calls by its greenlet and by others. Arguments: port, the backend's
port, and how others are started: `spawn`, by the request's greenlet; `pool`, by an executor that
all requests share.
"""

from gevent import monkey

monkey.patch_all()

import http.client
import sys
from concurrent.futures import ThreadPoolExecutor

import gevent
from gevent.pywsgi import WSGIServer

port, backend, others = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
idle = []
# A native thread that never runs a greenlet.
monkey.get_original("_thread", "start_new_thread")(monkey.get_original("time", "sleep"), (3600,))
pool = ThreadPoolExecutor(max_workers=16)


def one(token, number):
    connection = idle.pop() if idle else http.client.HTTPConnection("127.0.0.1", backend)
    connection.request("GET", f"/out/{token}/{number}")
    connection.getresponse().read()
    idle.append(connection)


def app(environ, start_response):
    token = environ["PATH_INFO"].rsplit("/", 1)[1]
    one(token, 0)
    one(token, 1)
    if others == "spawn":
        gevent.joinall([gevent.spawn(one, token, number) for number in (2, 3, 4)])
    else:
        list(pool.map(one, [token] * 3, (2, 3, 4)))
    one(token, 5)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


WSGIServer(("127.0.0.1", port), app, log=None, backlog=1024).serve_forever()
