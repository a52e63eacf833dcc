"""AMQP 0-9-1: RabbitMQ with pika, aio-pika and amqp-tools. Needs Debian's rabbitmq-server and
amqp-tools, and `pip install pika aio-pika celery`.
"""

import asyncio
import time

from relay import Relay, run
from servers import RabbitMQ

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def connect(relay, **options):
    import pika

    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", relay.port, **options))


def attempt(work, *arguments, **options):
    import pika

    try:
        work(*arguments, **options)
    except pika.exceptions.AMQPError:
        pass


def blocking():
    """Sequential, with pika's blocking connection."""
    import pika

    with RabbitMQ() as server:
        relay = Relay(server.port)
        connection = connect(relay)
        channel = connection.channel()
        channel.exchange_declare("orders", "topic")
        channel.queue_declare("billing")
        channel.queue_bind("billing", "orders", "order.#")
        # These are not confirmed.
        properties = pika.BasicProperties(
            headers={"traceparent": PARENT, "tenant": "geheim", "n": 7}, correlation_id="c-1",
            message_id="m-1", content_type="text/plain",
        )
        channel.basic_publish("orders", "order.created", b"geheim", properties)
        channel.basic_publish("orders", "order.4711.paid", b"")
        channel.basic_publish("", "billing", b"geheim" * 20_000)
        # Data right after a large message would not be captured.
        time.sleep(0.2)
        for _ in range(4):
            method, _, _ = channel.basic_get("billing")
            if method:
                channel.basic_ack(method.delivery_tag)
        channel.confirm_delivery()
        channel.basic_publish("orders", "order.created", b"geheim" * 20_000, properties)
        channel.basic_publish("orders", "order.created", b"two")
        channel.basic_publish("orders", "order.created", b"three")
        channel.basic_publish("orders", "order.created", b"four")
        attempt(channel.basic_publish, "orders", "nobody", b"geheim", mandatory=True)
        channel.basic_qos(prefetch_count=1)
        for number, (method, _, _) in enumerate(channel.consume("billing", inactivity_timeout=1)):
            if number == 0:
                channel.basic_ack(method.delivery_tag)
            elif number == 1:
                channel.basic_nack(method.delivery_tag, requeue=False)
            elif number == 2:
                channel.basic_reject(method.delivery_tag, requeue=True)
            elif number == 3:
                channel.basic_ack(method.delivery_tag)
            else:
                # Closed without acknowledgement.
                break
        channel.close()
        connection.close()
        relay.write("amqp", "blocking")


def concurrent():
    """Confirms and acknowledgements of several messages at once, two channels, a call with its
    reply, and consumers that do not acknowledge.
    """
    import aio_pika

    async def work(port):
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
        channel, other = await connection.channel(), await connection.channel()
        queue = await channel.declare_queue("jobs")
        calls = await other.declare_queue("calls")
        replies = await other.declare_queue(exclusive=True)
        here = channel.default_exchange

        async def reply(message):
            async with message.process():
                await other.default_exchange.publish(
                    aio_pika.Message(b"geheim", correlation_id=message.correlation_id),
                    message.reply_to,
                )

        answered = asyncio.Event()

        async def take(_):
            answered.set()

        await calls.consume(reply)
        await replies.consume(take, no_ack=True)
        await asyncio.gather(*(
            here.publish(aio_pika.Message(b"geheim", headers={"x-request-id": f"r-{n}"}), "jobs")
            for n in range(8)
        ))
        await other.default_exchange.publish(
            aio_pika.Message(b"geheim", correlation_id="call-1", reply_to=replies.name), "calls"
        )
        await asyncio.wait_for(answered.wait(), 5)
        await channel.set_qos(prefetch_count=4)
        taken = []
        done = asyncio.Event()

        async def collect(message):
            taken.append(message)
            if len(taken) in (4, 8):
                # All at once.
                await message.ack(multiple=True)
            if len(taken) == 8:
                done.set()

        await queue.consume(collect)
        await asyncio.wait_for(done.wait(), 5)
        await connection.close()

    with RabbitMQ() as server:
        relay = Relay(server.port)
        asyncio.run(work(relay.port))
        relay.write("amqp", "concurrent")


def refused():
    """Errors: passwords, hosts, channels."""
    import pika

    with RabbitMQ() as server:
        relay = Relay(server.port)
        attempt(connect, relay, credentials=pika.PlainCredentials("guest", "hunter2"))
        attempt(connect, relay, virtual_host="nowhere")
        connection = connect(relay)
        attempt(connection.channel().queue_declare, "missing", passive=True)
        channel = connection.channel()
        channel.queue_declare("there")
        attempt(channel.queue_declare, "there", durable=True)
        channel = connection.channel()
        channel.basic_publish("missing", "key", b"geheim")
        attempt(connection.process_data_events, time_limit=1)
        channel = connection.channel()
        channel.confirm_delivery()
        attempt(channel.basic_publish, "missing", "key", b"geheim")
        channel = connection.channel()
        channel.basic_publish("", "nowhere", b"geheim", mandatory=True)
        connection.process_data_events(time_limit=1)
        channel.tx_select()
        channel.basic_publish("", "there", b"geheim")
        channel.tx_commit()
        channel.tx_rollback()
        # Acknowledges a message that was never delivered.
        channel.basic_ack(77)
        attempt(connection.process_data_events, time_limit=1)
        connection.close()
        relay.write("amqp", "refused")


def tools():
    """librabbitmq, in C."""
    with RabbitMQ() as server:
        relay = Relay(server.port)
        at = ("--server=127.0.0.1", f"--port={relay.port}")
        run("amqp-declare-queue", *at, "-q", "news")
        for _ in range(3):
            run("amqp-publish", *at, "-r", "news", "-b", "geheim")
        run("amqp-get", *at, "-q", "news")
        run("amqp-consume", *at, "-q", "news", "-c", "1", "cat")
        run("amqp-consume", *at, "-q", "news", "-A", "-c", "1", "cat")
        run("amqp-delete-queue", *at, "-q", "news")
        relay.write("amqp", "tools")


def celery():
    """Tasks, one of which is retried."""
    from tasks import queue

    with RabbitMQ() as server:
        relay = Relay(server.port)
        queue(f"amqp://guest:guest@127.0.0.1:{relay.port}//")
        relay.write("amqp", "celery")


SCENARIOS = (blocking, concurrent, refused, tools, celery)
