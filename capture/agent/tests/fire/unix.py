"""Unix sockets: `serve PATH` serves HTTP; `talk PATH` sends requests on three connections, one of
them older than the command on standard input; `noise` sends irrelevant data for longer than
connections are tried.
"""
import sys
import time

from talk import *


def server(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print(0, flush=True)
    while True:
        sock, _ = listener.accept()
        if not os.fork():
            listener.close()
            serve(sock)
            os._exit(0)
        sock.close()


def connected(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    return sock


def talk(path):
    older = connected(path)
    ask(older, "/older/before/200")
    print(0, flush=True)
    sys.stdin.readline()
    for index in range(5):
        ask(older, f"/older/{index}/{200 + index % 3}")
    older.close()
    for which in range(2):
        sock = connected(path)
        for index in range(5):
            ask(sock, f"/new/{which}/{index}/{200 + index % 3}")
            # Until the connections are no longer read.
            time.sleep(0.4)
        sock.close()


def noise():
    a, b = socket.socketpair()
    end = time.monotonic() + 7
    while time.monotonic() < end:
        a.send(b"\x01\x02\x03 noise")
        b.recv(100)
        time.sleep(0.01)


{"serve": server, "talk": talk, "noise": noise}[sys.argv[1]](*sys.argv[2:])
