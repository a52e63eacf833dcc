"""A connection continues in a forked child, in another program, and in a process that receives its
descriptor.
"""
import sys

from talk import *

if len(sys.argv) > 1:
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.sendall(answer(path_of(head(sock))))
    serve(sock)
    sys.exit()

listener, port = listen()
here, there = socket.socketpair()


def given():
    _, descriptors, _, _ = socket.recv_fds(there, 1, 1)
    serve(socket.socket(fileno=descriptors[0]))


def becomes(sock):
    os.set_inheritable(sock.fileno(), True)
    os.execv(sys.executable, [sys.executable, __file__, str(sock.fileno())])


def accepting():
    children = []
    # First a request here, then one by a child.
    sock, _ = listener.accept()
    sock.sendall(answer(path_of(head(sock))))
    children.append(forked(serve, sock))
    sock.close()
    sock, _ = listener.accept()
    sock.sendall(answer(path_of(head(sock))))
    children.append(forked(becomes, sock))
    sock.close()
    sock, _ = listener.accept()
    sock.sendall(answer(path_of(head(sock))))
    socket.send_fds(here, [b"x"], [sock.fileno()])
    sock.close()
    wait(*children)


children = [forked(given), forked(accepting)]
for way in ("fork", "exec", "sent"):
    sock = socket.create_connection(("127.0.0.1", port))
    by = {ask(sock, f"/{way}/{index}/{200 + index % 3}") for index in range(5)}
    assert len(by) == 2, by
    sock.close()
wait(*children)
print(port)
