"""gRPC with grpcio and messages of plain bytes: successful and failing calls."""

import concurrent.futures
import threading
import time
from pathlib import Path

import grpc
from client import CERTIFICATE, HOST, KEY, PORT, did, modes

SERVICE = "shop.v1.Stock"
CODES = {"Place": None, "Find": grpc.StatusCode.NOT_FOUND, "Break": grpc.StatusCode.INTERNAL}


def serve():
    def answering(code):
        def answer(request, call):
            time.sleep(len(request) % 4 * 0.003)
            if code:
                call.abort(code, "no such thing")
            return b"geheim"

        return grpc.unary_unary_rpc_method_handler(answer)

    handlers = {name: answering(code) for name, code in CODES.items()}
    handlers["Upload"] = grpc.stream_unary_rpc_method_handler(lambda requests, _: b"%d" % len(list(requests)))
    handlers["Watch"] = grpc.unary_stream_rpc_method_handler(lambda request, _: (b"%d" % n for n in range(4)))
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(20))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    at = f"{HOST}:{PORT}"
    if KEY:
        pair = Path(KEY).read_bytes(), Path(CERTIFICATE).read_bytes()
        server.add_secure_port(at, grpc.ssl_server_credentials([pair]))
    else:
        server.add_insecure_port(at)
    server.start()
    threading.Event().wait()


def channel():
    if CERTIFICATE:
        return grpc.secure_channel(f"{HOST}:{PORT}", grpc.ssl_channel_credentials(Path(CERTIFICATE).read_bytes()))
    return grpc.insecure_channel(f"{HOST}:{PORT}")


def ended(method, code):
    number = code.value[0]
    did(f"{SERVICE}/{method}", number != 0, number, server_failed=code is grpc.StatusCode.INTERNAL)


def begin(calls, number):
    method = ("Place", "Find", "Break", "Upload", "Watch")[number % 5]
    path, request = f"/{SERVICE}/{method}", b"x" * number
    if method == "Upload":
        return method, calls.stream_unary(path).future(iter([request] * 3))
    if method == "Watch":
        return method, calls.unary_stream(path)(request)
    return method, calls.unary_unary(path).future(request)


def end(method, call):
    if method == "Watch":
        list(call)
    ended(method, call.code())


def sequential():
    with channel() as calls:
        for number in range(10):
            end(*begin(calls, number))


def multiplexed():
    with channel() as calls:
        end(*begin(calls, 0))
        for method, call in [begin(calls, number) for number in range(20)]:
            end(method, call)


modes(serve=serve, sequential=sequential, multiplexed=multiplexed)
