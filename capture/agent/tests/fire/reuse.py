"""A descriptor number is used for connections to two servers, one after the other."""
from talk import *

(first, a), (second, b) = listen(), listen()


def server(listener):
    for _ in range(30):
        serve(listener.accept()[0])


children = [forked(server, first), forked(server, second)]
numbers = set()
for index in range(60):
    sock = socket.create_connection(("127.0.0.1", (a, b)[index % 2]))
    numbers.add(sock.fileno())
    ask(sock, f"/{'ab'[index % 2]}/{200 + index % 2}")
    sock.close()
wait(*children)
assert len(numbers) == 1, numbers
print(a, b)
