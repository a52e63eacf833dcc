#!/usr/bin/env python3
"""Accuracy of implicit tracing: for which request was each call made?

The agent decides this from outside the program, without headers and without code changes.

Programs of every kind of runtime serve requests under an agent and make their own calls. They
write to a file which call was for which request. The agent only sees socket traffic. Every request
and call has a random token in its path, so that spans can be compared with the file afterwards.

    accuracy.py --spanwise target/release/spanwise [--only go,python-asyncio] [--all]
                [--write docs/accuracy.md] [--keep DIRECTORY]
    accuracy.py --replay traces.json …
    accuracy.py --install

Needs the right to load eBPF programs, and what `--install` installs.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import cells as run_of  # noqa: E402
import replay  # noqa: E402
import report  # noqa: E402
import runtimes  # noqa: E402
from programs import Programs, end_on_signals, fail, need  # noqa: E402


def runtime_cells(bench, runtime, options):
    """Runs and evaluates the cells of one runtime."""
    cells = run_of.plan(runtime, options)
    reason = runtime.missing()
    if reason:
        for cell in cells:
            cell.reason = reason
        print(f"{runtime.name}: cannot run: {reason}", flush=True)
        return cells
    for cell in cells:
        bench.run(cell)
        load = cell.load
        said = f"cannot run: {cell.reason}" if cell.reason else (
            f"{load['answered']} requests in {load['seconds']:.2f} s, {load['under_way']:.1f} at a time")
        print(f"  {cell.name}: {said}", file=sys.stderr, flush=True)
    bench.settle()
    for cell in cells:
        bench.judge(cell)
        print(report.line(cell), flush=True)
    return cells


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="get what the programs need, and end")
    parser.add_argument("--spanwise", type=pathlib.Path, default=runtimes.ROOT / "target" / "release" / "spanwise",
                        help="the program to measure (default: the release build)")
    parser.add_argument("--only", default="", metavar="NAME,…",
                        help="these runtimes; `java` stands for all whose names begin with it")
    parser.add_argument("--concurrency", type=lambda text: [int(word) for word in text.split(",")], default=None,
                        metavar="N,…", help="requests at a time (default 1,8,64,256)")
    parser.add_argument("--variants-at", type=lambda text: [int(word) for word in text.split(",") if word], default=[8, 64],
                        metavar="N,…", help="concurrencies of the variants (default 8,64)")
    parser.add_argument("--all", action="store_true", help="every combination at every concurrency: some hours")
    parser.add_argument("--seconds", type=float, default=2, help="of a cell's load (default %(default)g)")
    parser.add_argument("--most", type=int, default=2500, help="requests of a cell (default %(default)s)")
    parser.add_argument("--replay", type=pathlib.Path, nargs="+", metavar="FILE",
                        help="score recorded traces (Jaeger's JSON) instead, whose parents are hidden before")
    parser.add_argument("--replay-program", type=pathlib.Path, default=runtimes.REPLAY, metavar="PROGRAM",
                        help="what brings their rows to the server (default: the release build)")
    parser.add_argument("--settle", type=float, default=3, metavar="SECONDS",
                        help="how long a replay waits for the assembler (default %(default)g)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIRECTORY", help="write the rows of wrong traces there")
    parser.add_argument("--record", type=pathlib.Path, metavar="DIRECTORY",
                        help="write what the kernel told of each cell there, for capture/tracer/tests/links.rs; give few")
    parser.add_argument("--keep-logs", action="store_true", help="keep what the programs said and noted")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the tables there")
    options = parser.parse_args()
    if options.write and (options.only or options.concurrency):
        fail("--write wants a whole run, without --only and --concurrency: a document holds what one run found")
    options.spanwise = options.spanwise.resolve()
    for name in ("keep", "record"):
        if getattr(options, name):
            setattr(options, name, getattr(options, name).resolve())
    return options


def replayed(options):
    """Replays recorded traces instead of running programs."""
    if not options.replay_program.exists():
        fail(f"{options.replay_program} is not there; `cargo build --release -p spanwise-bench-replay` builds it")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-replay-"))
    end_on_signals()
    try:
        for text in replay.told(*replay.run(options, directory)):
            print(text)
    except replay.Unreadable as error:
        fail(error)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def main():
    options = arguments()
    if options.install:
        import install
        return install.install()
    if not options.spanwise.exists():
        fail(f"{options.spanwise} is not there; `make bench-accuracy` builds it")
    if options.replay:
        return replayed(options)
    if not runtimes.GO.exists():
        fail(f"{runtimes.GO} is not there; `accuracy.py --install` builds it")
    need({"openssl": "openssl"})
    chosen = runtimes.chosen([name for name in options.only.split(",") if name])
    directory = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-accuracy-"))
    directory.chmod(0o755)
    programs = Programs(directory)
    end_on_signals()
    bench, began = None, time.monotonic()
    try:
        bench = run_of.Bench(options, programs, directory)
        bench.start()
        found = []
        for runtime in chosen:
            found += runtime_cells(bench, runtime, options)
        if options.record:
            judged = [(cell, bench.processes(cell)) for cell in found if cell.score and not cell.hidden]
            bench.stop()
            bench.record(judged)
        report.print_all(found, bench.hook, time.monotonic() - began)
        if options.write:
            options.write.write_text(report.markdown(
                found, bench.hook, options.seconds, options.most, os.cpu_count()))
    finally:
        programs.stop_all()
        if bench:
            bench.stop()
        if options.keep_logs:
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
