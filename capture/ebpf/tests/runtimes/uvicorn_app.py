"""An application of Starlette's under uvicorn. Arguments: port, the backend's port, loop,
parser."""

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


def asked_in_a_thread(request):
    Calls(backend).one_by_thread(token(request.url.path), 0)
    return PlainTextResponse("ok")


app = Starlette(routes=[Route("/in/{token}", asked), Route("/thread/{token}", asked_in_a_thread)])
uvicorn.run(app, port=port, loop=loop, http=parser, log_level="warning", backlog=2048)
