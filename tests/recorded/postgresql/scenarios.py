"""PostgreSQL with psql, Python drivers, and hand-written messages."""

import re
import socket
import subprocess
import time

from relay import Relay, run
from servers import Postgres


def psql():
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


def drivers():
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


def messages():
    """Hand-written frontend messages that the drivers above do not send."""

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
            # Two requests in one write, then a batch within one.
            ask(bind(b"byid", b"2") + execute + sync + bind(b"byid", b"3") + execute + sync, 2)
            ask(bind(b"byid", b"4") + execute + bind(b"byid", b"5") + execute + sync, 1)
            ask(bind(b"never", b"1") + execute + sync, 1)
            # A Flush in the middle, whose responses are awaited: two requests.
            client.sendall(message(b"P", b"\0SELECT 1\0\0\0") + message(b"H"))
            client.recv(65536)
            ask(message(b"B", b"\0\0\0\0\0\0\0\0") + execute + sync, 1)
            ask(message(b"Q", b"LISTEN news; SELECT pg_notify('news', 'x')\0"), 1)
            ask(message(b"Q", b"SELECT 'after the notification'\0"), 1)
            ask(sync, 1)
            client.sendall(message(b"X"))
            client.recv(65536)
        relay.write("postgresql", "messages")


def flushes():
    """asyncpg: prepares with Flush and without Sync, copies in both directions."""
    import asyncio
    import io

    import asyncpg

    async def talk(port):
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="shop", database="postgres", ssl=False
        )
        await connection.execute("CREATE TABLE items (id int PRIMARY KEY, name text)")
        await connection.execute("CREATE TABLE visits (token text)")
        statement = await connection.prepare("SELECT name FROM items WHERE id = $1")
        async with connection.transaction():
            await statement.fetchrow(1)
        await connection.execute("UPDATE items SET name = 'geheim' WHERE id = 1")
        insert = "INSERT INTO items (id, name) VALUES ($1, $2)"
        for number in (1, 1):
            try:
                await connection.execute(insert, number, "geheim")
            except asyncpg.UniqueViolationError:
                pass
        await connection.execute("DELETE FROM visits WHERE token = 'geheim'")
        rows = [(f"geheim{number}",) for number in range(500)]
        await connection.copy_records_to_table("visits", records=rows, columns=["token"])
        await connection.fetch("SELECT 1 AS after_copy_in")
        await connection.copy_from_query("SELECT * FROM items", output=io.BytesIO())
        await connection.execute("SELECT 1; SELECT 2; SELECT 3")
        async with connection.transaction():
            async for _ in connection.cursor("SELECT id FROM items ORDER BY id"):
                pass
        many = [(f"v{number}",) for number in range(50)]
        await connection.executemany("INSERT INTO visits (token) VALUES ($1)", many)
        await connection.add_listener("news", lambda *_: None)
        await connection.execute("NOTIFY news, 'geheim'")
        await connection.fetch("SELECT 1 AS after_all")
        try:
            await connection.prepare("SELECT missing FROM items")
        except asyncpg.UndefinedColumnError:
            pass
        await connection.fetch("SELECT 1 AS after_failure")
        await connection.close()

    with Postgres() as server:
        ready = ["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(server.port)]
        while subprocess.run(ready).returncode:
            time.sleep(0.1)
        relay = Relay(server.port)
        asyncio.run(talk(relay.port))
        relay.write("postgresql", "flushes")


SCENARIOS = (psql, drivers, messages, flushes)
