"""Several processes listen on one port (SO_REUSEPORT)."""
import signal

from talk import *

first, port = listen(reuse_port=True)
first.close()
ready, told = os.pipe()


def server():
    listener, _ = listen(port=port, reuse_port=True)
    os.write(told, b"x")
    while True:
        serve(listener.accept()[0])


children = [forked(server) for _ in range(3)]
for _ in children:
    os.read(ready, 1)
served = set()
for index in range(60):
    sock = socket.create_connection(("127.0.0.1", port))
    served.add(ask(sock, f"/{index}/200"))
    sock.close()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
assert len(served) > 1, "one process served all"
print(port)
