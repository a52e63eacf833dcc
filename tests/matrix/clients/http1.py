"""HTTP/1.1: existing, missing and refused pages."""

import socket
import time

from client import CERTIFICATE, HOST, PORT, context, did, modes, tool

SCHEME = "https" if CERTIFICATE else "http"
PATHS = ["/index.html", "/missing", "/gone", "/empty", "/large.bin", "/index.html", "/gone", "/missing"]


def note(path, code):
    # An error in the client's request is no failure of the server.
    did(f"GET {path}", code >= 400, code, server_failed=code >= 500)


def sequential():
    trust = ["--cacert", CERTIFICATE] if CERTIFICATE else []
    urls = [word for path in PATHS for word in ("-o", "/dev/null", f"{SCHEME}://{HOST}:{PORT}{path}")]
    said = tool("curl", "-sS", "--http1.1", *trust, "-w", "%{http_code} %{num_connects}\n", *urls)
    for path, line in zip(PATHS, said.splitlines(), strict=True):
        note(path, int(line.split()[0]))


def pipelined():
    paths = [path for path in PATHS if path != "/large.bin"]
    with socket.create_connection((HOST, PORT)) as plain:
        client = context().wrap_socket(plain, server_hostname=HOST) if CERTIFICATE else plain
        client.sendall(b"".join(
            b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (path.encode(), b"Connection: close\r\n" * (number == len(paths) - 1))
            for number, path in enumerate(paths)))
        # All responses arrive before the first is read.
        time.sleep(0.3)
        answer = b""
        while data := client.recv(65536):
            answer += data
    heads = [part.split()[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    for path, code in zip(paths, heads, strict=True):
        note(path, int(code))


modes(sequential=sequential, pipelined=pipelined)
