"""One side of a conversation in its own network namespace: `server ADDRESS PORT`, or `client
ADDRESS PORT STATUS [SOURCE PORT]`.
"""
import sys
import time

from talk import *

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
print(os.stat("/proc/self/ns/net").st_ino, flush=True)
if role == "server":
    serve(listen(address, port)[0].accept()[0])
else:
    source = ("", int(sys.argv[5])) if len(sys.argv) > 5 else None
    end = time.monotonic() + 20
    while True:
        try:
            sock = socket.create_connection((address, port), source_address=source)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.02)
    for index in range(5):
        ask(sock, f"/{index}/{sys.argv[4]}")
        time.sleep(0.01)
    sock.close()
