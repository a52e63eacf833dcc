"""Hard cases: calls of tasks that continue after their request was answered and its connection has
the next one, and calls of workers that are older than all requests. Arguments: port, the backend's
port, loop.
"""

import asyncio
import contextlib
import random
import sys

import uvicorn
from calls import Calls, token
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse
from starlette.routing import Route

port, backend, loop = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
late = set()
queue = calls = None


async def work():
    while True:
        path, number, done = await queue.get()
        await calls.one(path, number)
        done.set_result(None)


async def later(path, number):
    await asyncio.sleep(random.random() / 20)
    await calls.one(path, number)


async def asked(request):
    path = token(request.url.path)
    await calls.one(path, 0)
    task = asyncio.create_task(later(path, 1))
    late.add(task)
    task.add_done_callback(late.discard)
    for number in (2, 3):
        done = asyncio.get_running_loop().create_future()
        queue.put_nowait((path, number, done))
        await done
    await asyncio.gather(calls.one(path, 4))
    return PlainTextResponse("ok", background=BackgroundTask(later, path, 5))


@contextlib.asynccontextmanager
async def workers(app):
    global queue, calls
    queue, calls = asyncio.Queue(), Calls(backend)
    running = [asyncio.create_task(work()) for _ in range(8)]
    yield
    for worker in running:
        worker.cancel()


app = Starlette(routes=[Route("/in/{token}", asked)], lifespan=workers)
uvicorn.run(app, port=port, loop=loop, log_level="warning", backlog=2048)
