"""Two processes on two processors. Each must be reported with its own events."""
from talk import *

listener, port = listen()
ROUNDS = 1000
cpus = sorted(os.sched_getaffinity(0))


def server():
    os.sched_setaffinity(0, {cpus[-1]})
    children = [forked(serve, listener.accept()[0]) for _ in range(2)]
    wait(*children)


def client(sock, which):
    for index in range(ROUNDS):
        ask(sock, f"/{which}/{index}/{200 + index % 3}")


child = forked(server)
os.sched_setaffinity(0, {cpus[0]})
socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
children = [forked(client, sock, which) for which, sock in enumerate(socks)]
for sock in socks:
    sock.close()
wait(child, *children)
print(port)
