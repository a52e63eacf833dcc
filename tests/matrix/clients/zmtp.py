"""ZeroMQ: calls of REQ, one after another, and of DEALER, many at once."""

from client import HOST, PORT, did, modes

ADDRESS = f"tcp://{HOST}:{PORT}"
AT_ONCE = 12


def serve():
    import zmq

    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(ADDRESS)
    while True:
        frames = router.recv_multipart()
        router.send_multipart([*frames[:-1], b"geheim answer"])


def sequential():
    import zmq

    context = zmq.Context()
    for _ in range(3):
        req = context.socket(zmq.REQ)
        req.connect(ADDRESS)
        for size in (0, 200, 40_000):
            req.send(b"geheim" + b"x" * size)
            req.recv()
            did("request")
        req.close()
    context.destroy(linger=1000)


def multiplexed():
    import zmq

    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(ADDRESS)
    for number in range(AT_ONCE):
        dealer.send_multipart([b"", b"geheim %d" % number])
    for _ in range(AT_ONCE):
        dealer.recv_multipart()
        did("request")
    context.destroy(linger=1000)


modes(serve=serve, sequential=sequential, multiplexed=multiplexed)
