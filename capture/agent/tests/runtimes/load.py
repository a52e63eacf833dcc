"""Sends concurrent requests for paths with random tokens, on persistent or new connections.
Arguments: port, concurrency, number of requests on each, `pooled` or `fresh`, and the paths'
prefix.
"""

import asyncio
import secrets
import sys

port, concurrency, requests = map(int, sys.argv[1:4])
pooled = sys.argv[4] == "pooled"
begin = sys.argv[5]


async def ask():
    reader = writer = None
    for _ in range(requests):
        if reader is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        path = f"/{begin}/{secrets.token_hex(8)}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head:
            sys.exit(head)
        if b"chunked" in head:
            await reader.readuntil(b"0\r\n\r\n")
        else:
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r")[0]))
        if not pooled:
            writer.close()
            reader = None


async def main():
    await asyncio.gather(*(ask() for _ in range(concurrency)))


asyncio.run(main())
