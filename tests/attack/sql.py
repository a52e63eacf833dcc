"""Statements against the server's stack, memory and time."""

import threading
import time

from target import MEBIBYTE, ask

STATEMENTS = {
    "60 KB of 1+1": "SELECT " + "+".join(["1"] * 30_000),
    "deep parentheses": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "deep NOT": "SELECT " + "NOT " * 15_000 + "true",
    "deep subqueries": "SELECT * FROM (" * 500 + "SELECT 1" + ")" * 500,
    "repeat": "SELECT length(repeat('x', 2000000000))",
    "repeat of repeat": "SELECT length(repeat(repeat('x', 30000), 30000))",
    "range": "SELECT array_length(range(2000000000))",
    "array_repeat": "SELECT array_length(array_repeat(array_repeat(1, 30000), 30000))",
    "encode": "SELECT length(encode(repeat('x', 1000000000), 'hex'))",
    "join of texts": "SELECT max(length(a.t || b.t)) FROM (SELECT repeat('x', 10000) AS t, unnest(range(3000))) a, "
                     "(SELECT repeat('y', 10000) AS t, unnest(range(3000))) b",
    "cross join": "SELECT count(*) FROM (SELECT unnest(range(1000000))) a, (SELECT unnest(range(1000000))) b",
    "rows without end": "SELECT repeat('x', 10000) FROM (SELECT unnest(range(1000000)))",
    "levenshtein": "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
}
GROWTH_BYTES = 1024 * MEBIBYTE
SECONDS = 20


def statement(target, sql, answers):
    headers = {"Content-Type": "text/plain", "Spanwise-Request": "attack"}
    try:
        answers.append(ask(target.http, "POST", "/api/v1/sql", headers, sql.encode(), timeout=60)[0])
    except OSError as error:
        answers.append(type(error).__name__)


def attack(name, sql, at_once=1):
    def run(target):
        before, answers = target.rss_bytes(), []
        threads = [threading.Thread(target=statement, args=(target, sql, answers)) for _ in range(at_once)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        peak, slowest = before, 0
        while any(thread.is_alive() for thread in threads):
            asked = time.monotonic()
            if not target.alive() or not target.works():
                break
            slowest = max(slowest, time.monotonic() - asked)
            peak = max(peak, target.rss_bytes())
            time.sleep(0.2)
        for thread in threads:
            thread.join(60)
        seconds, cpu = time.monotonic() - start, target.cpu_seconds()
        time.sleep(2)
        after = target.cpu_seconds() - cpu
        growth = peak - before
        held = (target.alive() and target.works() and growth < GROWTH_BYTES and seconds < SECONDS and after < 1
                and len(answers) == at_once and all(isinstance(one, int) for one in answers))
        return (f"{answers} in {seconds:.1f} s, {growth / MEBIBYTE:+.0f} MiB, others waited {slowest:.1f} s at most, "
                f"{after:.1f} CPU-seconds in the 2 s after it"), held

    run.__name__ = "sql_" + name.replace(" ", "_").replace("+", "_")
    run.__doc__ = f"SQL: {name}" + (f", {at_once} at once" if at_once > 1 else "")
    return run


ATTACKS = [attack(name, sql) for name, sql in STATEMENTS.items()]
ATTACKS.append(attack("levenshtein four times", STATEMENTS["levenshtein"], 4))
