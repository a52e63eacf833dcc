"""WebSocket: Python's websockets and Node's ws.

Besides the packages in ../README.md this needs websockets (PyPI), Node, and ws (npm) in the
directory that NODE_MODULES names.
"""

import asyncio
import pathlib

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from relay import Relay, Server, run

HERE = pathlib.Path(__file__).parent
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Node(Server):
    def start(self):
        return self.spawn("node", HERE / "node.js", "server", self.port)


async def handler(connection):
    await connection.send("welcome")
    async for message in connection:
        if message == "fail":
            raise RuntimeError
        await connection.send(message)


async def talk(relay):
    url = f"ws://127.0.0.1:{relay.port}"
    secrets = {"Authorization": "Bearer hunter2", "traceparent": TRACE}
    async with connect(f"{url}/chat?token=geheim", additional_headers=secrets, compression=None) as client:
        for message in ("geheim", b"\0" * 300, "x" * 70_000, ["in ", "three ", "parts"]):
            await client.send(message)
            await asyncio.sleep(0.02)
        await (await client.ping())
        for _ in range(5):
            await client.recv()
    async with connect(f"{url}/fails", compression=None) as client:
        await client.send("fail")
        await client.wait_closed()
    # A client that disappears without closing.
    client = await connect(f"{url}/gone", compression=None)
    await client.recv()
    client.transport.abort()
    await asyncio.sleep(0.05)


def python():
    async def both():
        async with serve(handler, "127.0.0.1", 0, compression=None) as server:
            port = server.sockets[0].getsockname()[1]
            relay = Relay(port)
            await talk(relay)
            return relay

    asyncio.run(both()).write("websocket", "python")


def node():
    with Node() as server:
        relay = Relay(server.port)
        run("node", HERE / "node.js", "client", relay.port)
        relay.write("websocket", "node")


SCENARIOS = (python, node)
