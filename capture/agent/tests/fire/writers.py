"""One connection: threads write requests in turn and forked processes answer them in turn; then
many requests in one call, answered in one; then one request in many calls.
"""
import os
import threading

from talk import *

listener, port = listen()


def answering(sock, mine, other):
    for _ in range(20):
        os.read(mine, 1)
        answered = answer(path_of(head(sock)))
        sock.sendall(answered[:20])
        sock.sendall(answered[20:])
        os.write(other, b"x")


def server():
    sock, _ = listener.accept()
    (a, to_a), (b, to_b) = os.pipe(), os.pipe()
    os.write(to_a, b"x")
    wait(forked(answering, sock, a, to_b), forked(answering, sock, b, to_a))


def asking(number):
    for index in range(10):
        turns[number].acquire()
        ask(sock, f"/thread-{number}/{index}/{200 + index % 3}")
        turns[(number + 1) % 4].release()


def together():
    sock, _ = listener.accept()
    text = b""
    while text.count(b"\r\n\r\n") < 10:
        text += sock.recv(65536)
    heads = text.split(b"\r\n\r\n")[:10]
    sock.sendall(b"".join(answer(path_of(one)) for one in heads))
    sock.sendall(answer(path_of(head(sock))))


child = forked(server)
sock = socket.create_connection(("127.0.0.1", port))
turns = [threading.Semaphore(0) for _ in range(4)]
threads = [threading.Thread(target=asking, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
turns[0].release()
for thread in threads:
    thread.join()
sock.close()
wait(child)

child = forked(together)
sock = socket.create_connection(("127.0.0.1", port))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sock.sendall(b"".join(request(f"/together/{index}/{200 + index % 3}") for index in range(10)))
text = b""
while text.count(b"HTTP/1.1") < 10 or not text.endswith(b"ok"):
    text += sock.recv(65536)
for byte in request("/bytes/204"):
    sock.send(bytes([byte]))
awaited(sock)
sock.close()
wait(child)
print(port)
