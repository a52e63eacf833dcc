"""MySQL's protocol: successful and failing statements."""

from client import CERTIFICATE, HOST, PORT, context, did, modes, tool

STATEMENTS = [
    ("INSERT users", "INSERT INTO users VALUES (1, 'a'), (2, 'b')"),
    ("SELECT users", "SELECT name FROM users WHERE id = 1"),
    ("SELECT missing", "SELECT 1 FROM missing"),
    ("INSERT users", "INSERT INTO users VALUES (1, 'again')"),
    ("UPDATE users", "UPDATE users SET name = 'c' WHERE id = 2"),
    ("SELECT orders", "SELECT id FROM orders"),
    ("DELETE users", "DELETE FROM users"),
]
FAILED = (2, 3)


def sequential():
    trust = [f"--ssl-ca={CERTIFICATE}", "--ssl-verify-server-cert"] if CERTIFICATE else ["--skip-ssl"]
    tool("mariadb", "--no-defaults", "-h", HOST, "-P", PORT, "-u", "shop", "-phunter2", *trust, "--force", "shop",
         text=";\n".join([*(statement for _, statement in STATEMENTS), ""]))
    for number, (name, _) in enumerate(STATEMENTS):
        did(name, failed=number in FAILED)


def pipelined():
    import pymysql

    connection = pymysql.connect(host=HOST, port=PORT, user="shop", password="hunter2", database="shop",
                                 autocommit=None, ssl=context() if CERTIFICATE else None)
    # No Python driver pipelines commands, so they are written to its socket.
    connection._sock.sendall(b"".join(
        (len(text) + 1).to_bytes(3, "little") + b"\0\x03" + text.encode() for _, text in STATEMENTS))
    for name, _ in STATEMENTS:
        try:
            connection._next_seq_id = 1
            connection._read_query_result()
            failed = False
        except pymysql.MySQLError:
            failed = True
        did(name, failed)
    connection.close()


modes(sequential=sequential, pipelined=pipelined)
