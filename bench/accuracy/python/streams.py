"""asyncio's own streams on both sides, optionally with uvloop (STYLE)."""

import asyncio
import os

import program

idle = []


async def connection():
    return await asyncio.open_connection("127.0.0.1", program.LEAF_PORT, ssl=program.client_tls_context)


async def message(reader):
    """Head and body of the next message; nothing at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b"", b""
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head, await reader.readexactly(length)


async def call(token):
    reader, writer = await connection() if program.FRESH or not idle else idle.pop()
    writer.write(f"GET /leaf/{token} HTTP/1.1\r\nHost: leaf\r\n\r\n".encode())
    head, body = await message(reader)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the leaf said {head[:80]}")
    if program.FRESH:
        writer.close()
    else:
        idle.append((reader, writer))
    return body


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


async def serve(reader, writer):
    try:
        while (head := (await message(reader))[0]):
            body = await handle(head.split(b" ", 2)[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def in_background():
    """Background calls, like a cache refresh."""
    while True:
        token, = program.tokens()[:1]
        program.note(program.NOBODY, [token])
        await call(token)
        await asyncio.sleep(program.BACKGROUND_SECONDS)


async def main():
    program.client_tls_context = program.client_tls()
    server = await asyncio.start_server(serve, "127.0.0.1", program.PORT, backlog=program.BACKLOG,
                                        ssl=program.server_tls())
    background = asyncio.create_task(in_background()) if program.BACKGROUND else None
    async with server:
        await asyncio.gather(server.serve_forever(), *filter(None, [background]))


if os.environ.get("STYLE") == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
