"""The time until a request is a complete tree."""

import time

import compare
import truth
from spanwise import Api, traces


def visible_after(spanwise, shop, call, start_unix_nano, ended, app_spans=0, limit=15):
    """Seconds from a request's end until the API shows both sides of each of its hops, and this
    many SDK spans, in one tree; infinity after the timeout.
    """
    while time.time() - ended < limit:
        hops = under(truth.read(shop.truth, start_unix_nano), call)
        spans = compare.Spans(traces(spanwise, start_unix_nano))
        seen = [spans.of(hop, side) for hop in hops for side in ("client-process", "server-process")]
        if len(hops) > 1 and all(seen):
            trees = {spans.trace_of[span["span_id"]] for span in seen}
            app = sum(span["capture"] == "app" and spans.trace_of[span["span_id"]] in trees
                      for span in spans.by_id.values())
            if len(trees) == 1 and app >= app_spans:
                return time.time() - ended
        time.sleep(0.05)
    return float("inf")


def under(calls, call):
    """The call and all calls that were made for it."""
    found, made_for = {call}, {}
    for made, each in calls.items():
        made_for.setdefault(each.serving, []).append(made)
    open_ends = [call]
    while open_ends:
        for made in made_for.get(open_ends.pop(), []):
            found.add(made)
            open_ends.append(made)
    return found


def spans_of_call(spanwise, call, start_unix_nano, capture, seconds=8):
    """Spans of one call from one side, once there are any."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = compare.Spans(traces(spanwise, start_unix_nano)).by_call.get((call, capture))
        if found:
            return found
        time.sleep(0.1)
    return []


def status_of(spanwise):
    """The status document, and the time that it took."""
    start = time.monotonic()
    return Api(spanwise.http).get("status"), time.monotonic() - start
