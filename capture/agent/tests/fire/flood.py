"""Slow requests, then more than a small ring can hold, then slow ones again, each on command: on
one connection in turns, on another many at once.
"""
import sys
import time

from talk import *

listener, port = listen()


def server():
    wait(*[forked(serve, listener.accept()[0]) for _ in range(2)])


def leisure(name):
    for index in range(20):
        for sock, how in ((turns, "turns"), (many, "many")):
            ask(sock, f"/{how}-{name}/{index}/{200 + index % 3}")
        time.sleep(0.005)


def told():
    print(port, flush=True)
    sys.stdin.readline()


child = forked(server)
told()
turns, many = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
leisure("before")
told()
for burst in range(4):
    for index in range(1500):
        many.send(request(f"/burst/{burst}/{index}/{200 + index % 3}"))
    text = b""
    while text.count(b"X-Request-ID") < 1500 or not text.endswith(b"\r\n\r\nok"):
        text += many.recv(65536)
for index in range(1500):
    ask(turns, f"/turn/{index}/{200 + index % 3}")
told()
# These requests show that others were lost.
ask(many, "/first/200")
time.sleep(0.3)
leisure("after")
turns.close()
many.close()
wait(child)
print(port, flush=True)
