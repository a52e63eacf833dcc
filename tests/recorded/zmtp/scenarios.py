"""ZeroMQ: sockets of libzmq, which comes with `pip install pyzmq`."""

import threading
import time

from relay import Relay, free_port

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PACKED = bytes.fromhex(PARENT[3:35] + PARENT[36:52] + "01" + "01") + b"SWC\0\0\0"


def record(name, server, client):
    """Runs `server(socket)` behind a relay, and `client` with a relay's port."""
    import zmq

    context, port = zmq.Context(), free_port()
    ready = threading.Event()

    def serve():
        server(context, f"tcp://127.0.0.1:{port}", ready)

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    relay = Relay(port)
    client(context, f"tcp://127.0.0.1:{relay.port}")
    thread.join()
    context.destroy(linger=1000)
    relay.write("zmtp", name)


def calls():
    """REQ to REP, and DEALER to ROUTER with and without an empty frame."""
    import zmq

    def serve(context, address, ready):
        router = context.socket(zmq.ROUTER)
        router.bind(address)
        ready.set()
        for _ in range(7):
            frames = router.recv_multipart()
            time.sleep(0.005)
            if frames[-1] != b"geheim no answer":
                router.send_multipart([*frames[:-1], b"geheim answer " + frames[-1]])
        router.close()

    def ask(context, address):
        req = context.socket(zmq.REQ)
        req.connect(address)
        for frames in ([b"geheim one"], [PARENT.encode(), b"geheim two"], [PACKED, b"x" * 3000]):
            req.send_multipart(frames)
            req.recv_multipart()
        req.close()
        dealer = context.socket(zmq.DEALER)
        dealer.connect(address)
        # As a proxy sends them: with the envelopes of those who asked it.
        for who in (b"\x00abcd", b"\x00efgh"):
            dealer.send_multipart([who, b"", b"geheim proxied"])
        for _ in range(2):
            dealer.recv_multipart()
        dealer.send_multipart([b"geheim no delimiter"])
        dealer.recv_multipart()
        dealer.send_multipart([b"", b"geheim no answer"])
        time.sleep(0.05)
        dealer.close()

    record("calls", serve, ask)


def subscriptions():
    """PUB to SUB."""
    import zmq

    def publish(context, address, ready):
        pub = context.socket(zmq.XPUB)
        pub.bind(address)
        ready.set()
        for _ in range(2):
            pub.recv()
        for frames in ([b"orders.created", b"geheim"], [b"orders.4711.paid", PACKED, b"geheim"], [b"news"], [b"news", b"geheim"]):
            pub.send_multipart(frames)
            time.sleep(0.01)
        time.sleep(0.05)
        pub.close()

    def subscribe(context, address):
        sub = context.socket(zmq.SUB)
        sub.subscribe(b"orders.")
        sub.subscribe(b"news")
        sub.connect(address)
        for _ in range(4):
            sub.recv_multipart()
        sub.close()

    record("subscriptions", publish, subscribe)


def pipelines():
    """PUSH to PULL."""
    import zmq

    def pull(context, address, ready):
        pull = context.socket(zmq.PULL)
        pull.bind(address)
        ready.set()
        for _ in range(3):
            pull.recv_multipart()
        pull.close()

    def push(context, address):
        push = context.socket(zmq.PUSH)
        push.connect(address)
        for frames in ([b"geheim"], [PARENT.encode(), b"geheim"], [b"x" * 300]):
            push.send_multipart(frames)
        time.sleep(0.05)
        push.close()

    record("pipelines", pull, push)


SCENARIOS = (calls, subscriptions, pipelines)
