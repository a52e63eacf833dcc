#!/usr/bin/env python3
"""Records what real clients and real servers say to each other.

    record.py [SCENARIO ...]

Each scenario runs a server behind a relay on 127.0.0.1, lets a client talk to
it, and writes PROTOCOL/SCENARIO.jsonl beside this file: the events that the
kernel side would report for the client's socket and for the server's (see
capture/ebpf/src/recording.rs for the form). The relay captures as the kernel
side does: the first 1024 bytes of each transfer, 64 after 16 KiB of one turn.

Needs curl, nginx, redis-server, redis-cli, psql, PostgreSQL's initdb and
postgres, and the Python packages psycopg2, pg8000 and redis.
"""

import json
import os
import pathlib
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).parent
CLIENT, SERVER = 100, 200
# The client's numbers wrap within each recording.
CLIENT_SEQ, SERVER_SEQ = 2**32 - 150, 5000
MAX_PAYLOAD, TURN_BYTES, TAIL_PAYLOAD = 1024, 16384, 64


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Relay:
    """Passes connections on to a server and writes down what goes through."""

    def __init__(self, port):
        self.target = port
        self.events = []
        self.lock = threading.Lock()
        self.started = time.monotonic_ns()
        self.count = 0
        self.threads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def now(self):
        return 1_000_000_000 + time.monotonic_ns() - self.started

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.relay, args=(near,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def log(self, **event):
        with self.lock:
            self.events.append(event)

    def relay(self, near):
        far = socket.create_connection(("127.0.0.1", self.target))
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.count += 1
            number = self.count
        ids = {CLIENT: number * 2 - 1, SERVER: number * 2}
        ends = {
            CLIENT: {"address": "10.0.0.1", "port": 40000 + number},
            SERVER: {"address": "10.0.0.2", "port": 8000},
        }
        seqs = {CLIENT: CLIENT_SEQ, SERVER: SERVER_SEQ}
        turns = {CLIENT: [None, 0], SERVER: [None, 0]}
        for process, role, other in ((CLIENT, "client", SERVER), (SERVER, "server", CLIENT)):
            self.log(
                event="opened", time_nano=self.now(), connection=ids[process], process=process,
                thread=process, role=role, local=ends[process], remote=ends[other],
                network_namespace=1, connect_nano=150_000 if role == "client" else None,
            )

        def transfer(process, direction, seq, data, time_nano):
            turn = turns[process]
            if turn[0] != direction:
                turn[:] = [direction, 0]
            wanted = TAIL_PAYLOAD if turn[1] > TURN_BYTES else MAX_PAYLOAD
            turn[1] += len(data)
            self.log(
                event="data", time_nano=time_nano, connection=ids[process], process=process,
                thread=process, direction=direction, seq=seq % 2**32, length=len(data),
                srtt_micros=80, retransmits=0, bytes=data[:wanted].decode("latin-1"),
            )

        reset = False
        while True:
            ready, _, _ = select.select([near, far], [], [])
            # What the server says last is passed on before the client is heard.
            source = far if far in ready else near
            sender, receiver = (CLIENT, SERVER) if source is near else (SERVER, CLIENT)
            try:
                data = source.recv(32768)
            except ConnectionResetError:
                data, reset = b"", True
            if not data:
                break
            now = self.now()
            transfer(sender, "sent", seqs[sender], data, now)
            transfer(receiver, "received", seqs[sender], data, now + 30_000)
            seqs[sender] += len(data)
            (far if source is near else near).sendall(data)
        for process in (CLIENT, SERVER):
            self.log(
                event="closed", time_nano=self.now(), connection=ids[process], reset=reset,
                retransmits=0,
            )
        near.close()
        far.close()

    def write(self, protocol, name):
        for thread in self.threads:
            thread.join(timeout=5)
        self.listener.close()
        path = HERE / protocol / f"{name}.jsonl"
        with path.open("w") as file:
            for event in self.events:
                file.write(json.dumps(event) + "\n")
        print(f"{path.relative_to(HERE)}: {len(self.events)} events")


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], check=False, timeout=30, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, **options,
    )


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


class Server:
    """A server process in a directory of its own, gone when the scenario is."""

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="record-"))
        self.directory.chmod(0o755)
        self.port = free_port()
        self.process = self.start()
        wait_for(self.port)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        shutil.rmtree(self.directory, ignore_errors=True)

    def spawn(self, *command, **options):
        return subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, **options,
        )


class Nginx(Server):
    def start(self):
        root = self.directory / "www"
        root.mkdir()
        (root / "index.html").write_text("hello\n")
        (root / "large.bin").write_bytes(random.Random(1).randbytes(150_000))
        (self.directory / "nginx.conf").write_text(
            f"""daemon off; pid {self.directory}/pid; error_log /dev/null; user root;
            events {{ worker_connections 64; }}
            http {{
                access_log off; client_body_temp_path {self.directory}/body;
                server {{
                    listen 127.0.0.1:{self.port}; root {root};
                    location /gone {{ return 503 "no\\n"; }}
                    location /empty {{ return 204; }}
                }}
            }}"""
        )
        return self.spawn("nginx", "-p", self.directory, "-c", self.directory / "nginx.conf")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/upgrade"):
            self.send_response(101)
            self.send_header("Upgrade", "echo")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(b"\x81\x05hello")
            self.close_connection = True
            return
        if self.path.startswith("/close"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 3000)
            self.close_connection = True
            return
        if self.path.startswith("/half"):
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b"x" * 2000)
            self.close_connection = True
            return
        if self.path.startswith("/none"):
            self.close_connection = True
            return
        sizes = [5, 3000, 20000, 17] if self.path.startswith("/chunks") else [4]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Request-ID", "from-response")
        self.end_headers()
        for size in sizes:
            self.wfile.write(b"%x\r\n%s\r\n" % (size, b"y" * size))
            time.sleep(0.002)
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"ok":true}'
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Python:
    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


class Redis(Server):
    def start(self):
        return self.spawn(
            "redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "",
            "--dir", self.directory,
        )


class Postgres(Server):
    def start(self):
        bin_directory = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        data = self.directory / "data"
        as_user = []
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres")
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        run(*as_user, bin_directory / "initdb", "-D", data, "-U", "shop", "-A", "trust", cwd="/")
        return self.spawn(
            *as_user, bin_directory / "postgres", "-D", data, "-p", self.port,
            "-c", "listen_addresses=127.0.0.1", "-k", self.directory, cwd="/",
        )


def curl(relay, *arguments):
    urls = [f"http://127.0.0.1:{relay.port}{a}" if a.startswith("/") else a for a in arguments]
    run("curl", "-s", *urls)


def http1_keep_alive():
    with Nginx() as server:
        relay = Relay(server.port)
        curl(relay, "/?q=1&token=hunter2", "/missing/42", "/gone", "/empty",
             "-H", "Authorization: Bearer hunter2", "-H", "Cookie: session=hunter2",
             "-H", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             "-H", "X-Request-ID: abc-1")
        curl(relay, "-I", "/index.html", "/index.html")
        curl(relay, "/large.bin", "/index.html")
        relay.write("http1", "keep_alive")


def http1_pipelined():
    with Nginx() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"".join(
                b"%s /index.html?n=%d HTTP/1.1\r\nHost: shop.example:8000\r\n\r\n" % (method, n)
                for n, method in enumerate([b"GET", b"HEAD", b"GET"])
            ) + b"GET /gone HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
            while client.recv(65536):
                pass
        relay.write("http1", "pipelined")


def http1_bodies():
    with Python() as server:
        relay = Relay(server.port)
        curl(relay, "/chunks", "/small", "-H", "b3: 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1")
        curl(relay, "-H", "Expect: 100-continue", "-d", "a" * 5000, "/orders/42/items")
        curl(relay, "/close")
        curl(relay, "/half")
        curl(relay, "/none")
        relay.write("http1", "bodies")


def http1_upgrade():
    with Python() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"GET /upgrade HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
            time.sleep(0.1)
            client.sendall(b"\x81\x85\0\0\0\0GET / HTTP/1.1\r\n\r\n")
            while client.recv(65536):
                pass
        relay.write("http1", "upgrade")


def postgresql_psql():
    with Postgres() as server:
        relay = Relay(server.port)
        statements = [
            "CREATE TABLE users (id int PRIMARY KEY, name text)",
            "INSERT INTO users VALUES (1, 'geheim'), (2, 'O''Brien')",
            "SELECT name FROM users WHERE id = 1 /* route='/users' */",
            "SELECT missing FROM users",
            "INSERT INTO users VALUES (1, 'again')",
            "COPY users TO STDOUT",
            "SELECT n, repeat('x', 200) FROM generate_series(1, 2000) n",
            "SELECT count(*) FROM users",
        ]
        arguments = [word for text in statements for word in ("-c", text)]
        run("psql", "-X", "-q", "-h", "127.0.0.1", "-p", relay.port, "-U", "shop", "-d", "postgres",
            *arguments)
        copy = b"COPY users FROM STDIN;\n3\tthird\n4\tfourth\n\\.\n"
        run("psql", "-X", "-q", "-h", "127.0.0.1", "-p", relay.port, "-U", "shop", "-d", "postgres",
            input=copy)
        run("psql", "-X", "-q", "-h", "127.0.0.1", "-p", relay.port, "-U", "shop", "-d", "nowhere",
            "-c", "SELECT 1")
        relay.write("postgresql", "psql")


def postgresql_drivers():
    import pg8000.native
    import psycopg2

    with Postgres() as server:
        relay = Relay(server.port)
        connection = psycopg2.connect(
            host="127.0.0.1", port=relay.port, user="shop", dbname="postgres", sslmode="disable"
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (id serial, total numeric)")
            cursor.execute("INSERT INTO orders (total) VALUES (%s), (%s)", (19.99, 5))
            cursor.execute("SELECT id, total FROM orders WHERE total > %s", (1,))
            cursor.fetchall()
        connection.close()
        native = pg8000.native.Connection("shop", "127.0.0.1", "postgres", relay.port)
        native.run("SELECT total FROM orders WHERE id = :id", id=1)
        prepared = native.prepare("UPDATE orders SET total = :total WHERE id = :id")
        prepared.run(total=7, id=1)
        prepared.run(total=8, id=2)
        prepared.close()
        try:
            native.run("SELECT 1 / :n", n=0)
        except pg8000.exceptions.DatabaseError:
            pass
        native.close()
        relay.write("postgresql", "drivers")


def postgresql_messages():
    """Frontend messages put together by hand: what drivers above do not send."""

    def message(kind, content=b""):
        return kind + (len(content) + 4).to_bytes(4, "big") + content

    with Postgres() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            def ask(data, ready):
                client.sendall(data)
                seen = b""
                while len(re.findall(rb"Z\x00\x00\x00\x05[ITE]", seen)) < ready:
                    seen += client.recv(65536)

            startup = b"\0\x03\0\0user\0shop\0database\0postgres\0\0"
            ask((len(startup) + 4).to_bytes(4, "big") + startup, 1)
            sync, execute = message(b"S"), message(b"E", b"\0\0\0\0\0")

            def bind(name, value):
                return message(b"B", b"\0" + name + b"\0\0\0\0\1\0\0\0\1" + value + b"\0\0")

            ask(message(b"P", b"byid\0SELECT relname FROM pg_class WHERE oid = $1\0\0\0")
                + message(b"D", b"Sbyid\0") + sync, 1)
            ask(bind(b"byid", b"1") + execute + sync, 1)
            # Two requests at once, then a batch within one.
            ask(bind(b"byid", b"2") + execute + sync + bind(b"byid", b"3") + execute + sync, 2)
            ask(bind(b"byid", b"4") + execute + bind(b"byid", b"5") + execute + sync, 1)
            ask(bind(b"never", b"1") + execute + sync, 1)
            # Flush in the middle: one request, though answers come before its end.
            client.sendall(message(b"P", b"\0SELECT 1\0\0\0") + message(b"H"))
            client.recv(65536)
            ask(message(b"B", b"\0\0\0\0\0\0\0\0") + execute + sync, 1)
            ask(message(b"Q", b"LISTEN news; SELECT pg_notify('news', 'x')\0"), 1)
            ask(message(b"Q", b"SELECT 'after the notification'\0"), 1)
            ask(sync, 1)
            client.sendall(message(b"X"))
            client.recv(65536)
        relay.write("postgresql", "messages")


def redis_cli():
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


def redis_pipelines():
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
        # More commands in one call than are captured of it.
        with client.pipeline(transaction=False) as pipeline:
            for number in range(100):
                pipeline.get(f"k:{number}")
            pipeline.execute()
        client.get("k:7")
        client.close()
        relay.write("redis", "pipelines")


def redis_resp3():
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


SCENARIOS = {
    function.__name__: function
    for function in (
        http1_keep_alive, http1_pipelined, http1_bodies, http1_upgrade, postgresql_psql,
        postgresql_drivers, postgresql_messages, redis_cli, redis_pipelines, redis_resp3,
    )
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or SCENARIOS:
        if wanted not in SCENARIOS:
            raise SystemExit(f"no scenario {wanted}; known: {', '.join(SCENARIOS)}")
        SCENARIOS[wanted]()
