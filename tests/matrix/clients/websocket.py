"""WebSocket: sessions that end normally, that the server aborts, and that the client abandons."""

import asyncio

from client import CERTIFICATE, HOST, PORT, context, did, modes
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def talk(path, *messages, leave=False):
    url = f"{'wss' if CERTIFICATE else 'ws'}://{HOST}:{PORT}{path}"
    client = await connect(url, ssl=context() if CERTIFICATE else None)
    did(f"GET {path}", code=101)
    try:
        for message in messages:
            await client.send(message)
            await client.recv()
    except ConnectionClosed:
        pass
    if leave:
        client.transport.abort()
        did(f"WEBSOCKET {path}", True, 1006)
        # Until the server has noticed.
        await asyncio.sleep(0.1)
        return
    await client.close()
    did(f"WEBSOCKET {path}", client.close_code != 1000, client.close_code)


async def sessions():
    await talk("/chat", "geheim", b"\0" * 300, "x" * 70_000)
    await talk("/fails", "geheim", "fail")
    await talk("/left", "geheim", leave=True)
    await talk("/silent")


async def answer(connection):
    async for message in connection:
        if message == "fail":
            raise RuntimeError
        await connection.send(message)


async def served():
    async with serve(answer, HOST, PORT, ssl=context() if CERTIFICATE else None) as server:
        await server.serve_forever()


modes(sequential=lambda: asyncio.run(sessions()), serve=lambda: asyncio.run(served()))
