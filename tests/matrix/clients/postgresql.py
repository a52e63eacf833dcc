"""PostgreSQL: successful and failing statements."""

from client import CERTIFICATE, HOST, PORT, did, modes, tool

WHERE = f"host={HOST} port={PORT} user=shop dbname=postgres " + (
    f"sslmode=verify-full sslrootcert={CERTIFICATE}" if CERTIFICATE else "sslmode=disable gssencmode=disable")


def sequential():
    statements = [
        ("CREATE users", "CREATE TABLE users (id int PRIMARY KEY, name text)"),
        ("INSERT users", "INSERT INTO users VALUES (1, 'a'), (2, 'b')"),
        ("SELECT users", "SELECT name FROM users WHERE id = 1"),
        ("SELECT missing", "SELECT 1 FROM missing"),
        ("INSERT users", "INSERT INTO users VALUES (1, 'again')"),
        ("UPDATE users", "UPDATE users SET name = 'c' WHERE id = 2"),
        ("SELECT pg_class", "SELECT relname, repeat('x', 100) FROM pg_class"),
        ("DELETE users", "DELETE FROM users"),
        ("DROP users", "DROP TABLE users"),
    ]
    words = [word for _, statement in statements for word in ("-c", statement)]
    tool("psql", "-X", "-q", WHERE, *words)
    for number, (name, _) in enumerate(statements):
        did(name, failed=number in (3, 4))


def pipelined():
    """libpq's pipeline mode, through psycopg. Each statement has its own Sync."""
    from psycopg import pq

    tables = ["pg_class", "pg_type", "missing", "pg_proc"] * 2
    connection = pq.PGconn.connect(WHERE.encode())
    connection.enter_pipeline_mode()
    for number, table in enumerate(tables):
        connection.send_query_params(f"SELECT count(*) FROM {table} WHERE oid = $1".encode(), [str(number).encode()])
        connection.pipeline_sync()
    for table in tables:
        failed = False
        # A null result ends each statement.
        while (result := connection.get_result()) is not None:
            failed |= result.status == pq.ExecStatus.FATAL_ERROR
        if connection.get_result().status != pq.ExecStatus.PIPELINE_SYNC:
            raise SystemExit("the pipeline is out of step")
        did(f"SELECT {table}", failed)
    connection.finish()


modes(sequential=sequential, pipelined=pipelined)
