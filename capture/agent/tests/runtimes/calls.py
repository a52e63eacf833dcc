"""What the test servers do for a request: calls in sequence, concurrently, and from another
thread, to paths with the request's token.
"""

import asyncio
import http.client

import httpx


class Calls:
    def __init__(self, port):
        self.port = port
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.client = httpx.AsyncClient(limits=limits, timeout=60, trust_env=False)

    async def one(self, token, number):
        await self.client.get(f"http://127.0.0.1:{self.port}/out/{token}/{number}")

    def one_by_thread(self, token, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", f"/out/{token}/{number}")
        connection.getresponse().read()
        connection.close()

    async def all(self, token):
        await self.one(token, 0)
        await self.one(token, 1)
        await asyncio.gather(*(self.one(token, number) for number in (2, 3, 4)))
        await asyncio.to_thread(self.one_by_thread, token, 5)


def token(path):
    return path.rsplit("/", 1)[1]
