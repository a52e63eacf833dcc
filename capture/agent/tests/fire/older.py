"""A connection that was already in use when the agent started. It continues on command."""
import sys

from talk import *

listener, port = listen()


def server():
    sock, _ = listener.accept()
    serve(sock)


child = forked(server)
sock = socket.create_connection(("127.0.0.1", port))
ask(sock, "/before/200")
print(port, flush=True)
sys.stdin.readline()
for index in range(5):
    ask(sock, f"/after/{index}/{200 + index % 3}")
sock.close()
wait(child)
