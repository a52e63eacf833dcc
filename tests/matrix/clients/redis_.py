"""Redis: successful and failing commands, in both versions of its protocol."""

import shlex

from client import CERTIFICATE, HOST, PORT, did, modes, tool

COMMANDS = [
    ("SET", "SET user:1 geheim"), ("GET", "GET user:1"), ("LPUSH", "LPUSH list a b c"), ("INCR", "INCR user:1"),
    ("LRANGE", "LRANGE list 0 -1"), ("NOSUCH", "NOSUCH argument"), ("HSET", "HSET h a 1 b 2"), ("HGETALL", "HGETALL h"),
    ("LPOP", "LPOP user:1"), ("EVAL", "EVAL 'return {1,{2,{3}},4}' 0"), ("DEL", "DEL user:1 list h"), ("GET", "GET user:1"),
]
FAILED = ("INCR", "NOSUCH", "LPOP")


def sequential():
    secure = ["--tls", "--cacert", CERTIFICATE] if CERTIFICATE else []
    for version in ("-2", "-3"):
        tool("redis-cli", version, "-h", HOST, "-p", PORT, *secure, text="\n".join([*(text for _, text in COMMANDS), ""]))
        for name, _ in COMMANDS:
            did(name, failed=name in FAILED)


def pipelined():
    import redis

    for version in (2, 3):
        client = redis.Redis(HOST, PORT, protocol=version, ssl=bool(CERTIFICATE), ssl_ca_certs=CERTIFICATE)
        with client.pipeline(transaction=False) as pipeline:
            for _, text in COMMANDS:
                pipeline.execute_command(*shlex.split(text))
            for (name, _), answer in zip(COMMANDS, pipeline.execute(raise_on_error=False), strict=True):
                did(name, failed=isinstance(answer, redis.RedisError))
        client.close()


modes(sequential=sequential, pipelined=pipelined)
