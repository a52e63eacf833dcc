#!/usr/bin/env python3
"""Business keys, end to end: a real server receives spans of several services and traces over OTLP,
finds keys in them by its rules, and tells what happened for a key: by its API and its command. Also
with keys that are hashed. Needs no rights.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import otlp
from checks import Checks
from spanwise import Spanwise, binary

RULES = """
[[key]]
name = "order"
place = ["header:x-order-id", "path:/orders/{key}", "message-key", "baggage:order.id"]

[[key]]
name = "order"
place = "attribute:app.order"
service = "shipping"

[[key]]
name = "user"
place = "query:user"
hash = true
"""
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5


def span(trace, number, service, name, start, seconds, kind=SERVER, parent=0, failed=False, links=(), **attributes):
    """A service and one of its spans, as OTLP in JSON."""
    attributes = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()]
    return service, {
        "traceId": f"{trace:032x}", "spanId": f"{trace * 100 + number:016x}",
        "parentSpanId": f"{trace * 100 + parent:016x}" if parent else "",
        "name": name, "kind": kind,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + int(seconds * SECOND)),
        "status": {"code": 2} if failed else {}, "attributes": attributes,
        "links": [{"traceId": f"{linked:032x}", "spanId": f"{linked * 100 + 1:016x}"} for linked in links],
    }


def post(spanwise, spans):
    resources = [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
        "scopeSpans": [{"spans": [one]}],
    } for service, one in spans]
    body = json.dumps({"resourceSpans": resources}).encode()
    status, _, answer = otlp.post(spanwise.otlp, body, "application/json")
    assert status == 200, (status, answer)


def order_4711(begin):
    """A checkout that calls two services, a payment that fails and is done again hours later, a
    message to a warehouse, and a parcel that somebody sends the next day.
    """
    paid, packed, sent = begin + 3 * HOUR, begin + 3 * HOUR + 10 * SECOND, begin + 20 * HOUR
    return [
        span(1, 1, "shop", "POST /checkout", begin, 4, http__request__header__x_order_id="4711"),
        span(1, 2, "shop", "GET", begin + SECOND, 1, CLIENT, parent=1, url__full="http://stock/orders/4711?user=bob"),
        span(1, 3, "stock", "GET /orders/{id}", begin + SECOND, 1, parent=2, url__path="/orders/4711", url__query="user=bob"),
        span(1, 4, "payment", "POST /pay", begin + 2 * SECOND, 1, parent=1, failed=True, baggage__order__id="4711"),
        span(2, 1, "payment", "POST /pay", paid, 1, baggage__order__id="4711"),
        span(2, 2, "payment", "send parcels", paid, 0.1, PRODUCER, parent=1, messaging__kafka__message__key="4711"),
        # A span without the key: the trace has it all the same.
        span(2, 3, "ledger", "POST /book", paid, 0.2, parent=1),
        span(3, 1, "warehouse", "process parcels", packed, 30, CONSUMER, links=[2], messaging__kafka__message__key="4711"),
        span(4, 1, "shipping", "send", sent, 2, app__order="4711"),
        # Others.
        span(5, 1, "shop", "POST /checkout", begin, 1, http__request__header__x_order_id="4712"),
        span(6, 1, "other", "send", begin, 1, app__order="4711"),
    ]


def journey(spanwise, key, value, **query):
    return spanwise.get("journey", key=key, value=value, **query)


def told(checks, spanwise):
    answer = journey(spanwise, "order", "4711")
    steps = [(step["service"], step["operation"], step["attempt"], step["failed"]) for step in answer["steps"]]
    expected = [
        ("shop", "POST /checkout", 1, False), ("stock", "GET /orders/{id}", 1, False), ("payment", "POST /pay", 1, True),
        ("payment", "POST /pay", 2, False), ("warehouse", "process parcels", 1, False), ("shipping", "send", 1, False),
    ]
    checks.check("the steps are in the order of time", steps == expected, steps)
    gaps = [(gap["after"], gap["before"], round(int(gap["duration_nano"]) / HOUR)) for gap in answer["gaps"]]
    checks.check("long times without a step are gaps", gaps == [(0, 3, 3), (4, 5, 17)], gaps)
    hands = [(hand["from"], hand["to"], hand["evidence"]) for hand in answer["hand_offs"]]
    checks.check("a linked message is a hand-off, and what only follows says so",
                 hands == [(3, 4, "link"), (4, 5, "time")], hands)
    traces = [(trace["service"], sorted(trace["services"]), trace["spans"], trace["errors"]) for trace in answer["traces"]]
    expected = [
        ("shop", ["payment", "shop", "stock"], 4, 1), ("payment", ["ledger", "payment"], 3, 0),
        ("warehouse", ["warehouse"], 1, 0), ("shipping", ["shipping"], 1, 0),
    ]
    checks.check("traces have all of their services", traces == expected, traces)
    some = journey(spanwise, "order", "4711", limit=2)
    checks.check("an answer that stops says so", len(some["steps"]) == 2 and some["total_steps"] == 6
                 and any("first 2 of 6 steps" in one for one in some["warnings"]), some["warnings"])
    none = journey(spanwise, "order", "9")
    checks.check("nothing found is explained", none["steps"] == [] and none["warnings"], none["warnings"])
    other = journey(spanwise, "cart", "9")
    checks.check("an unknown key lists the known ones",
                 any("there are: order, user" in one for one in other["warnings"]), other["warnings"])


def command(spanwise, *arguments):
    done = subprocess.run([str(spanwise.program), *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spanwise", help="the program to test")
    program = binary(parser.parse_args().spanwise)
    checks = Checks()
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        config, secret = directory / "spanwise.toml", directory / "secret"
        config.write_text(RULES)
        spanwise = Spanwise(program, directory / "data", directory / "log", "server", config)
        url = f"--url=http://127.0.0.1:{spanwise.http}"
        spanwise.start()
        try:
            begin = time.time_ns() - 30 * HOUR
            post(spanwise, order_4711(begin))
            spanwise.wait_quiet()
            told(checks, spanwise)
            code, text, _ = command(spanwise, "journey", "order=4711", url, "--utc")
            checks.check("the command prints the timeline",
                         code == 0 and "attempt 2" in text and "linked to payment" in text and "nothing for 17" in text, text)
            code, text, _ = command(spanwise, "journey", "order=4711", url, "--json")
            checks.check("and its JSON", code == 0 and json.loads(text)["total_traces"] == 4, text[:300])
            # Without a secret, a key that is to be hashed is not stored, and cannot be asked for.
            status = spanwise.get("status")
            left_out = [value for name, value in counters(status) if name == "keys_left_out_no_secret"]
            checks.check("keys without a secret are left out and counted", left_out == [2], left_out)
            code, _, error = command(spanwise, "journey", "user=bob", url)
            checks.check("a hashed key must be asked for by its hash",
                         code == 1 and "spanwise key hash" in error and "bob" not in error, error)
        finally:
            spanwise.stop()

        # With a secret, the server hashes what SDKs send, and finds the key by its hash and by itself.
        code, text, _ = command(spanwise, "key", "secret")
        checks.check("a secret is made", code == 0 and len(text.strip()) == 64, text)
        secret.write_text(text)
        secret.chmod(0o600)
        code, text, error = command(spanwise, "key", "hash", "user=bob", f"--config={config}", f"--key-secret-file={secret}")
        digest = text.strip()
        checks.check("a key is hashed", code == 0 and len(digest) == 32, error)
        code, _, error = command(spanwise, "key", "hash", "order=1", f"--config={config}")
        checks.check("one that is not hashed is not", code == 2 and "not hashed" in error, error)
        again = Spanwise(program, directory / "data", directory / "log", "server", config,
                         [f"--key-secret-file={secret}"])
        again.start()
        try:
            post(again, [span(7, 1, "stock", "GET /orders/{id}", time.time_ns() - SECOND, 0.1, url__query="user=bob")])
            again.wait_quiet()
            found = [journey(again, "user", value) for value in (digest, "bob")]
            checks.check("a hashed key is found",
                         all(one["total_steps"] == 1 and one["hashed"] and one["value"] == digest for one in found), found)
            steps = journey(again, "order", "4711")["total_steps"]
            checks.check("what was stored before the restart is still told", steps == 6, steps)
        finally:
            again.stop()

        config.write_text(RULES + "\n[[key]]\nname = \"order\"\nplace = \"cookie:a\"\n")
        code, _, error = command(spanwise, "server", f"--config={config}", f"--data={directory / 'none'}")
        checks.check("a wrong place is an error that says what is right",
                     code == 2 and "cookie:a is no place of a key" in error and str(config) in error, error)
        config.write_text(RULES)
        code, _, error = command(spanwise, "agent", f"--config={config}")
        checks.check("an agent that cannot hash does not start", code == 2 and "key secret" in error, error)
    raise SystemExit(checks.close())


def counters(status):
    """Every counter of a status, wherever it is."""
    if isinstance(status, dict):
        for name, value in status.items():
            if isinstance(value, int):
                yield name, value
            else:
                yield from counters(value)
    elif isinstance(status, list):
        for one in status:
            yield from counters(one)


if __name__ == "__main__":
    main()
