"""Compares assembled traces with the truth."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

CERTAIN = 0.999
CALL_ID = re.compile(r"\bcall[=:]([0-9a-z]+)")


@dataclass
class Score:
    """Links of one kind: their number and results."""

    links: int = 0
    right: int = 0
    wrong: int = 0
    missing: int = 0
    certain_right: int = 0
    certain_wrong: int = 0
    reasons: Counter = field(default_factory=Counter)
    examples: list = field(default_factory=list)

    @property
    def recall(self):
        return self.right / self.links if self.links else 1.0

    @property
    def certain_precision(self):
        certain = self.certain_right + self.certain_wrong
        return self.certain_right / certain if certain else 1.0

    def note(self, outcome, certain, reason, example):
        self.links += 1
        setattr(self, outcome, getattr(self, outcome) + 1)
        if certain and outcome != "missing":
            key = f"certain_{outcome}"
            setattr(self, key, getattr(self, key) + 1)
        if outcome != "right":
            self.reasons[f"{outcome}: {reason}"] += 1
            if len(self.examples) < 5 or outcome == "wrong" and certain:
                self.examples.append(f"{outcome}{' (certain)' if certain else ''}: {reason}: {example}")


class Spans:
    """All spans of some traces, by id and by call."""

    def __init__(self, traces):
        self.by_id, self.trace_of = {}, {}
        self.by_call = defaultdict(list)
        for trace in traces:
            for span in trace["spans"]:
                self.by_id[span["span_id"]] = span
                self.trace_of[span["span_id"]] = trace["trace_id"]
        for span in self.by_id.values():
            if span["capture"] == "app":
                continue
            for call in call_ids(span):
                self.by_call[call, span["capture"]].append(span)

    def of(self, call, capture):
        """The span of a call from one side; None if there is none."""
        found = self.by_call.get((call, capture), [])
        return found[0] if found else None

    def parent(self, span):
        return self.by_id.get(span.get("parent"))

    def kernel_parent(self, span):
        """The nearest ancestor that the kernel captured, and whether all links on the way are
        certain. An SDK's own spans may be in between.
        """
        certain = True
        for _ in range(100):
            certain = certain and (span.get("confidence") or 0) >= CERTAIN
            span = self.parent(span)
            if span is None:
                return None, False
            if span["capture"] != "app":
                return span, certain
        raise SystemExit(f"the parents of span {span['span_id']} go round in a circle")


def call_ids(span):
    """The test's call ids in the span's attributes."""
    for attribute in span.get("attributes", []):
        if attribute["key"] in ("url.query", "db.query.text"):
            found = CALL_ID.findall(str(attribute["value"]))
            if found:
                return found
    return []


def judge(calls, roots, spans):
    """Scores by runtime for links inside a process, and by protocol for hops."""
    inside, hops = defaultdict(Score), defaultdict(Score)
    for made in roots:
        call = calls[made]
        client, server = spans.of(made, "client-process"), spans.of(made, "server-process")
        example = f"{call.service} made {made} ({call.kind} {call.target}) serving {call.serving}"
        _hop(hops[call.kind], spans, client, server, example)
        if call.serving is not None:
            _inside(inside[call.runtime], spans, client, spans.of(call.serving, "server-process"), example)
    return dict(inside), dict(hops)


def _hop(score, spans, client, server, example):
    if client is None or server is None:
        sides = [side for side, span in (("client", client), ("server", server)) if span is None]
        score.note("missing", False, f"no span of the {' and '.join(sides)} side", example)
        return
    parent = spans.parent(server)
    certain = (server.get("confidence") or 0) >= CERTAIN
    if parent is None:
        score.note("missing", False, f"unlinked ({server.get('evidence')})", example)
    else:
        score.note("right" if parent is client else "wrong", certain, f"{server.get('evidence')}", example)


def _inside(score, spans, client, wanted, example):
    if client is None or wanted is None:
        score.note("missing", False, "no span of the call made" if client is None else "no span of the call served", example)
        return
    parent, certain = spans.kernel_parent(client)
    if parent is None:
        score.note("missing", False, f"unlinked ({client.get('evidence')})", example)
    else:
        score.note("right" if parent is wanted else "wrong", certain, f"{client.get('evidence')}", example)


def whole(calls, roots, spans):
    """Number of requests all of whose hops are in one trace, and number of requests."""
    traces = defaultdict(set)
    for made, root in roots.items():
        for capture in ("client-process", "server-process"):
            span = spans.of(made, capture)
            traces[root].add(spans.trace_of[span["span_id"]] if span else None)
    return sum(1 for found in traces.values() if len(found) == 1 and None not in found), len(traces)


def sdk_in_tree(calls, roots, spans):
    """Requests served by payments whose SDK span is a child of the kernel's span of the same
    request, and whose onward call is a child of an SDK span.
    """
    met, total = 0, 0
    for made in roots:
        call = calls[made]
        if call.runtime != "java" or ":8105" not in call.target:
            continue
        total += 1
        server = spans.of(made, "server-process")
        app = [span for span in spans.by_id.values() if span["capture"] == "app" and server
               and span.get("parent") == server["span_id"]]
        onward = [spans.of(other.made, "client-process") for other in calls.values() if other.serving == made]
        under = [span is not None and (spans.parent(span) or {}).get("capture") == "app" for span in onward]
        met += bool(app) and all(under)
    return met, total


def table(inside, hops):
    """The result as Markdown."""
    lines = ["| links | of | right | wrong | missing | recall | certain | wrong of these |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    rows = [(f"inside {name}", score) for name, score in sorted(inside.items())]
    rows += [(f"hop {name}", score) for name, score in sorted(hops.items())]
    for name, score in rows:
        lines.append(f"| {name} | {score.links} | {score.right} | {score.wrong} | {score.missing} | "
                     f"{score.recall:.1%} | {score.certain_right + score.certain_wrong} | {score.certain_wrong} |")
    return "\n".join(lines)
