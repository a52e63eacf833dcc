"""AMQP 0-9-1: messages published with confirms, fetched and delivered."""

import asyncio

from client import CERTIFICATE, HOST, PORT, context, did, modes

COUNT = 8


def sequential():
    """pika, which waits for each response."""
    import pika

    options = pika.SSLOptions(context(), HOST) if CERTIFICATE else None
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT, ssl_options=options))
    channel = connection.channel()
    channel.queue_declare("jobs")
    did("queue.declare jobs")
    channel.confirm_delivery()
    for number in range(3):
        channel.basic_publish("", "jobs", b"geheim" * (number + 1))
        did("publish jobs")
    for number in range(3):
        method, _, _ = channel.basic_get("jobs")
        channel.basic_ack(method.delivery_tag)
        did("get jobs")
    # Acknowledgements have no response. The next response shows that they arrived.
    channel.queue_purge("jobs")
    did("queue.purge jobs")
    try:
        channel.queue_declare("missing", passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        did("queue.declare missing", True, error.reply_code, server_failed=True)
    connection.close()


async def connected():
    import aio_pika

    scheme = "amqps" if CERTIFICATE else "amqp"
    return await aio_pika.connect(f"{scheme}://guest:guest@{HOST}:{PORT}/", ssl_context=context() if CERTIFICATE else None)


async def publish_and_take(connection, name):
    """Messages before their confirms, then deliveries before their acknowledgements."""
    import aio_pika

    channel = await connection.channel()
    queue = await channel.declare_queue(name, auto_delete=True)
    did(f"queue.declare {name}")
    await asyncio.gather(*(channel.default_exchange.publish(aio_pika.Message(b"geheim"), name) for _ in range(COUNT)))
    for _ in range(COUNT):
        did(f"publish {name}")
    taken, done = [], asyncio.Event()

    async def take(message):
        taken.append(message)
        if len(taken) == COUNT:
            done.set()

    await queue.consume(take)
    did(f"basic.consume {name}")
    await asyncio.wait_for(done.wait(), 10)
    for message in taken:
        await message.ack()
        did(f"deliver {name}")
    await asyncio.sleep(0.2)


def pipelined():
    async def work():
        async with await connected() as connection:
            await publish_and_take(connection, "letters")

    asyncio.run(work())


def multiplexed():
    async def work():
        async with await connected() as connection:
            await asyncio.gather(*(publish_and_take(connection, name) for name in ("red", "green", "blue")))

    asyncio.run(work())


modes(sequential=sequential, pipelined=pipelined, multiplexed=multiplexed)
