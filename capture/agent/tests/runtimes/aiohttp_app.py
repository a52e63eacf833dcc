"""An aiohttp server and client. Arguments: port, the backend's port."""

import asyncio
import sys

import aiohttp
from aiohttp import web

port, backend = int(sys.argv[1]), int(sys.argv[2])


async def asked(request):
    token = request.match_info["token"]

    async def one(number):
        async with request.app["client"].get(f"http://127.0.0.1:{backend}/out/{token}/{number}") as answer:
            await answer.read()

    await one(0)
    await one(1)
    await asyncio.gather(*(one(number) for number in (2, 3, 4, 5)))
    return web.Response(text="ok")


async def start(app):
    app["client"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


app = web.Application()
app.on_startup.append(start)
app.router.add_get("/in/{token}", asked)
web.run_app(app, host="127.0.0.1", port=port, print=None, backlog=1024)
