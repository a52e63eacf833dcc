"""NATS: messages to subscribers, and requests that a service answers."""

import asyncio

from client import CERTIFICATE, HOST, PORT, context, did, modes

SUBJECTS = ["red", "green", "blue", "black", "white", "grey", "pink", "gold"]


async def connect(name):
    import nats

    secure = {"tls": context()} if CERTIFICATE else {}
    return await nats.connect(f"{'tls' if CERTIFICATE else 'nats'}://{HOST}:{PORT}", name=name, allow_reconnect=False, **secure)


async def talk(work):
    service, client = await connect("service"), await connect("client")
    heard = asyncio.Queue()

    async def answer(message):
        await asyncio.sleep(0.002 * (len(message.subject) % 5))
        await message.respond(b"geheim")

    async def hear(message):
        heard.put_nowait(message.subject)

    await service.subscribe("orders.*", cb=answer)
    await service.subscribe("news.*", cb=hear)
    await service.flush()
    await work(client, heard)
    await asyncio.sleep(0.1)
    await client.close()
    await service.close()


async def request(client, subject):
    await client.request(f"orders.{subject}", b"geheim", timeout=5)
    did(f"request orders.{subject}")
    did(f"deliver orders.{subject}")


async def publish(client, heard, subjects):
    for subject in subjects:
        await client.publish(f"news.{subject}", b"geheim")
        did(f"publish news.{subject}")
    await client.flush()
    for _ in subjects:
        did(f"deliver {await asyncio.wait_for(heard.get(), 5)}")


async def one_by_one(client, heard):
    for subject in SUBJECTS:
        await publish(client, heard, [subject])
        await request(client, subject)
    from nats.errors import NoRespondersError

    try:
        await client.request("nobody.there", b"geheim", timeout=5)
    except NoRespondersError:
        did("request nobody.there", True)


async def ahead(client, heard):
    await publish(client, heard, SUBJECTS)


async def at_once(client, _):
    await asyncio.gather(*(request(client, subject) for subject in SUBJECTS))


modes(sequential=lambda: asyncio.run(talk(one_by_one)), pipelined=lambda: asyncio.run(talk(ahead)),
      multiplexed=lambda: asyncio.run(talk(at_once)))
