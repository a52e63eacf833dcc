"""HTTP/2 without TLS, and gRPC: Go, Python, Node, nginx, curl, nghttp.

Besides the packages in ../README.md this needs grpcio (PyPI), and nginx, curl, nghttp2-client,
Node and Go.
"""

import concurrent.futures
import pathlib
import subprocess
import tempfile
import time

import grpc

from relay import Relay, Server, run
from servers import Nginx

HERE = pathlib.Path(__file__).parent
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Go(Server):
    """The program in go/, as a server."""

    def __init__(self, what):
        self.what = what

    def start(self):
        self.program = self.directory / "recorded"
        subprocess.run(["go", "build", "-o", self.program, "."], cwd=HERE / "go", check=True)
        return self.spawn(self.program, self.what, self.port)


class Node(Server):
    def start(self):
        return self.spawn("node", HERE / "node.js", "server", self.port)


class Python:
    """grpcio's server, with messages of plain bytes."""

    def __enter__(self):
        def place(request, context):
            context.send_initial_metadata((("server-token", "geheim"),))
            if request == b"denied":
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not\nyou")
            if request == b"crash":
                raise RuntimeError("hidden")
            if request == b"slow":
                time.sleep(0.2)
            return b"x" * 3000 if request == b"large" else b"ok"

        def watch(request, context):
            for number in range(4):
                time.sleep(0.002)
                yield b"%d" % number

        handlers = {
            "Place": grpc.unary_unary_rpc_method_handler(place),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
            "Upload": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"%d" % len(list(requests))),
            "Chat": grpc.stream_stream_rpc_method_handler(lambda requests, _: (r for r in requests)),
        }
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("shop.v1.Stock", handlers),)
        )
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()


def curl(relay, *arguments):
    urls = [f"http://127.0.0.1:{relay.port}{a}" if a.startswith("/") else a for a in arguments]
    run("curl", "-s", *urls)


def grpc_go():
    with Go("grpc") as server:
        relay = Relay(server.port)
        run(server.program, "calls", relay.port)
        relay.write("http2", "grpc_go")


def grpc_go_concurrent():
    with Go("grpc") as server:
        relay = Relay(server.port)
        run(server.program, "concurrent", relay.port)
        relay.write("http2", "grpc_go_concurrent")


def grpc_python():
    with Python() as server:
        relay = Relay(server.port)
        with grpc.insecure_channel(f"127.0.0.1:{relay.port}") as channel:
            place = channel.unary_unary("/shop.v1.Stock/Place")
            secrets = (("authorization", "Bearer hunter2"), ("traceparent", TRACE))
            place(b"geheim", metadata=secrets)
            place(b"large")
            time.sleep(0.1)
            for request in (b"denied", b"crash"):
                place.future(request).exception()
            list(channel.unary_stream("/shop.v1.Stock/Watch")(b"x"))
            channel.stream_unary("/shop.v1.Stock/Upload")(iter([b"a", b"b" * 5000, b"c"]))
            list(channel.stream_stream("/shop.v1.Stock/Chat")(iter([b"a", b"b"])))
            place.future(b"slow", timeout=0.05).exception()
            call = place.future(b"slow")
            time.sleep(0.02)
            call.cancel()
            for call in [place.future(b"%d" % number) for number in range(5)]:
                call.result()
        relay.write("http2", "grpc_python")


def curl_nginx():
    with Nginx("http2", size=60_000) as server:
        relay = Relay(server.port)
        # Sequential, because curl 7.88 fails when it reuses such a connection.
        for path in ("/?q=1&token=hunter2", "/missing/42", "/gone", "/empty"):
            curl(relay, "--http2-prior-knowledge", path, "-H", "Authorization: Bearer hunter2",
                 "-H", "Cookie: session=geheim", "-H", f"traceparent: {TRACE}",
                 "-H", "X-Request-ID: abc-1")
        curl(relay, "--http2-prior-knowledge", "-I", "/index.html")
        curl(relay, "--http2-prior-knowledge", "-d", "geheim" * 500, "/index.html")
        relay.write("http2", "curl_nginx")


def nghttp_nginx():
    with Nginx("http2", size=60_000) as server:
        relay = Relay(server.port)
        url = f"http://127.0.0.1:{relay.port}"
        # Concurrent streams, with priorities and padding.
        run("nghttp", "-n", "--padding=40", *(f"{url}/{path}" for path in ("large.bin", "index.html", "gone")))
        run("nghttp", "-n", "-m3", "--no-dep", f"{url}/index.html")
        # A header block that is not captured completely.
        run("nghttp", "-n", "-H", f"x-long: {'a' * 6_000}", f"{url}/index.html", f"{url}/gone")
        relay.write("http2", "nghttp_nginx")


def upgrade():
    with Go("h2c") as server:
        relay = Relay(server.port)
        for path in ("/orders/42?password=hunter2", "/large", "/events"):
            curl(relay, "--http2", path)
        curl(relay, "--http2", "-d", "geheim", "/orders/7")
        curl(relay, "--http2", "-I", "/orders/8")
        relay.write("http2", "upgrade")


def node():
    with Node() as server:
        relay = Relay(server.port)
        run("node", HERE / "node.js", "client", relay.port)
        relay.write("http2", "node")


SCENARIOS = (
    grpc_go, grpc_go_concurrent, grpc_python, curl_nginx, nghttp_nginx, upgrade, node,
)
