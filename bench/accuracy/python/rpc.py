"""grpcio on both sides: a thread of a pool handles a request, and all calls share one channel."""

import time
from concurrent.futures import ThreadPoolExecutor

import blocking
import grpc
import program

MOST_AT_ONCE = 64
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


def _channel():
    address = f"127.0.0.1:{program.LEAF_PORT}"
    if not program.CERTIFICATE:
        return grpc.insecure_channel(address, OPTIONS)
    with open(program.CERTIFICATE, "rb") as roots:
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(roots.read()), OPTIONS)


_shared = None if program.FRESH else _channel()
calls = ThreadPoolExecutor(max_workers=program.POOL)


def call(token, replies):
    if program.FRESH:
        with _channel() as channel:
            replies.append(channel.unary_unary(f"/leaf/{token}")(b"", timeout=30))
    else:
        replies.append(_shared.unary_unary(f"/leaf/{token}")(b"", timeout=30))


def all_at_once(functions):
    for future in [calls.submit(function) for function in functions]:
        future.result()


class AnyMethod(grpc.GenericRpcHandler):
    """A method's name is the token of the request."""

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: blocking.handle(details.method, time.sleep, all_at_once))


blocking.call = call
server = grpc.server(ThreadPoolExecutor(max_workers=MOST_AT_ONCE), handlers=[AnyMethod()],
                     options=(("grpc.so_reuseport", 0),))
if program.CERTIFICATE:
    with open(program.CERTIFICATE, "rb") as certificate, open(program.KEY, "rb") as key:
        pair = (key.read(), certificate.read())
    server.add_secure_port(f"127.0.0.1:{program.PORT}", grpc.ssl_server_credentials([pair]))
else:
    server.add_insecure_port(f"127.0.0.1:{program.PORT}")
blocking.start()
server.start()
server.wait_for_termination()
