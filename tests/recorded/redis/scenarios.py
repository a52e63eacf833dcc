"""Redis with redis-cli, a Python driver, hand-written commands, and Celery (`pip install celery`).
"""

import socket

from relay import Relay, run
from servers import Redis


def cli():
    with Redis() as server:
        relay = Relay(server.port)
        commands = b"""SET user:1 geheim
GET user:1
GET missing
INCR user:1
LPUSH list a b c
LRANGE list 0 -1
NOSUCH secret argument
SELECT 2
CONFIG GET maxmemory
MULTI
INCR n
EXEC
EVAL "return {1,{2,{3}},'x'}" 0
"""
        run("redis-cli", "-p", relay.port, input=commands)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            for line in (b"PING\r\n", b"set inline geheim\r\n", b"GET inline\r\n"):
                client.sendall(line)
                client.recv(1024)
        relay.write("redis", "cli")


def pipelines():
    import redis

    with Redis() as server:
        relay = Relay(server.port)
        client = redis.Redis(port=relay.port)
        with client.pipeline(transaction=False) as pipeline:
            for number in range(8):
                pipeline.set(f"k:{number}", "v" * number)
            pipeline.lpop("k:1")
            pipeline.execute(raise_on_error=False)
        client.set("large", "x" * 60_000)
        client.get("large")
        # More commands in one write than are captured.
        with client.pipeline(transaction=False) as pipeline:
            for number in range(100):
                pipeline.get(f"k:{number}")
            pipeline.execute()
        client.get("k:7")
        client.close()
        relay.write("redis", "pipelines")


def resp3():
    import redis

    with Redis() as server:
        relay = Relay(server.port)
        client = redis.Redis(port=relay.port, protocol=3)
        client.hset("h", mapping={"a": 1, "b": 2})
        client.hgetall("h")
        client.zadd("z", {"m": 1.5})
        client.zscore("z", "m")
        client.get("missing")
        subscription = client.pubsub()
        subscription.subscribe("news")
        subscription.get_message(timeout=1)
        client.publish("news", "hello")
        subscription.get_message(timeout=1)
        subscription.close()
        client.close()
        relay.write("redis", "resp3")


def subscriptions():
    import redis

    def told(subscription, times):
        for _ in range(times):
            subscription.get_message(timeout=1)

    with Redis() as server:
        relay = Relay(server.port)
        for version in (2, 3):
            client = redis.Redis(port=relay.port, protocol=version)
            subscription = client.pubsub()
            subscription.subscribe("news", "jobs")
            told(subscription, 2)
            subscription.psubscribe("n*")
            told(subscription, 1)
            with client.pipeline(transaction=False) as pipeline:
                for number in range(20):
                    pipeline.publish("news" if number % 5 == 0 else "none", "geheim")
                pipeline.execute()
            told(subscription, 8)
            subscription.ping()
            told(subscription, 1)
            subscription.unsubscribe()
            told(subscription, 2)
            subscription.punsubscribe()
            told(subscription, 1)
            subscription.close()
            client.close()
        relay.write("redis", "subscriptions")


def queues():
    """Lists and streams as queues: what is taken out is what was put in."""
    import redis

    with Redis() as server:
        relay = Relay(server.port)
        for version in (2, 3):
            sender = redis.Redis(port=relay.port, protocol=version)
            worker = redis.Redis(port=relay.port, protocol=version)
            sender.lpush("jobs", b"geheim", b'{"class":"Mail","jid":"b4a577edbccf1d805744efa9"}')
            sender.rpush("jobs", b"geheim" * 400)
            worker.brpop("jobs", timeout=1)
            worker.blmove("jobs", "doing", 1, "RIGHT", "LEFT")
            worker.rpop("jobs", 2)
            worker.blpop("jobs", timeout=0.1)
            sender.delete("orders", "mails")
            sender.xgroup_create("orders", "workers", mkstream=True)
            with sender.pipeline(transaction=False) as pipeline:
                pipeline.xadd("orders", {"item": "geheim"})
                pipeline.xadd("mails", {"7-7": "geheim"})
                pipeline.xadd("orders", {"item": "two"})
                pipeline.execute()
            worker.xreadgroup("workers", "one", {"orders": ">"}, count=10)
            worker.xread({"orders": 0, "mails": 0})
            with sender.pipeline(transaction=True) as pipeline:
                pipeline.rpush("jobs", b"in a transaction")
                pipeline.execute()
            worker.lpop("jobs")
            sender.close()
            worker.close()
        relay.write("redis", "queues")


def celery():
    """Tasks, one of which is retried."""
    from tasks import queue

    with Redis() as server:
        relay = Relay(server.port)
        queue(f"redis://127.0.0.1:{relay.port}/0", f"redis://127.0.0.1:{relay.port}/1")
        relay.write("redis", "celery")


SCENARIOS = (cli, pipelines, resp3, subscriptions, queues, celery)
