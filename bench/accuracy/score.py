"""Compares the links made with the true ones.

A link says for which incoming request a call was made. Programs write down the tokens of both. A
token is the last part of a path, and so of a span.
"""

import csv
import io
import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field

# `Evidence::CERTAIN` in model/src/vocabulary.rs.
CERTAIN = 0.999
# There are few spans of its own process above a call.
MAX_CHAIN = 8
SERVER, CLIENT = "server-process", "client-process"
# The programs' notation for background calls.
NOBODY = "-"
# The columns of the query, in the order that `read` expects.
COLUMNS = """encode(span_id, 'hex'), encode(assembled_parent, 'hex'), capture, evidence, confidence,
    attribute(attributes, 'url.path'), coalesce(attribute(attributes, 'rpc.method'),
        attribute(attributes, 'db.query.text')), start_unix_nano, server_port, client_port"""
MOST_EXAMPLES = 5
# Links of one evidence with about the same confidence are compared with what they say.
BINS = 20


@dataclass(frozen=True)
class Span:
    """The evaluated parts of a row. `token` is None if its path has none."""

    id: str
    parent: str | None
    side: str
    token: str | None
    evidence: str | None
    confidence: float | None
    start_nano: int = 0
    client_port: str = ""


@dataclass
class Links:
    """The number of links, of right ones, and the expected number of right ones: the sum of their
    confidences.
    """

    made: int = 0
    right: int = 0
    said: float = 0.0

    def count(self, right, confidence=1.0):
        self.made += 1
        self.right += right
        self.said += confidence

    def add(self, other):
        self.made += other.made
        self.right += other.right
        self.said += other.said

    @property
    def precision(self):
        """None if there are no links."""
        return self.right / self.made if self.made else None

    @property
    def off(self):
        """How far what they say is from how often they are right."""
        return abs(self.said - self.right) / self.made


@dataclass
class Score:
    """The score of a cell. `true_links` is the number of links to find: every call of the program,
    whether or not its span was captured.
    """

    true_links: int = 0
    requests: int = 0
    # Calls that were made for no request, and those of them that were given to one.
    nobodys: int = 0
    given: int = 0
    links: Links = field(default_factory=Links)
    certain: Links = field(default_factory=Links)
    by_evidence: dict = field(default_factory=lambda: defaultdict(Links))
    # The same by evidence and range of confidence: see `bin_of`.
    by_confidence: dict = field(default_factory=lambda: defaultdict(Links))
    ambiguous: int = 0
    alone: int = 0
    missing_calls: int = 0
    missing_requests: int = 0
    twice: int = 0
    # Number of connections on which calls were made, as far as their ports differ.
    connections: int = 0
    wrong: list = field(default_factory=list)

    @property
    def recall(self):
        return self.links.right / self.true_links if self.true_links else None

    @property
    def guesses(self):
        return Links(self.links.made - self.certain.made, self.links.right - self.certain.right)

    def add(self, other):
        for name in ("true_links", "requests", "nobodys", "given", "ambiguous", "alone", "missing_calls", "missing_requests", "twice",
                     "connections"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.links.add(other.links)
        self.certain.add(other.certain)
        for name in ("by_evidence", "by_confidence"):
            for key, links in getattr(other, name).items():
                getattr(self, name)[key].add(links)
        self.wrong += other.wrong


def bin_of(confidence):
    """Which of BINS ranges a confidence is in; certain links have one of their own."""
    return BINS if confidence >= CERTAIN else int(confidence * BINS)


def token(path):
    """`/r/TOKEN`, gRPC's method `r/TOKEN`, or Redis's `GET leaf/TOKEN`."""
    return path.rpartition("/")[2].strip('"') or None if path else None


def ask(port, query):
    """The server's answer in CSV."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/sql?format=csv", query.encode(),
                                     {"Content-Type": "text/plain", "Spanwise-Request": "bench"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            if "Spanwise-Truncated-Rows" in reply.headers:
                raise SystemExit("accuracy: there are more rows than an answer may have; give a smaller --most")
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"accuracy: {error.code}: {error.read().decode(errors='replace')[:500]}") from error


def read(text, port):
    """The spans in an answer with COLUMNS. Requests are those served at `port`. Others may have
    the same token, if a proxy forwards it.
    """
    found = []
    for row in list(csv.reader(io.StringIO(text)))[1:]:
        span, parent, side, evidence, confidence, path, method, start, served_at, client_port = row
        own = side != SERVER or served_at == str(port)
        found.append(Span(span, parent or None, side, token(path or method) if own else None, evidence or None,
                          float(confidence) if confidence else None, int(start), client_port))
    return found


def read_notes(text):
    """Parses a program's notes: the token of a request, followed by those of its calls."""
    return [(request, calls) for request, *calls in (line.split() for line in text.splitlines())]


def climb(span, by_id):
    """The server's span to which a call's parents lead, with the weakest link on the way: (span,
    evidence, confidence). The span is None if they lead elsewhere.
    """
    evidence, confidence = span.evidence, span.confidence if span.confidence is not None else 0.0
    at = by_id.get(span.parent)
    for _ in range(MAX_CHAIN):
        if at is None or at.side == SERVER:
            return at, evidence, confidence
        if at.confidence is not None and at.confidence < confidence:
            evidence, confidence = at.evidence, at.confidence
        at = by_id.get(at.parent)
    return None, evidence, confidence


def score(truth, spans, roots=()):
    """`truth` maps each call's token to its request's. `spans` are the requests that the program
    served and the calls that it made. Calls in `roots` were made for no request, so any link of
    them is wrong.
    """
    found = Score(true_links=len(truth), requests=len(set(truth.values())), nobodys=len(roots))
    by_id = {span.id: span for span in spans}
    calls = defaultdict(list)
    for span in spans:
        if span.side == CLIENT and (span.token in truth or span.token in roots):
            calls[span.token].append(span)
    found.connections = len({span.client_port for spans in calls.values() for span in spans})
    served = {span.token for span in spans if span.side == SERVER}
    found.missing_requests = len(set(truth.values()) - served)
    for call, request in [*truth.items(), *((call, None) for call in roots)]:
        seen = sorted(calls[call], key=lambda span: span.start_nano)
        if request is None and not (seen and seen[0].parent):
            continue
        if not seen:
            found.missing_calls += 1
            continue
        found.twice += len(seen) - 1
        span = seen[0]
        if span.parent is None:
            if span.evidence == "ambiguous":
                found.ambiguous += 1
            else:
                found.alone += 1
            continue
        at, evidence, confidence = climb(span, by_id)
        right = at is not None and request is not None and at.token == request
        found.links.count(right)
        found.given += request is None
        found.by_evidence[evidence or "none"].count(right, confidence)
        found.by_confidence[evidence or "none", bin_of(confidence)].count(right, confidence)
        if confidence >= CERTAIN:
            found.certain.count(right)
        if not right and len(found.wrong) < MOST_EXAMPLES:
            found.wrong.append({
                "call": call, "call_span": span.id, "is_for": request, "led_to": at.token if at else None,
                "led_to_span": at.id if at else None, "evidence": evidence, "confidence": confidence})
    return found
