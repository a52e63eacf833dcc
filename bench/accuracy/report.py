"""Tables and figures of a run."""

import datetime
import platform

from runtimes import CONCURRENCIES, MEANING, TIMED_AT
from score import Score


# Minimum recall of an evidence for it to be mentioned.
WORTH_A_WORD = 0.01
# From this many links on, what they say is held against how often they are right.
LEAST_IN_BIN = 200
MOST_OFF = 0.05


def share(value):
    return "–" if value is None else f"{value:.3f}"


def line(cell):
    """A cell as one line."""
    if cell.reason:
        return f"{cell.name:<34} cannot run: {cell.reason}"
    score = cell.score
    wrong = score.links.made - score.links.right
    certain_wrong = score.certain.made - score.certain.right
    evidence = ", ".join(f"{name} {links.right}/{links.made}" for name, links in sorted(score.by_evidence.items()))
    lost = ", ".join(f"{name} {count}" for name, count in sorted(cell.lost.items()))
    return (f"{cell.name:<34} recall {share(score.recall)}  precision {share(score.links.precision)}  "
            f"certain {share(score.certain.precision)}  of {score.true_links} links: wrong {wrong} ({certain_wrong} certain), "
            f"ambiguous {score.ambiguous}, alone {score.alone}, missing calls {score.missing_calls}, "
            f"missing requests {score.missing_requests}, twice {score.twice}, over {score.connections} connections"
            f"{f'; {evidence}' if evidence else ''}{f'; counted: {lost}' if lost else ''}")


def figures(cells):
    """Lines for programs. Without links, there is no precision."""
    lines = []
    for cell in cells:
        if cell.reason:
            lines.append(f"# accuracy.{cell.name}: cannot run: {' '.join(cell.reason.split())[:200]}")
            continue
        score, name = cell.score, f"figure accuracy.{cell.name}"
        lines.append(f"{name}.recall {score.recall:.4f} 1")
        for what, links in (("precision", score.links), ("certain_precision", score.certain)):
            if links.made:
                lines.append(f"{name}.{what} {links.precision:.4f} 1")
            elif not cell.flags:
                lines.append(f"# accuracy.{cell.name}.{what}: no links made")
    for concurrency in TIMED_AT:
        timed = summed(cell for cell in timed_cells(cells) if cell.concurrency == concurrency)
        if timed.true_links:
            name = "accuracy.timing_only" + ("" if concurrency == TIMED_AT[0] else f".c{concurrency}")
            lines.append(f"figure {name}.right_share {timed.recall:.4f} 1")
            if timed.links.made:
                lines.append(f"figure {name}.precision {timed.links.precision:.4f} 1")
    total = summed(observed_cells(cells))
    lines.append(f"figure accuracy.links_made {total.links.made} 1")
    lines.append(f"figure accuracy.links_wrong {total.links.made - total.links.right} 1")
    lines.append(f"figure accuracy.certain_links_made {total.certain.made} 1")
    behind = summed(cell for cell in observed_cells(cells) if "background" in cell.flags)
    if behind.nobodys:
        lines.append(f"figure accuracy.background_given_share {behind.given / behind.nobodys:.4f} 1")
    worst = worst_bin(cells)
    lines.append("# accuracy.reliability_worst_bin: too few links" if worst is None else
                 f"figure accuracy.reliability_worst_bin {worst:.4f} 1")
    lines.append(f"figure accuracy.certain_wrong {total.certain.made - total.certain.right} 1")
    return lines


def observed_cells(cells):
    """Cells with all evidence."""
    return [cell for cell in cells if not cell.hidden]


def timed_cells(cells):
    """Cells with links by time only."""
    return [cell for cell in cells if cell.hidden]


def summed(cells):
    total = Score()
    for cell in cells:
        if cell.score:
            total.add(cell.score)
    return total


def evidence_table(cells):
    """Links by evidence, as (evidence, made, right, mean confidence)."""
    found = sorted(summed(observed_cells(cells)).by_evidence.items())
    return [(name, links.made, links.right, links.said / links.made) for name, links in found]


def reliability(cells):
    """Links with about the same confidence, as (evidence, made, mean confidence, share that is right)."""
    found = sorted(summed(observed_cells(cells)).by_confidence.items())
    return [(evidence, links.made, links.said / links.made, links.precision) for (evidence, _), links in found]


def checked(cells):
    return [cell for cell in cells if not cell.runtime.fits]


def worst_bin(cells):
    """The largest difference between what links say and how often they are right, in programs that
    nothing was fitted to. None if there are too few links of every kind.
    """
    kinds = summed(observed_cells(checked(cells))).by_confidence.values()
    return max((links.off for links in kinds if links.made >= LEAST_IN_BIN), default=None)


def print_all(cells, hook, seconds):
    print(f"\n{'':<34}{'recall':>8}{'precision':>11}{'certain':>9}{'guesses':>9}{'links':>8}{'ambiguous':>11}{'alone':>7}"
          f"{'missing':>9}")
    for cell in cells:
        if cell.reason:
            print(f"{cell.name:<34}  cannot run: {' '.join(cell.reason.split())[:110]}")
            continue
        score = cell.score
        print(f"{cell.name:<34}{share(score.recall):>8}{share(score.links.precision):>11}"
              f"{share(score.certain.precision):>9}{share(score.guesses.precision):>9}{score.true_links:>8}"
              f"{score.ambiguous:>11}{score.alone:>7}{score.missing_calls:>9}")
    print("\nby evidence:")
    for name, made, right, said in evidence_table(cells):
        print(f"  {name:<16}{made:>9} made{right:>9} right, {right / made:.4f} of them; said {said:.4f}")
    for what, some in (("fitted to", [cell for cell in cells if cell.runtime.fits]), ("checked", checked(cells))):
        print(f"\nreliability, programs {what}:")
        for name, made, said, right in reliability(some):
            print(f"  {name:<16}{made:>9} made, said {said:.3f}, right {right:.3f}"
                  f"{' *' if made >= LEAST_IN_BIN and abs(said - right) > MOST_OFF else ''}")
    lost = sum(cell.lost.get("events_lost_in_kernel", 0) for cell in cells)
    print(f"\n{seconds:.0f} s; hooks {hook}; {lost} events lost in the kernel")
    for text in figures(cells):
        print(text)


# ---- the document ----------------------------------------------------------

INTRODUCTION = """<!-- Made by `make bench-accuracy`; not to be edited. -->
# How often implicit tracing is right

For which request did a process make a call? Without headers, the agent infers it from system calls: threads, tasks, times, sequence numbers. How often it is right depends on the runtime. These are the results of one run, failures included:

    make bench-accuracy BENCH_ACCURACY='--write docs/accuracy.md'
    make bench-accuracy BENCH_ACCURACY='--only go,python-asyncio'

Measured on {date}, Linux {kernel} on {machine}, {processors} processors, hooks `{hook}`.

A program serves requests and makes two calls for each, one after the other, over kept connections, by HTTP/1 in plain text, with a little work and pauses of a millisecond or two (in Node.js, Netty and tokio only in the variant `timers`). A backend takes a random 1 to 10 ms to answer. The load has 1, 8, 64 or 256 concurrent requests, each on a connection of its own; over HTTP/2 and gRPC up to 64 share one. Each cell has a new process, {seconds:g} seconds or {most} requests of load after 40 requests one by one. Each request and each call has a random token in its path. The program writes to a file which calls belong to which request; nothing on the network says so. (A proxy cannot write that. It forwards the path, so the token is the same on both sides. Agent and server do not compare paths of zero-code spans.) Then every written call is looked up among the spans.

- **recall**: the share of all calls whose parents lead to the right request. A call without a span or without a parent counts as not found.
- **precision**: the share of links that are right. – without links.
- **wrong**: links to another request. They matter most among links called *certain* (confidence 0.999 or more). *Guessed* means that most of the right links were not called certain.
- **ambiguous**: several requests were possible. None was chosen; the trace ends there and says so.

Load, backend, server and agent share the machine's processors with the program, so it is busier than in production. A closed loop of 256 requests is more overlap than most processes ever have. Both are intended.
"""


TIMED = """Every runtime once more, with few concurrent requests: the share of calls with the right link. Only times, processes and kinds of operations are kept: no task, thread or connection. A separate server gets these, and its assembler has only time to decide which call was for which request. It also sees the warm-up of one request at a time, without the truth. (In the tables above, timing gets only the calls without other evidence.)"""


RELIABILITY = """Links of the programs to which no confidence was fitted, by ranges of confidence: what they say on average, and the share of them that is right."""


UNLINKED = """Cells with wrong links, with calls without a parent that are not ambiguous, or without a span for every call and request. In all other cells each call has the right link or is ambiguous. Spans are missing because TLS of the JVM is not read, and because HTTP/2 messages beyond the captured bytes of one call are lost until more is captured ([protocols.md](protocols.md))."""


def markdown(cells, hook, seconds, most, processors):
    timed, cells = timed_cells(cells), observed_cells(cells)
    base = [cell for cell in cells if not cell.flags]
    told = INTRODUCTION.format(date=datetime.date.today(), kernel=platform.release(), machine=platform.machine(),
                               processors=processors, hook=hook, seconds=seconds, most=most)
    lines = [told, "## By runtime", "",
             "Recall at each number of concurrent requests. Below it: wrong links of all links, if any.", "",
             "| runtime | " + " | ".join(map(str, CONCURRENCIES)) + " |", "| --- |" + " --- |" * len(CONCURRENCIES)]
    for runtime in dict.fromkeys(cell.runtime for cell in base):
        by = {cell.concurrency: cell for cell in base if cell.runtime is runtime}
        lines.append(f"| {runtime.what} (`{runtime.name}`) | "
                     + " | ".join(brief(by[number]) if number in by else "" for number in CONCURRENCIES) + " |")
    lines += ["", "## Variants", "", "Each variant differs from the base in one thing. In the base every call "
              "belongs to a request, so with one concurrent request even a guess is right. `background` shows what such "
              "guesses are worth.", ""]
    lines += [f"- `{name}`: {meaning}" for name, meaning in MEANING.items()]
    varied = [cell for cell in cells if cell.flags]
    at = sorted({cell.concurrency for cell in varied})
    lines += ["", "| runtime | variant | " + " | ".join(map(str, at)) + " |",
              "| --- | --- |" + " --- |" * len(at)]
    for runtime, flags in dict.fromkeys((cell.runtime, cell.flags) for cell in varied):
        by = {cell.concurrency: cell for cell in varied if (cell.runtime, cell.flags) == (runtime, flags)}
        lines.append(f"| `{runtime.name}` | {', '.join(f'`{flag}`' for flag in flags)} | "
                     + " | ".join(brief(by[number]) if number in by else "" for number in at) + " |")
    lines += ["", "## By evidence", "", "All cells together. *Said* is the mean confidence of the links, to compare "
              "with their precision.", "", "| evidence | links | right | precision | said |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {made} | {right} | {right / made:.4f} | {said:.4f} |"
              for name, made, right, said in evidence_table(cells)]
    total = summed(cells)
    for name, links in (("called certain", total.certain), ("guesses", total.guesses)):
        lines.append(f"| *{name}* | {links.made} | {links.right} | "
                     f"{'–' if links.precision is None else f'{links.precision:.4f}'} | |")
    lines += ["", "## Reliability", "", RELIABILITY, "", "| evidence | links | said | right |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {made} | {said:.3f} | {right:.3f} |" for name, made, said, right in reliability(checked(cells))]
    lines += timed_table(timed)
    lines += ["", "## What is wrong or missing", "", UNLINKED, "",
              "| cell | calls | right | wrong | ambiguous | no parent | no span of the call | no span of the request |",
              "| --- |" + " --- |" * 7]
    for cell in cells:
        if cell.reason:
            continue
        score = cell.score
        if score.links.right < score.links.made or score.alone or score.missing_calls or score.missing_requests:
            lines.append(f"| `{cell.name}` | {score.true_links} | {score.links.right} | "
                         f"{score.links.made - score.links.right} | {score.ambiguous} | {score.alone} | "
                         f"{score.missing_calls} | {score.missing_requests} |")
    reasons = dict.fromkeys((cell.runtime.name, cell.variant, " ".join(cell.reason.split())[:200])
                            for cell in cells if cell.reason)
    if reasons:
        lines += ["", "Did not run:", ""]
        lines += [f"- `{name}`{f' `{variant}`' if variant else ''}: {reason}" for name, variant, reason in reasons]
    return "\n".join(lines) + "\n"


def timed_table(cells):
    """Results of links by time, as lines of the document."""
    if not summed(cells).true_links:
        return []
    lines = ["", "## Time alone", "", TIMED, "",
             "| runtime | " + " | ".join(f"{count} under way" for count in TIMED_AT) + " |", "| --- |" + " --- |" * len(TIMED_AT)]
    for name in [*dict.fromkeys(cell.runtime.name for cell in cells), None]:
        parts = []
        for concurrency in TIMED_AT:
            found = summed(cell for cell in cells if cell.concurrency == concurrency and name in (None, cell.runtime.name))
            wrong = found.links.made - found.links.right
            parts.append("did not run" if not found.true_links else f"{100 * found.recall:.1f} %" + (
                f"<br>{wrong} of {found.links.made} wrong" if wrong else ""))
        lines.append(f"| {f'`{name}`' if name else '*all*'} | " + " | ".join(parts) + " |")
    return lines


def brief(cell):
    """A cell of the document's tables."""
    if cell.reason:
        return "did not run"
    score = cell.score
    wrong = score.links.made - score.links.right
    certain = score.certain.made - score.certain.right
    text = f"{100 * score.recall:.1f} %"
    if score.recall >= WORTH_A_WORD and score.certain.right < score.links.right / 2:
        text += ", guessed"
    if wrong:
        text += f"<br>{wrong} of {score.links.made} wrong" + (f", **{certain} certain**" if certain else "")
    return text
