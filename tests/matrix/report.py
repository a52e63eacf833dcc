"""The matrix as text."""

import datetime
import platform
from dataclasses import dataclass

from judge import SIDES, Verdict
from rows import MODES, PLAIN, TLS, Gap
from versions import of_servers


@dataclass(frozen=True)
class Half:
    """One side of a cell: the verdict, the known gap, and the protocols of the spans."""

    verdict: Verdict
    gap: Gap | None
    protocols: set

    def complaint(self):
        """What is not as expected, if anything."""
        if self.gap is None:
            return None if self.verdict.passes else self.verdict.detail
        if self.gap.holds(self.verdict, self.protocols):
            return None
        if self.verdict.passes:
            return f"passes, though it is said that {self.gap.reason}"
        return f"not even as it is said to be; {self.verdict.detail}"

    def state(self):
        if self.complaint():
            return f"FAILS: {self.complaint()}"
        if self.verdict.passes:
            return "passes"
        return f"has its known gap, {self.verdict.right} of {self.verdict.count}"


@dataclass(frozen=True)
class Cell:
    """The result of a row's mode: both halves; the number of joined requests, if both sides pass;
    and why not all are, if known.
    """

    halves: dict
    requests: int
    hops: tuple | None
    unjoined: str | None

    def complaint(self, side):
        """What is not as expected on a side, if anything."""
        found = self.halves[side].complaint()
        if found is None and self.hops and self.hops[0] < self.hops[1] and not self.unjoined:
            return f"only {self.hops[0]} of {self.hops[1]} requests are joined with their other side"
        return found

    def as_expected(self):
        return all(self.complaint(side) is None for side in SIDES)

    def __str__(self):
        hops = "" if self.hops is None else f"; {self.hops[0]} of {self.hops[1]} joined"
        return f"{self.requests} requests; {'; '.join(f'{side} {half.state()}' for side, half in self.halves.items())}{hops}"


class Notes:
    """Footnotes, numbered in order of appearance."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, text):
        number = self.numbers.setdefault(text, len(self.numbers) + 1)
        return f"[{number}]"

    def lines(self):
        return [f"{number}. {text}." for text, number in self.numbers.items()]


def count(found):
    """The number of cells that are as expected, and the others."""
    passed, failed = 0, []
    for (name, encryption), cells in found.items():
        for mode, cell in cells.items():
            for side in SIDES:
                complaint = cell.complaint(side)
                if complaint:
                    failed.append(f"{name} {encryption} {mode} {side}: {complaint}")
                else:
                    passed += 1
    return passed, failed


def written(row, encryption, mode, side, found, notes):
    """The text of one cell."""
    if mode not in row.modes:
        return "–"
    cells = found.get((row.name, encryption))
    if cells is None or mode not in cells:
        return "not run"
    cell = cells[mode]
    if cell.complaint(side):
        return "FAIL"
    half = cell.halves[side]
    verdict, gap = half.verdict, half.gap
    if gap and not gap.partly:
        return f"gap {notes(gap.reason)}"
    if not verdict.passes:
        return f"{verdict.right} of {verdict.count} {notes(gap.reason)}"
    reasons = [gap.reason] if gap else []
    reasons += [cell.unjoined] if cell.unjoined and cell.hops and cell.hops[0] < cell.hops[1] else []
    return " ".join(["pass", *map(notes, reasons)])


def table(rows, found, notes):
    heads = [f"{mode}, {side}" for mode in MODES for side in SIDES]
    lines = [f"| protocol | server | client | | {' | '.join(heads)} |", f"|{' --- |' * (4 + len(heads))}"]
    for row in rows:
        for encryption in (PLAIN, TLS):
            if encryption not in row.encryptions:
                continue
            cells = [written(row, encryption, mode, side, found, notes) for mode in MODES for side in SIDES]
            lines.append(f"| {row.protocol} | {row.server} | {row.client} | {encryption} | {' | '.join(cells)} |")
    return lines


HEAD = """<!-- Made by `make matrix`; not to be edited. -->
# The protocol matrix

The result of running real servers and real clients under the agent: `make matrix`, {date}, Linux {kernel} on {machine}, hooks `{hook}`.

A cell passes if every request of the client is exactly one span on that side (the client's process, the server's process), with its operation and status, in order if the protocol has one, and there is no other span. *Sequential*: one request after another. *Pipelined*: several in one go, before the responses, on one connection. *Multiplexed*: several at once on one connection, answered as they finish. – means that the protocol or this pair of programs does not do that. If only some requests have a span, the cell says how many. Over TLS each client ran once before. DNS, Dubbo and FastCGI ran in plain text only. The two spans of every request are joined by their TCP sequence numbers, unless a note says otherwise.
"""


def markdown(rows, found, hook):
    notes = Notes()
    lines = table(rows, found, notes)
    head = HEAD.format(date=datetime.date.today().isoformat(), kernel=platform.release(), machine=platform.machine(), hook=hook)
    parts = [head, "\n".join(lines), ""]
    if notes.numbers:
        parts += ["Gaps:", "", *notes.lines(), ""]
    parts += [f"Versions: {of_servers()}.", ""]
    return "\n".join(parts)
