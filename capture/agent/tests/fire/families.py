"""One listener for both address families, reached over IPv6, IPv4, and IPv4-mapped IPv6."""
from talk import *

listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
port = listener.getsockname()[1]


def server():
    for _ in range(3):
        serve(listener.accept()[0])


child = forked(server)
for address in ("::1", "127.0.0.1", "::ffff:127.0.0.1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family)
    sock.connect((address, port))
    ask(sock, f"/{address.count(':')}/200")
    sock.close()
wait(child)
print(port)
