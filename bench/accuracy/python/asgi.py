"""uvicorn on asyncio, and httpx."""

import asyncio

import httpx
import uvicorn

import program

client = None


def make_client():
    keep = 0 if program.FRESH else program.POOL
    limits = httpx.Limits(max_connections=program.POOL, max_keepalive_connections=keep)
    return httpx.AsyncClient(limits=limits, timeout=30, verify=program.client_tls() or False, trust_env=False,
                             http1=not program.HTTP2, http2=program.HTTP2)


async def call(token):
    reply = await client.get(program.leaf_url(token))
    reply.raise_for_status()
    return reply.content


async def handle(path):
    made = program.tokens()
    program.work()
    await asyncio.sleep(program.pause_seconds())
    if program.PARALLEL:
        replies = await asyncio.gather(*map(call, made))
    else:
        replies = []
        for token in made:
            replies.append(await call(token))
            await asyncio.sleep(program.pause_seconds())
    program.note(path, made)
    return program.work(b"".join(replies))


async def in_background():
    """Background calls, like a cache refresh."""
    while True:
        token, = program.tokens()[:1]
        program.note(program.NOBODY, [token])
        await call(token)
        await asyncio.sleep(program.BACKGROUND_SECONDS)


async def application(scope, receive, send):
    global client
    if scope["type"] == "lifespan":
        await receive()
        client = make_client()
        background = asyncio.create_task(in_background()) if program.BACKGROUND else None
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if background:
            background.cancel()
        await client.aclose()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = await handle(scope["path"])
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


uvicorn.run(application, host="127.0.0.1", port=program.PORT, loop="asyncio", access_log=False, log_level="warning",
            backlog=program.BACKLOG, ssl_certfile=program.CERTIFICATE, ssl_keyfile=program.KEY)
