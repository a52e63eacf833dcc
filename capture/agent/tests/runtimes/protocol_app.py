"""A server on asyncio's protocols, with a task for each request. Arguments: port, the backend's
port.
"""

import asyncio
import sys

from calls import Calls, token


class Server(asyncio.Protocol):
    calls = None

    def connection_made(self, transport):
        self.transport = transport
        self.bytes = b""

    def data_received(self, data):
        self.bytes += data
        if self.bytes.endswith(b"\r\n\r\n"):
            path = self.bytes.split(b" ")[1].decode()
            self.bytes = b""
            self.task = asyncio.get_running_loop().create_task(self.answer(token(path)))

    async def answer(self, token):
        await self.calls.all(token)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def main():
    Server.calls = Calls(int(sys.argv[2]))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


asyncio.run(main())
