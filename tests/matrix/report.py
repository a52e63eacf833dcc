"""The matrix as text."""

import datetime
import platform
from dataclasses import dataclass

from judge import SIDES
from rows import MODES, PLAIN, TLS
from versions import of_servers


@dataclass(frozen=True)
class Cell:
    """What a mode of a row gave: side to (verdict, known gap or None)."""

    verdicts: dict
    requests: int
    hops: tuple | None

    def as_expected(self, side):
        verdict, gap = self.verdicts[side]
        return verdict.passes == (gap is None)

    def __str__(self):
        words = []
        for side, (verdict, gap) in self.verdicts.items():
            if verdict.passes:
                words.append(f"{side} passes" + (f", though it is said not to: {gap.reason}" if gap else ""))
            elif gap:
                words.append(f"{side} has the gap that is known: {gap.reason} ({verdict.detail})")
            else:
                words.append(f"{side} FAILS, {verdict.detail}")
        hops = "" if self.hops is None else f"; {self.hops[0]} of {self.hops[1]} hops joined"
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
                if cell.as_expected(side):
                    passed += 1
                else:
                    verdict, gap = cell.verdicts[side]
                    why = "a gap that has closed" if verdict.passes else verdict.detail
                    failed.append(f"{name} {encryption} {mode} {side}: {why}")
    return passed, failed


def written(row, encryption, mode, side, found, notes):
    """The text of one cell."""
    if mode in row.not_run:
        return notes(row.not_run[mode])
    if mode not in row.modes:
        return "–"
    cells = found.get((row.name, encryption))
    if cells is None or mode not in cells:
        return "not run"
    verdict, gap = cells[mode].verdicts[side]
    if verdict.passes:
        return "pass"
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
