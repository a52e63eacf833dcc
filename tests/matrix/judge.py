"""Compares the spans of a run with the client's own records."""

from collections import Counter
from dataclasses import dataclass

SIDES = ("client", "server")
SAME_CALL_NANO = 1000


@dataclass(frozen=True)
class Op:
    """One request according to its client: its span's operation, whether it failed (also for its
    server, unless stated otherwise), and its status code if relevant.
    """

    name: str
    failed: bool = False
    code: int | None = None
    sides: tuple = SIDES
    server_failed: bool | None = None

    @classmethod
    def read(cls, note):
        return cls(note["op"], note.get("failed", False), note.get("code"), tuple(note.get("sides", SIDES)),
                   note.get("server_failed"))

    def at(self, side):
        """The expected span on this side."""
        failed = self.failed if side == "client" or self.server_failed is None else self.server_failed
        return self.name, failed, self.code


@dataclass(frozen=True)
class Seen:
    """The evaluated parts of a span."""

    span: str
    parent: str | None
    side: str
    protocol: str
    name: str
    failed: bool
    code: int | None
    start_nano: int
    client_port: int
    request_seq: int | None
    response_seq: int | None
    error: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether a cell passes, and otherwise the reason: the number of correct requests, and the
    number of spans without a request.
    """

    passes: bool
    detail: str = ""
    right: int = 0
    count: int = 0
    more: int = 0


def in_order(spans):
    """By time, and within one call by the sequence numbers of one connection."""
    spans = sorted(spans, key=lambda span: span.start_nano)
    first, call, ends = {}, {}, 0
    for span in spans:
        if span.request_seq is not None:
            first.setdefault(span.client_port, span.request_seq)
        # Messages of one call have the same time, within a nanosecond.
        if span.start_nano > ends:
            ends = span.start_nano + SAME_CALL_NANO
        call[span.span] = ends

    def place(span):
        if span.request_seq is None:
            return 0
        # Sequence numbers wrap at 2^32. A negative distance stays negative.
        return (span.request_seq - first[span.client_port] + 2**31) % 2**32

    return sorted(spans, key=lambda span: (call[span.span], span.client_port, place(span)))


def judge(ops, spans, side, ordered):
    """Each request exactly once on this side, with its name and status."""
    wants = [op.at(side) for op in ops if side in op.sides]
    if not wants:
        return Verdict(False, "the client did nothing")
    coded = any(code is not None for *_, code in wants)
    haves = [(span.name, span.failed, span.code if coded else None)
             for span in in_order([span for span in spans if span.side == side])]
    if ordered and len(wants) == len(haves):
        wrong = [(want, have) for want, have in zip(wants, haves) if want != have]
        if not wrong:
            return Verdict(True, right=len(wants), count=len(wants))
        if Counter(name for name, *_ in wants) == Counter(name for name, *_ in haves):
            want, have = wrong[0]
            return Verdict(False, f"{len(wrong)} of {len(wants)} differ, the first: {text(want)} is {text(have)}",
                           len(wants) - len(wrong), len(wants), len(wrong))
    wants, haves = Counter(wants), Counter(haves)
    missing, more = wants - haves, haves - wants
    count, right = wants.total(), (wants & haves).total()
    if not missing and not more:
        return Verdict(not ordered, "in another order" if ordered else "", right, count)
    return Verdict(False, f"missing {listed(missing)} of {count}; unexpected {listed(more)}", right, count, more.total())


def joined(ops, spans):
    """Number of requests captured on both sides that form a hop: (joined, all)."""
    names = {op.name for op in ops if set(op.sides) == set(SIDES)}
    by_id = {span.span: span for span in spans if span.name in names}
    # The client's span is the parent of a request, and the server's of a delivery.
    hops = sum(span.name == by_id[span.parent].name and span.side != by_id[span.parent].side
               for span in by_id.values() if span.parent in by_id)
    return hops, max(sum(span.side == side for span in by_id.values()) for side in SIDES)


def text(what):
    name, failed, code = what
    return f"`{name}`{' failed' if failed else ''}{'' if code is None else f' {code}'}"


def listed(counter, at_most=4):
    total = sum(counter.values())
    some = ", ".join(text(what) + (f" x{count}" if count > 1 else "") for what, count in counter.most_common(at_most))
    return f"{total} ({some}{', …' if len(counter) > at_most else ''})" if total else "none"
