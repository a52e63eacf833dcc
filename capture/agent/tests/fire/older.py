"""A connection that is used already when the agent comes: goes on when told to."""
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
