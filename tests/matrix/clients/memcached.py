"""Memcached's text protocol: hits, misses and failing commands."""

import socket

from client import CERTIFICATE, HOST, PORT, context, did, modes


def sequential():
    from pymemcache.client.base import Client
    from pymemcache.exceptions import MemcacheClientError

    client = Client((HOST, PORT), default_noreply=False, tls_context=context() if CERTIFICATE else None)
    for name, *arguments in (("set", "user", "geheim"), ("get", "user"), ("get", "nobody"), ("add", "user", "again"),
                             ("incr", "user", 1), ("touch", "user", 10), ("delete", "user"), ("set", "n", "41"),
                             ("incr", "n", 1), ("set", "big", "geheim" * 10_000), ("get", "big"), ("version",)):
        try:
            getattr(client, name)(*arguments)
            did(name)
        except MemcacheClientError:
            did(name, failed=True)
    client.close()


def pipelined():
    commands = [b"set user 0 0 6\r\ngeheim\r\n", b"get user nobody\r\n", b"incr user 1\r\n", b"delete user\r\n",
                b"get user\r\n", b"set n 0 0 2\r\n41\r\n", b"incr n 1\r\n", b"version\r\n"]
    with socket.create_connection((HOST, PORT)) as plain:
        client = context().wrap_socket(plain, server_hostname=HOST) if CERTIFICATE else plain
        client.sendall(b"".join(commands))
        stream = client.makefile("rb")
        for command in commands:
            name = command.split()[0].decode()
            line = stream.readline()
            while name == "get" and line.startswith(b"VALUE"):
                stream.readline()
                line = stream.readline()
            did(name, failed=line.startswith(b"CLIENT_ERROR"))


modes(sequential=sequential, pipelined=pipelined)
