#!/usr/bin/env python3
"""The end-to-end test: the real program traces the real shop, and every assembled trace is
compared with the shop's own records.

Needs the right to load eBPF programs, and what `demo/shop.py install` installs.
"""

import argparse
import json
import secrets
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import compare
import truth
from checks import Checks
from shop import Shop, request
from spanwise import Api, Spanwise, binary, traces
from visible import visible_after

OUT = Path(__file__).resolve().parent / "out"
RUNS = [(1, 300, 11), (8, 2000, 12)]
RECALL_ALWAYS = {"python-threads": 0.99, "java": 0.99}
RECALL_ALONE = 0.95  # of every runtime at concurrency 1
RECALL_HOP = 0.99
VISIBLE_SECONDS = 3.0


def compare_run(checks, spanwise, shop, concurrency, requests, seed):
    """Runs one load and evaluates it."""
    start = time.time_ns()
    print(f"\n## {requests} requests at concurrency {concurrency}\n")
    print(shop.load(concurrency, requests, seed))
    spanwise.wait_quiet()
    calls = truth.read(shop.truth, start)
    roots = truth.of_customers(calls)
    fetch = time.monotonic()
    assembled = traces(spanwise, start)
    spans = compare.Spans(assembled)
    print(f"{len(calls)} calls in truth; {len(assembled)} traces of {len(spans.by_id)} spans, "
          f"fetched in {time.monotonic() - fetch:.1f} s\n")

    inside, hops = compare.judge(calls, roots, spans)
    table = compare.table(inside, hops)
    whole, total = compare.whole(calls, roots, spans)
    met, payments = compare.sdk_in_tree(calls, roots, spans)
    print(table)
    print(f"\nwhole trees: {whole} of {total}; SDK spans in the kernel's tree: {met} of {payments}\n")
    for name, score in sorted({**inside, **hops}.items()):
        for reason, count in score.reasons.most_common(6):
            print(f"  {name}: {count} x {reason}")
        for example in score.examples[:3]:
            print(f"    {example}")
    OUT.mkdir(exist_ok=True)
    (OUT / f"concurrency-{concurrency}.md").write_text(
        f"{requests} requests at concurrency {concurrency}; whole trees: {whole} of {total}\n\n{table}\n")

    at = f"at concurrency {concurrency}"
    checks.check(f"every request is in the truth {at}", total == requests, f"{total} of {requests}")
    certain = sum(s.certain_right + s.certain_wrong for s in (*inside.values(), *hops.values()))
    wrong = sum(s.certain_wrong for s in (*inside.values(), *hops.values()))
    checks.check(f"no certain link is wrong {at}", wrong == 0 and certain > 0, f"{wrong} of {certain}")
    if wrong:
        for score in (*inside.values(), *hops.values()):
            for example in score.examples:
                if "(certain)" in example:
                    print(f"    {example}")
    for name, score in sorted(inside.items()):
        least = max(RECALL_ALWAYS.get(name, 0), RECALL_ALONE if concurrency == 1 else 0)
        if least:
            checks.check(f"recall inside {name} {at}", score.recall >= least, f"{score.recall:.1%}, at least {least:.0%}")
        print(f"figure e2e.recall.{name}.c{concurrency} {score.recall:.4f}")
    for name, score in sorted(hops.items()):
        checks.check(f"recall of {name} hops {at}", score.recall >= RECALL_HOP, f"{score.recall:.1%}, at least {RECALL_HOP:.0%}")
    if concurrency == 1:
        checks.check(f"SDK and kernel spans meet in one tree {at}", payments > 0 and met >= 0.95 * payments, f"{met} of {payments}")
        checks.check(f"requests are whole trees {at}", whole >= 0.9 * total, f"{whole} of {total}")
    return assembled


def freshness(checks, spanwise, shop, samples=8):
    """The time until a checkout, the shop's deepest request, is a complete tree."""
    seconds = []
    for _ in range(samples):
        customer = secrets.token_hex(4)
        request("POST", "/cart", {"customer": customer, "product": 7, "quantity": 1})
        time.sleep(0.2)
        start = time.time_ns()
        status, call, ended = request("POST", "/checkout", {
            "customer": customer, "order_key": secrets.token_hex(6), "card": "4242424242424242"})
        if status != 201:
            checks.check("a checkout succeeds", False, f"status {status}")
            return
        seconds.append(visible_after(spanwise, shop, call, start, ended, app_spans=2))
    print(f"\nvisible after: {', '.join(f'{each:.2f}' for each in seconds)} s, median {statistics.median(seconds):.2f} s")
    print(f"figure e2e.visible_seconds {max(seconds):.3f}")
    checks.check("a request is a complete tree soon after its end", max(seconds) <= VISIBLE_SECONDS,
                 f"{max(seconds):.2f} s at most, may be {VISIBLE_SECONDS:g}")


def shape(trace):
    return sorted((span["span_id"], span.get("parent") or "") for span in trace["spans"])


def restarts(checks, spanwise, some):
    """Traces shown before are shown after a clean restart and after kill -9."""
    count = spanwise.wait_quiet()
    for name, end in (("SIGTERM", lambda: spanwise.stop()), ("kill -9", lambda: spanwise.kill())):
        ended = end()
        if ended:
            checks.check("SIGTERM ends it with exit code 0", ended[0] == 0, f"{ended[0]} after {ended[1]:.1f} s")
        seconds = spanwise.start()
        now = spanwise.spans()
        checks.check(f"no span is lost by {name}", now >= count, f"{now} of {count}, up again in {seconds:.1f} s")
        api, changed = Api(spanwise.http), 0
        for trace in some:
            changed += shape(api.get(f"traces/{trace['trace_id']}")) != shape(trace)
        checks.check(f"traces are the same after {name}", changed == 0, f"{changed} of {len(some)} changed")
        count = spanwise.wait_quiet()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spanwise", help="the program to test (default: target/release/spanwise, else the debug build)")
    parser.add_argument("--keep", action="store_true", help="keep data, truth and logs, and say where they are")
    options = parser.parse_args()
    program = binary(options.spanwise)

    checks = Checks()
    work = Path(tempfile.mkdtemp(prefix="spanwise-e2e-"))
    spanwise = Spanwise(program, work / "data", work / "spanwise.log")
    try:
        print(f"{program}: up in {spanwise.start():.1f} s")
        agent = spanwise.get("status")["agent"]
        if not checks.check("the agent runs", agent["state"] == "running", f"{agent['state']}, {agent.get('reason') or agent.get('hook')}"):
            raise SystemExit(checks.close())
        with Shop(work / "truth", spanwise.otlp, work / "shop.log") as shop:
            some = []
            for concurrency, requests, seed in RUNS:
                found = compare_run(checks, spanwise, shop, concurrency, requests, seed)
                some += found[:: max(1, len(found) // 20)]
            freshness(checks, spanwise, shop)
            status = spanwise.get("status")
            print(f"\nagent: {json.dumps(status['agent']['counters'])}\nserver memory: {spanwise.rss_bytes() / 2**20:.0f} MiB")
        restarts(checks, spanwise, some)
    finally:
        spanwise.kill()
        if options.keep or checks.failed:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(checks.close())


if __name__ == "__main__":
    main()
