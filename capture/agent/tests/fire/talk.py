"""HTTP for the fire tests. A path ends with the requested status, and X-Request-ID of the response
contains the process id.
"""
import os
import socket

REASONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content"}


def request(path):
    return f"GET {path} HTTP/1.1\r\nHost: fire\r\n\r\n".encode()


def answer(path):
    status = int(path.rsplit("/", 1)[1])
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}\r\nX-Request-ID: {os.getpid()}\r\n"
    return (head + ("\r\n" if status == 204 else "Content-Length: 2\r\n\r\nok")).encode()


def path_of(head):
    return head.split(b" ", 2)[1].decode()


def head(sock):
    """Reads a request's head byte by byte, so that nothing after it is consumed."""
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        got = sock.recv(1)
        if not got:
            return None
        text += got
    return text


def serve(sock):
    """Answers requests until the peer closes."""
    rest = b""
    while got := sock.recv(65536):
        *heads, rest = (rest + got).split(b"\r\n\r\n")
        for one in heads:
            sock.sendall(answer(path_of(one)))
    sock.close()


def ask(sock, path):
    """Sends a request and reads the whole response. Returns the server's process id."""
    sock.sendall(request(path))
    return awaited(sock)


def awaited(sock):
    text = b""
    while b"\r\n\r\n" not in text:
        got = sock.recv(65536)
        assert got, "closed without an answer"
        text += got
    ok = b" 204 " in text.split(b"\r\n")[0]
    while not ok and not text.endswith(b"\r\n\r\nok"):
        text += sock.recv(65536)
    return int(text.split(b"X-Request-ID: ")[1].split(b"\r\n")[0])


def forked(work, *arguments):
    """Runs a function in a child process. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work(*arguments)
        status = 0
    finally:
        os._exit(status)


def wait(*children):
    for child in children:
        assert os.waitpid(child, 0)[1] == 0, f"process {child} failed"


def listen(address="127.0.0.1", port=0, **more):
    listener = socket.create_server((address, port), **more)
    return listener, listener.getsockname()[1]
