"""A server on asyncio's streams. Arguments: port, the backend's port."""

import asyncio
import sys

from calls import Calls, token


async def main():
    calls = Calls(int(sys.argv[2]))

    async def serve(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await calls.all(token(head.split(b" ")[1].decode()))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


asyncio.run(main())
