"""Memcached with Python drivers, libmemcached's tools, and hand-written lines.

Needs Debian's memcached and libmemcached-tools, and `pip install pymemcache
python-binary-memcached`.
"""

import socket

from relay import Relay, run
from servers import Memcached


def text():
    from pymemcache.client.base import Client
    from pymemcache.exceptions import MemcacheClientError

    with Memcached() as server:
        relay = Relay(server.port)
        client = Client(("127.0.0.1", relay.port), default_noreply=False)
        client.set("user:1", "geheim", expire=60)
        client.get("user:1")
        client.get("user:2")
        client.add("user:1", "hunter2")
        client.set_many({"user:3": "geheim", "user:4": "hunter2"})
        client.get_many(["user:1", "user:2", "user:3", "user:4"])
        _, unique = client.gets("user:1")
        client.cas("user:1", "geheim again", unique)
        client.cas("user:1", "too late", unique)
        client.set("visits", "41")
        client.incr("visits", 1)
        client.touch("visits", 10)
        client.append("user:1", "!")
        client.delete("user:4")
        client.set("big", "geheim" * 10_000)
        client.get("big")
        client.get_many(["big", "visits"])
        client.set("user:5", "geheim", noreply=True)
        client.delete_many(["user:3", "user:5"], noreply=True)
        client.get("user:5")
        try:
            client.incr("user:1", 1)
        except MemcacheClientError:
            pass
        try:
            client.set("huge", "x" * 2_000_000)
        except Exception:
            pass
        client.close()
        client = Client(("127.0.0.1", relay.port))
        client.stats()
        client.stats("items")
        client.version()
        client.flush_all()
        client.quit()
        relay.write("memcached", "text")


def binary():
    import bmemcached

    with Memcached() as server:
        relay = Relay(server.port)
        client = bmemcached.Client((f"127.0.0.1:{relay.port}",))
        client.set("user:1", "geheim", time=60)
        client.get("user:1")
        client.get("user:2")
        client.add("user:1", "hunter2")
        client.set_multi({"user:3": "geheim", "user:4": "hunter2"})
        client.get_multi(["user:1", "user:2", "user:3", "user:4"])
        client.incr("visits", 1, default=41)
        client.incr("visits", 1)
        try:
            client.incr("user:1", 1)
        except bmemcached.exceptions.MemcachedException:
            pass
        client.delete("user:4")
        client.set("big", "geheim" * 10_000, compress_level=0)
        client.get("big")
        client.stats()
        client.flush_all()
        client.disconnect_all()
        relay.write("memcached", "binary")


def tools():
    with Memcached() as server:
        relay = Relay(server.port)
        servers = f"--servers=127.0.0.1:{relay.port}"
        for name in ("one", "two"):
            (server.directory / name).write_text(f"geheim {name}\n")
        for protocol in ([], ["--binary"]):
            run("memccp", servers, *protocol, server.directory / "one", server.directory / "two")
            run("memccat", servers, *protocol, "one", "two", "three")
            run("memctouch", servers, *protocol, "--expire=60", "one")
            run("memcrm", servers, *protocol, "one")
            run("memcexist", servers, *protocol, "one")
            run("memcping", servers, *protocol)
        relay.write("memcached", "tools")


def lines():
    """Hand-written lines: meta commands, pipelines, and errors."""
    with Memcached() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.settimeout(0.2)

            def ask(text):
                client.sendall(text)
                try:
                    while client.recv(65536):
                        pass
                except TimeoutError:
                    pass

            ask(b"ms user:1 6 T60\r\ngeheim\r\n")
            ask(b"mg user:1 v t\r\n")
            ask(b"mg user:2 v\r\n")
            ask(b"ma visits N0 J41 v\r\nma visits v\r\n")
            ask(b"ms user:2 7 q\r\nhunter2\r\nms user:3 6 q I\r\ngeheim\r\nmn\r\n")
            ask(b"mg user:1 k v q\r\nmg user:9 k v q\r\nmg user:2 k v q\r\nmn\r\n")
            ask(b"mg user:1 k v q\r\nmg user:2 k v\r\n")
            ask(b"md user:1 q\r\nmd user:2 q\r\n")
            ask(b"me user:3\r\n")
            ask(b"mn\r\n")
            ask(b"gat 30 a b\r\n")
            # Several in one write, some without a response.
            ask(b"set a 0 0 6\r\ngeheim\r\nset b 0 0 7 noreply\r\nhunter2\r\nget a b c\r\n"
                b"delete a\r\nincr a 1\r\nversion\r\n")
            ask(b"get " + b" ".join(b"key%d" % number for number in range(400)) + b"\r\n")
            ask(b"get " + b"k" * 251 + b"\r\n")
            ask(b"incr b hunter2\r\n")
            ask(b"set a 0 0 2000000\r\n" + b"x" * 2_000 + b"x" * 1_998_000 + b"\r\n")
            ask(b"verbosity 0\r\n")
            ask(b"get b\r\n")
            client.sendall(b"quit\r\n")
            client.recv(1)
        relay.write("memcached", "lines")


SCENARIOS = (text, binary, tools, lines)
