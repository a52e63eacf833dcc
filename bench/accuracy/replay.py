"""Replays recorded traces as an agent would have captured them: without trace ids, parents and
headers.

From Jaeger's JSON (as its UI downloads traces), it keeps the requests that a process served and
the calls that it made, with places and times. An agent does not see work inside a process. What an
agent knows about a hop is kept, too: both sides have the same TCP sequence numbers. The server
must find out for which request each call was made. The truth is the nearest request above the call
in its own process.
"""

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import score
from runtimes import ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from spanwise import Spanwise  # noqa: E402

MICRO = 1000
# Kinds of Jaeger spans that use a socket.
SERVING, CALLING = ("server", "consumer"), ("client", "producer")
# Attributes that an agent reads from the wire itself.
KEPT = ("http.method", "http.request.method", "http.status_code", "http.response.status_code", "http.target", "url.path",
        "rpc.method", "rpc.service", "db.statement", "db.query.text")
# Attributes that distinguish processes of one service.
INSTANCE = ("service.instance.id", "host.name", "hostname", "ip", "process.pid", "pid", "client-uuid", "k8s.pod.name")
MAX_CHAIN = 1000
# Rows in one query.
PAGE = 50_000
SEED = 1


class Unreadable(Exception):
    """The file is invalid."""


@dataclass
class Replay:
    """Rows to import, and the expected links."""

    rows: list = field(default_factory=list)
    # The request of each call, by row id.
    truth: dict = field(default_factory=dict)
    # Calls that were made for no request of the process.
    roots: set = field(default_factory=set)
    traces: int = 0
    hidden: int = 0
    # Calls that the recording lacks: a request of one service is directly below one of another.
    added: int = 0
    # Spans with an id that occurs twice in their trace. The first is used.
    twice: int = 0


def kind_of(span):
    for tag in span.get("tags") or []:
        if tag.get("key") == "span.kind":
            return str(tag.get("value")).lower().removeprefix("span_kind_")
    return "internal"


def parent_of(span):
    for reference in span.get("references") or []:
        if reference.get("refType", "CHILD_OF") == "CHILD_OF" and reference.get("traceID") == span.get("traceID"):
            return reference.get("spanID")
    return span.get("parentSpanID") or None


def read(paths):
    """The traces in the files, as lists of spans with their processes."""
    traces = []
    for path in paths:
        try:
            document = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise Unreadable(f"{path}: {error}") from error
        found = document.get("data") if isinstance(document, dict) else document
        if not isinstance(found, list) or not all(isinstance(trace, dict) and "spans" in trace for trace in found):
            raise Unreadable(f'{path}: no traces in Jaeger\'s JSON, {{"data": [{{"spans": […], "processes": {{…}}}}]}}')
        traces += found
    if not any(trace["spans"] for trace in traces):
        raise Unreadable("there are no spans in it")
    return traces


class Names:
    """Numbers processes, like an agent's process ids."""

    def __init__(self):
        self.numbers = {}

    def of(self, process):
        tags = {tag.get("key"): str(tag.get("value")) for tag in process.get("tags") or []}
        service = process.get("serviceName") or "unknown"
        key = (service, *(tags.get(name) for name in INSTANCE))
        number = self.numbers.setdefault(key, len(self.numbers) + 1)
        return service, tags.get("host.name") or tags.get("hostname") or "replay", number


def hide(traces, now_nano=None):
    """Rows without connections between them, moved in time so that the last ends now."""
    replay, names = Replay(), Names()
    try:
        ends = [span["startTime"] + span["duration"] for trace in traces for span in trace["spans"]]
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a span has no startTime or no duration: {error}") from error
    # Shuffled. A span uses at most three numbers: for its own row, an added call, and the sequence
    # numbers of their hop.
    numbers = list(range(1, 3 * len(ends) + 1))
    random.Random(SEED).shuffle(numbers)
    ids = iter(numbers)
    shift = (now_nano or time.time_ns()) - max(ends) * MICRO
    for trace in traces:
        replay.traces += 1
        hide_trace(trace, replay, names, ids, shift)
    replay.rows.sort(key=lambda row: row["start_unix_nano"] + row["duration_nano"])
    return replay


def hide_trace(trace, replay, names, ids, shift):
    spans = {}
    for span in trace["spans"]:
        replay.twice += span["spanID"] in spans
        spans.setdefault(span["spanID"], span)
    # A recording may lack processes. Then all spans of a trace count as one.
    where = {key: names.of((trace.get("processes") or {}).get(span.get("processID"), span.get("process") or {}))
             for key, span in spans.items()}
    kinds = {key: kind_of(span) for key, span in spans.items()}
    rows = {}

    def row(key, side):
        """The row of a span on one side of its exchange."""
        span = spans[key]
        service, host, process = where[key]
        number = next(ids)
        made = {"id": f"{number:016x}", "capture": f"{side}-process", "kind": side, "service": service, "host": host,
                "process": process, "operation": span.get("operationName") or "?",
                "start_unix_nano": span["startTime"] * MICRO + shift, "duration_nano": span["duration"] * MICRO,
                "fragment": number if side == "server" else None, "sequences": None,
                "attributes": {tag["key"]: str(tag["value"]) for tag in span.get("tags") or [] if tag.get("key") in KEPT}}
        replay.rows.append(made)
        return made

    def above(key):
        """The ancestors of a span, nearest first."""
        for _ in range(MAX_CHAIN):
            key = parent_of(spans[key])
            if key not in spans:
                return
            yield key

    def request_of(key, process):
        """The nearest request above in this process."""
        for other in above(key):
            if where[other][2] != process:
                return None
            if kinds[other] in SERVING:
                return rows[other]["id"]
        return None

    def made_for(call, request):
        if request:
            replay.truth[call["id"]] = request
        else:
            replay.roots.add(call["id"])

    for key, kind in kinds.items():
        if kind in SERVING or kind in CALLING:
            rows[key] = row(key, "server" if kind in SERVING else "client")
        else:
            replay.hidden += 1
    for key, kind in kinds.items():
        if kind in CALLING:
            made_for(rows[key], request_of(key, where[key][2]))
    taken = defaultdict(int)
    for key, kind in kinds.items():
        if kind not in SERVING:
            continue
        caller = next((other for other in above(key) if other in rows), None)
        if caller is None:
            continue
        call = rows[caller]
        # An agent sees a separate call for each answered request.
        if kinds[caller] not in CALLING or taken[caller]:
            if where[caller][2] == where[key][2]:
                continue
            process = where[caller]
            call = row(key, "client") | {"service": process[0], "host": process[1], "process": process[2]}
            replay.rows[-1] = call
            replay.added += 1
            made_for(call, call_request(caller, kinds, rows, request_of, where))
        taken[caller] += 1
        number = next(ids)
        call["sequences"] = rows[key]["sequences"] = (number % 2**32, number * 7919 % 2**32)


def call_request(caller, kinds, rows, request_of, where):
    """The request for which a call below this span was made."""
    return rows[caller]["id"] if kinds[caller] in SERVING else request_of(caller, where[caller][2])


def run(options, directory):
    """Imports the files into a new server. Returns the replay, the number of joined hops, and the
    score.
    """
    replay = hide(read(options.replay))
    if not replay.rows:
        raise Unreadable("no span is a request or a call: `span.kind` says so of none")
    spanwise = Spanwise(options.spanwise, directory / "data", directory / "spanwise.log", command="server",
                        config=config(directory))
    spanwise.start()
    try:
        found = assembled(options, spanwise, replay.rows)
        return replay, hops(replay, found), score.score(replay.truth, found, replay.roots)
    finally:
        spanwise.stop()


def assembled(options, spanwise, rows):
    """Sends rows to a server and returns the results."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([options.replay_program, "--server", f"http://127.0.0.1:{spanwise.grpc}"], input=lines, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"accuracy: rows could not be imported: {done.stderr.strip()[-500:]}")
    spanwise.wait_quiet()
    time.sleep(options.settle)
    return spans(spanwise, rows)


def config(directory):
    path = directory / "spanwise.toml"
    path.write_text("")
    return path


def spans(spanwise, rows):
    """The results for the rows. A row's id serves as its token."""
    found = []
    numbers = [int(row["id"], 16) for row in rows]
    for first in range(min(numbers) - 1, max(numbers), PAGE):
        query = f"""SELECT encode(span_id, 'hex'), encode(assembled_parent, 'hex'), capture, evidence, confidence,
            encode(span_id, 'hex') AS path, '' AS method, start_unix_nano, 0 AS served_at, 0 AS client_port FROM spans
            WHERE encode(span_id, 'hex') > '{first:016x}' AND encode(span_id, 'hex') <= '{first + PAGE:016x}'"""
        found += score.read(score.ask(spanwise.http, query), 0)
    if len(found) != len(rows):
        raise SystemExit(f"accuracy: {len(rows)} rows were imported, and {len(found)} are there")
    return found


def hops(replay, found):
    """How many called requests are children of their call."""
    calls = {tuple(row["sequences"]): row["id"] for row in replay.rows if row["sequences"] and row["kind"] == "client"}
    parents = {span.id: span.parent for span in found}
    served = [row for row in replay.rows if row["sequences"] and row["kind"] == "server"]
    return sum(parents[row["id"]] == calls[tuple(row["sequences"])] for row in served), len(served)


def told(replay, hops, found):
    """The result of a replay, for people and for programs."""
    links = found.links
    rows = len(replay.rows)
    lines = [
        f"{replay.traces} traces: {rows} rows as an agent would have seen them, of which {replay.added} calls were added "
        f"where the recording has none; {replay.hidden} spans inside processes are not seen, {replay.twice} have the id "
        "of another",
        f"hops joined by their sequence numbers: {hops[0]} of {hops[1]}",
        f"{found.true_links} calls were made for a request, {len(replay.roots)} for none",
        f"links made {links.made}, right {links.right}; called certain {found.certain.made}, right {found.certain.right}; "
        f"ambiguous {found.ambiguous}, alone {found.alone}"]
    lines += [f"  {name:<16}{each.made:>9} made{each.right:>9} right" for name, each in sorted(found.by_evidence.items())]
    if not found.true_links:
        return [*lines, "# there is no link to find"]
    lines.append(f"figure accuracy.replay.recall {found.recall:.4f} 1")
    for name, each in (("precision", links), ("certain_precision", found.certain)):
        lines.append(f"figure accuracy.replay.{name} {each.precision:.4f} 1" if each.made
                     else f"# accuracy.replay.{name}: no links made")
    return lines
