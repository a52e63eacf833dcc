"""PostgreSQL through psycopg2 and Redis through redis-py, each with a pool that all threads share.
"""

import contextlib
import os
import queue
import threading
import time

import psycopg2
import psycopg2.extras
import redis

from . import calls, faults


class Postgres:
    """At most `size` connections, opened on demand."""

    def __init__(self, size=16):
        self.few = threading.Semaphore(faults.EXHAUSTED)
        self.slots = queue.LifoQueue()
        for _ in range(size):
            self.slots.put(None)

    @contextlib.contextmanager
    def connection(self):
        few = faults.active("exhausted-pool")
        if few:
            self.few.acquire(timeout=10)
        connection = self.slots.get(timeout=10)
        try:
            if connection is None or connection.closed:
                connection = psycopg2.connect(os.environ["POSTGRES_DSN"])
                connection.autocommit = True
            yield connection
            if few:
                # What else the transaction does, and should not do while it has the connection.
                time.sleep(faults.TRANSACTION_SECONDS)
        finally:
            if few:
                self.few.release()
            self.slots.put(connection)

    def query(self, sql, *values):
        """Rows as dictionaries; an empty list for a statement without rows."""
        with self.connection() as connection:
            with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
                with calls.made("postgresql", sql.split()[0]) as call:
                    faults.around_query(cursor.execute, calls.in_sql(sql, call), values)
                return cursor.fetchall() if cursor.description else []


class Redis:
    """`redis.command("GET", key)`."""

    def __init__(self):
        host, port = os.environ["REDIS_ADDRESS"].split(":")
        self.client = redis.Redis(host=host, port=int(port), decode_responses=True)

    def command(self, *words):
        with calls.made("redis", words[0]) as call:
            if call is None:
                return self.client.execute_command(*words)
            # The data's own key cannot contain a call id, so an additional command with such a key
            # comes first.
            pipeline = self.client.pipeline(transaction=False)
            pipeline.exists(f"call:{call}")
            pipeline.execute_command(*words)
            return pipeline.execute()[-1]
