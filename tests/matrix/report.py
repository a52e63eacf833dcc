"""The matrix as text."""

import datetime
import platform
from dataclasses import dataclass

from judge import SIDES
from rows import MODES, PLAIN, TLS
from versions import of_servers


@dataclass(frozen=True)
class Cell:
    """What a mode of a row gave: side to (verdict, known gap or None); how many
    requests of how many are joined, where both sides pass, and why not all are
    where that is known."""

    verdicts: dict
    requests: int
    hops: tuple | None
    unjoined: str | None

    def complaint(self, side):
        """What is not as expected, if anything is."""
        verdict, gap = self.verdicts[side]
        if not verdict.passes:
            return None if gap else verdict.detail
        if gap:
            return f"passes, though it is said that {gap.reason}"
        if self.hops is None:
            return None
        joined, count = self.hops
        if joined < count and not self.unjoined:
            return f"only {joined} of {count} requests are joined with their other side"
        if joined == count and self.unjoined:
            return f"all requests are joined with their other side, though it is said that {self.unjoined}"
        return None

    def as_expected(self):
        return all(self.complaint(side) is None for side in SIDES)

    def __str__(self):
        words = []
        for side, (verdict, gap) in self.verdicts.items():
            complaint = self.complaint(side)
            state = "passes" if verdict.passes else "has its known gap"
            words.append(f"{side} {f'FAILS: {complaint}' if complaint else state}")
        hops = "" if self.hops is None else f"; {self.hops[0]} of {self.hops[1]} joined"
        return f"{self.requests} requests; {'; '.join(words)}{hops}"


class Notes:
    """Footnotes, numbered as they are met."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, text):
        number = self.numbers.setdefault(text, len(self.numbers) + 1)
        return f"[{number}]"

    def lines(self):
        return [f"{number}. {text}." for text, number in self.numbers.items()]


def count(found):
    """How many cells are as expected, and which are not."""
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
    verdict, gap = cell.verdicts[side]
    if verdict.passes:
        return f"pass {notes(cell.unjoined)}" if cell.unjoined else "pass"
    return f"gap {notes(gap.reason)}" if gap else "FAIL"


def table(rows, found, notes):
    heads = [f"{mode}, {side}" for mode in MODES for side in SIDES]
    lines = [f"| protocol | server; client | | {' | '.join(heads)} |", f"|{' --- |' * (3 + len(heads))}"]
    for row in rows:
        for encryption in (PLAIN, TLS):
            if encryption in row.encryptions:
                cells = [written(row, encryption, mode, side, found, notes) for mode in MODES for side in SIDES]
            elif encryption == TLS and row.no_tls:
                cells = [notes(row.no_tls)] + ["–"] * (len(heads) - 1)
            else:
                continue
            lines.append(f"| {row.protocol} | {row.server}; {row.client} | {encryption} | {' | '.join(cells)} |")
    return lines


HEAD = """<!-- Made by `make matrix`; not to be edited. -->
# The protocol matrix

What a run of real servers and real clients under the agent showed: `make matrix`, {date}, Linux {kernel} on {machine}, hooks `{hook}`.

A cell passes if every request of the client's is exactly one span on that side (the client's process, the server's process), with its operation and its status, in its order where the protocol has one, and nothing else is there. *Sequential*: one thing after another. *Pipelined*: ahead of the answers, in one go, on one connection. *Multiplexed*: several at once on one connection, answered as they are done. – means that the protocol has no such thing. Over TLS each client has run once before.
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
