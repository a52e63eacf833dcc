"""NATS: nats-server with nats-py and hand-written messages. Needs nats-server in the path (`go
install github.com/nats-io/nats-server/v2@latest`), and `pip install nats-py`.
"""

import asyncio
import socket
import time

from relay import Relay
from servers import Nats

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def connect(relay, **options):
    import nats

    async def quiet(_):
        pass

    return await nats.connect(
        f"nats://127.0.0.1:{relay.port}", error_cb=quiet, allow_reconnect=False, **options
    )


def subjects():
    """Publishing, queues, requests and replies."""
    from nats.errors import Error

    async def work(relay):
        service, client = await connect(relay, name="service"), await connect(relay, name="client")

        async def answer(message):
            await asyncio.sleep(0.01)
            await message.respond(b"geheim")

        async def refuse(message):
            await service.publish(message.reply, headers={
                "Nats-Service-Error": "no such order", "Nats-Service-Error-Code": "404",
            })

        async def take(_):
            pass

        await service.subscribe("orders.get.*", "workers", cb=answer)
        await service.subscribe("orders.find", cb=refuse)
        await service.subscribe("orders.>", cb=take)
        await service.flush()
        await client.publish("orders.created", b"geheim",
                             headers={"traceparent": PARENT, "x-request-id": "r-1", "tenant": "geheim"})
        await client.publish("orders.created", b"")
        await client.flush()
        await asyncio.sleep(0.1)
        await client.publish("orders.4711.paid", b"geheim" * 20_000)
        # Data right after a large message would not be captured, and then little until the other
        # side has sent something.
        await asyncio.sleep(0.3)
        await client.flush()
        await service.flush()
        # The first message of a subscription that replies shows that it does.
        for number in range(2):
            await client.request(f"orders.get.{number}1", b"geheim", headers={"traceparent": PARENT})
        # Replies in another order than requests.
        await asyncio.gather(*(client.request(f"orders.get.{n}", b"geheim") for n in range(5)))
        await client.request("orders.find", b"geheim")
        for subject in ("nobody.there", "forbidden.fruit"):
            try:
                await client.request(subject, b"geheim", timeout=0.3)
            except Error:
                pass
        await client.close()
        await service.close()

    with Nats() as server:
        relay = Relay(server.port)
        asyncio.run(work(relay))
        relay.write("nats", "subjects")


def jetstream():
    from nats.errors import Error

    async def work(relay):
        client = await connect(relay, name="client")
        stream = client.jetstream()
        await stream.add_stream(name="EVENTS", subjects=["events.*"])
        for number in range(4):
            await stream.publish("events.new", b"geheim", headers={"traceparent": PARENT})
        pull = await stream.pull_subscribe("events.*", "keeper")
        first, second, third = await pull.fetch(3, timeout=2)
        await first.ack()
        await second.nak()
        await third.in_progress()
        await third.ack_sync()
        for message in await pull.fetch(2, timeout=2):
            await message.term()
        try:
            await pull.fetch(1, timeout=0.3)
        except Error:
            pass
        try:
            await stream.stream_info("MISSING")
        except Error:
            pass
        await client.close()

    with Nats() as server:
        relay = Relay(server.port)
        asyncio.run(work(relay))
        relay.write("nats", "jetstream")


def refused():
    """Confirmations of everything, and errors, hand-written."""
    with Nats() as server:
        relay = Relay(server.port)

        def talk(*lines):
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                client.recv(4096)
                for line in lines:
                    client.sendall(line)
                    time.sleep(0.1)
                client.settimeout(0.1)
                try:
                    while client.recv(4096):
                        pass
                except OSError:
                    pass

        talk(b'CONNECT {"user":"shop","pass":"hunter2"}\r\n')
        talk(b'CONNECT {"verbose":true,"user":"shop","pass":"geheim"}\r\n',
             b"SUB a.b 1\r\nPUB a.b 6\r\ngeheim\r\n", b"PUB a.b 0\r\n\r\nPUB a.b 1\r\nx\r\n",
             b"PING\r\n", b"NOSUCH operation\r\n")
        relay.write("nats", "refused")


SCENARIOS = (subjects, jetstream, refused)
