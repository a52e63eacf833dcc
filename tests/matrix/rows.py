"""What the matrix has rows for: a protocol, a server and a client of it, and what
is known not to be read."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recorded"))

import servers  # noqa: E402

MODES = ("sequential", "pipelined", "multiplexed")
# A mode that answers in the order of its requests is judged with their order.
ORDERED = ("sequential", "pipelined")
PLAIN, TLS = "plaintext", "TLS"


@dataclass(frozen=True)
class Gap:
    """What is known not to pass, and why. `instead` is the protocol of the span
    that there must be in its place, where there is one."""

    reason: str
    instead: str | None = None


@dataclass(frozen=True)
class Row:
    name: str
    protocol: str
    server: str
    client: str
    start: Callable  # (tls) -> a Server of ../recorded
    command: list  # of the client, before MODE PORT [CERTIFICATE]
    modes: tuple = MODES
    encryptions: tuple = (PLAIN, TLS)
    # (encryption, mode or "*", side or "*") -> Gap
    gaps: dict = field(default_factory=dict)
    # Why there is no TLS, where the protocol could have it.
    no_tls: str = ""
    # Operations with which a client sets itself up, and which are not judged.
    setting_up: str = "$^"
    # Mode to: why it is not run, other than that the protocol has none.
    not_run: dict = field(default_factory=dict)

    def gap(self, encryption, mode, side):
        for key in ((encryption, mode, side), (encryption, mode, "*"), (encryption, "*", side), (encryption, "*", "*")):
            if key in self.gaps:
                return self.gaps[key]
        return None

    def sets_up(self, operation):
        return re.fullmatch(self.setting_up, operation) is not None


def python(script):
    return [sys.executable, str(HERE / "clients" / f"{script}.py")]


ROWS = [
    Row("http1", "HTTP/1", "nginx", "curl; pipelined by Python", lambda tls: servers.Nginx(tls=tls),
        python("http1"), modes=("sequential", "pipelined")),
    Row("postgresql", "PostgreSQL", "PostgreSQL", "psql; pipelined by psycopg", lambda tls: servers.Postgres(tls=tls),
        python("postgresql"), modes=("sequential", "pipelined")),
    Row("mysql", "MySQL", "MariaDB", "mariadb; pipelined by PyMySQL's socket", lambda tls: servers.Mariadb(tls=tls),
        python("mysql"), modes=("sequential", "pipelined"), setting_up="SET"),
    Row("redis", "Redis", "Redis", "redis-cli; pipelined by redis-py", lambda tls: servers.Redis(tls=tls),
        python("redis_"), modes=("sequential", "pipelined"),
        setting_up="COMMAND DOCS|HELLO|CLIENT .*"),
]
