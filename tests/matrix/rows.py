"""The rows of the matrix: a protocol, a server and a client, and known gaps."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recorded"))

import programs  # noqa: E402
import servers  # noqa: E402

MODES = ("sequential", "pipelined", "multiplexed")
PLAIN, TLS = "plaintext", "TLS"


@dataclass(frozen=True)
class Gap:
    """A known gap, and its reason. `instead` is the protocol of the span that must be in its
    place, if any. If the protocol is `partly` parsed, some or all requests have their spans, and
    there are no others.
    """

    reason: str
    instead: str | None = None
    partly: bool = False

    def holds(self, verdict, protocols):
        """Whether a verdict, and the protocols of the spans, match this gap."""
        if self.partly:
            return verdict.passes or verdict.more == 0
        return not verdict.passes and (self.instead is None or self.instead in protocols)


@dataclass(frozen=True)
class Row:
    name: str
    protocol: str
    server: str
    client: str
    start: Callable  # (tls) -> a server of ../recorded
    command: list  # of the client, before MODE PORT [CERTIFICATE]
    modes: tuple = MODES
    encryptions: tuple = (PLAIN, TLS)
    # Modes in which responses or deliveries have no order.
    unordered: tuple = ()
    # (encryption, mode or "*", side or "*") -> Gap
    gaps: dict = field(default_factory=dict)
    # Operations of a client's setup, which are not evaluated.
    setting_up: str = "$^"
    # (encryption, mode) to the reason why not all requests' spans are joined by TCP sequence
    # numbers.
    unjoined: dict = field(default_factory=dict)

    def gap(self, encryption, mode, side):
        for key in ((encryption, mode, side), (encryption, "*", side), (encryption, mode, "*"), (encryption, "*", "*")):
            if key in self.gaps:
                return self.gaps[key]
        return None

    def ordered(self, mode):
        """Whether requests have an order that spans must have, too."""
        return mode != "multiplexed" and mode not in self.unordered

    def sets_up(self, operation):
        return re.fullmatch(self.setting_up, operation) is not None


def client(script):
    return [sys.executable, str(HERE / "clients" / f"{script}.py")]


def go(kind):
    return [str(programs.GO), kind]


def node(kind):
    return ["node", str(HERE / "clients" / "node.js"), kind]


PIPES = ("sequential", "pipelined")
STREAMS = ("sequential", "multiplexed")
ALONE = ("sequential",)

JSSE = Gap("TLS of the JVM (JSSE) is not read: the connection is one span, with what its handshake says in clear", "tls")
STATIC = Gap("BoringSSL linked into grpcio without its symbols is not read: the connection is one span, with what its "
             "handshake says in clear", "tls")
ERLANG = Gap("Erlang's own TLS (only its ciphers are OpenSSL's) is not read: the connection is one span, with what its "
             "handshake says in clear", "tls")

STARTTLS = Gap("TLS that begins after clear text (STARTTLS) is not read in programs that move bytes between socket and "
               "library themselves (asyncio): the connection is one span, with what its handshake says in clear",
               "tls")
LIMIT = Gap("The first 1024 bytes of a call are captured, and 32 KiB after messages were lost because of that: the first time "
            "that many small messages share a call, those beyond are lost and counted", partly=True)
RECORDS = ("All spans are there, but not all are joined with their other side: of several TLS records in one call, the "
           "positions of the first eight are known")
FIRST = ("All spans are there, but the first is not always joined with its other side: the position of a Go server's first "
         "HTTP/2 request over TLS is not always known")


def gaps(gap, *keys):
    return dict.fromkeys(keys, gap)


AT_ONCE = gaps(LIMIT, (PLAIN, "multiplexed", "*"), (TLS, "multiplexed", "*"))

ROWS = [
    Row("http1", "HTTP/1", "nginx", "curl; pipelined: Python", lambda tls: servers.Nginx(tls=tls),
        client("http1"), PIPES, gaps={(PLAIN, "pipelined", "client"): LIMIT}),
    Row("http1-go", "HTTP/1", "Go", "Go", lambda tls: programs.Go("http", tls), go("http1"), ALONE),
    Row("http1-node", "HTTP/1", "Node.js", "Node.js", lambda tls: programs.node("http1", tls), node("http1"), ALONE),
    Row("http1-jvm", "HTTP/1", "JVM", "JVM", lambda tls: programs.jvm(tls),
        programs.JVM, ALONE, gaps={(TLS, "*", "*"): JSSE}),
    Row("http1-wget", "HTTP/1", "nginx", "wget (GnuTLS)", lambda tls: servers.Nginx(tls=tls), client("wget"), ALONE),
    Row("http2", "HTTP/2", "nginx", "Go", lambda tls: servers.Nginx("http2", tls=tls), go("http2"), STREAMS,
        gaps=AT_ONCE, unjoined={(TLS, "multiplexed"): RECORDS}),
    Row("http2-go", "HTTP/2", "Go", "Go", lambda tls: programs.Go("http", tls), go("http2"), STREAMS,
        gaps=AT_ONCE, unjoined={(TLS, "sequential"): FIRST, (TLS, "multiplexed"): RECORDS}),
    Row("http2-node", "HTTP/2", "Node.js", "Node.js", lambda tls: programs.node("http2", tls), node("http2"), STREAMS,
        gaps=AT_ONCE),
    Row("grpc-go", "gRPC", "grpc-go", "grpc-go", lambda tls: programs.Go("grpc", tls), go("grpc"), STREAMS,
        gaps=AT_ONCE,
        unjoined={(TLS, "sequential"): FIRST, (TLS, "multiplexed"): RECORDS}),
    Row("grpc-python", "gRPC", "grpcio", "grpcio", lambda tls: programs.python("grpc_", tls), client("grpc_"), STREAMS,
        gaps={(TLS, "*", "*"): STATIC} | gaps(LIMIT, (PLAIN, "multiplexed", "*"))),
    Row("websocket", "WebSocket", "websockets", "websockets", lambda tls: programs.python("websocket", tls),
        client("websocket"), ALONE),
    Row("dns-udp", "DNS over UDP", "dnsmasq", "dig; multiplexed: Python", lambda tls: programs.DnsPort(),
        client("dns_udp"), STREAMS, (PLAIN,)),
    Row("dns-tcp", "DNS over TCP", "dnsmasq", "dig; multiplexed: Python", lambda tls: programs.DnsPort(),
        client("dns_tcp"), STREAMS, (PLAIN,)),
    Row("mysql", "MySQL", "MariaDB", "mariadb; pipelined: PyMySQL", lambda tls: servers.Mariadb(tls=tls),
        client("mysql"), PIPES, setting_up="SET"),
    Row("postgresql", "PostgreSQL", "PostgreSQL", "psql; pipelined: psycopg", lambda tls: servers.Postgres(tls=tls),
        client("postgresql"), PIPES),
    Row("redis", "Redis", "Redis", "redis-cli; pipelined: redis-py", lambda tls: servers.Redis(tls=tls),
        client("redis_"), PIPES, setting_up="COMMAND DOCS|HELLO|CLIENT .*"),
    Row("mongodb", "MongoDB", "FerretDB", "pymongo; pipelined: Python", lambda tls: servers.Ferretdb(tls=tls),
        client("mongodb"), PIPES, setting_up="hello|isMaster|endSessions"),
    Row("memcached", "Memcached", "memcached", "pymemcache; pipelined: Python", lambda tls: servers.Memcached(tls=tls),
        client("memcached"), PIPES),
    Row("kafka", "Kafka", "Apache Kafka", "kafka-python", lambda tls: servers.Kafka(tls=tls, relayed=False),
        client("kafka_"), PIPES, gaps={(TLS, "*", "server"): JSSE}),
    Row("amqp", "AMQP 0-9-1", "RabbitMQ", "pika; at once: aio-pika", lambda tls: servers.RabbitMQ(tls=tls),
        client("amqp"), unordered=PIPES[1:],
        gaps={(TLS, "*", "server"): ERLANG}
        | gaps(LIMIT, *((PLAIN, mode, "*") for mode in MODES[1:]), *((TLS, mode, "client") for mode in MODES[1:]))),
    Row("mqtt", "MQTT 5", "mosquitto", "Paho", lambda tls: servers.Mosquitto(tls=tls),
        client("mqtt"), PIPES, unordered=PIPES[1:]),
    Row("nats", "NATS", "nats-server", "nats-py", lambda tls: servers.Nats(tls=tls), client("nats_"),
        unordered=PIPES[1:], gaps={(TLS, "*", "client"): STARTTLS}),
    Row("zmtp", "ZMTP 3", "libzmq", "libzmq", lambda tls: programs.python("zmtp"), client("zmtp"), STREAMS, (PLAIN,)),
    Row("dubbo", "Dubbo 2", "Dubbo 3.3", "Dubbo 3.3", lambda tls: programs.Dubbo(), programs.DUBBO_CLIENT, STREAMS, (PLAIN,),
        gaps={(PLAIN, "multiplexed", "*"): LIMIT}),
    Row("fastcgi", "FastCGI", "php-fpm", "nginx", lambda tls: programs.PhpBehindNginx(), client("pages"), ALONE, (PLAIN,)),
    Row("fastcgi-go", "FastCGI", "Go", "Python", lambda tls: programs.Go("fastcgi"), client("fastcgi"),
        ("multiplexed",), (PLAIN,)),
    Row("tls", "TLS, not read", "JVM", "JVM", lambda tls: programs.jvm(tls), [*programs.JVM, "handshakes"], ALONE, (TLS,)),
    Row("tcp", "anything else", "Python", "Python", lambda tls: programs.python("echo", tls), client("echo"), ALONE),
]
