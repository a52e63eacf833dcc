"""One listener for both families: reached by IPv6, by IPv4, and by IPv4 in IPv6."""
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
