"""A Starlette application with uvicorn. Arguments: port, the backend's port, loop, parser."""

import sys

import uvicorn
from calls import Calls, token
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

port, backend, loop, parser = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
calls = None


async def asked(request):
    global calls
    calls = calls or Calls(backend)
    await calls.all(token(request.url.path))
    return PlainTextResponse("ok")


async def plain(request):
    return PlainTextResponse("ok")


app = Starlette(routes=[Route("/in/{token}", asked), Route("/plain/{token}", plain)])
uvicorn.run(app, port=port, loop=loop, http=parser, log_level="warning", backlog=2048)
