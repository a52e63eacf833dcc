#!/usr/bin/env python3
"""Which protocols are parsed, tested with real servers and clients.

    matrix.py [--spanwise PROGRAM] [--only NAME …] [--write FILE] [--keep]
    matrix.py --install

Every server is started, in plaintext and with TLS, under the agent. A client sends requests
sequentially, then pipelined, then concurrently on one connection. A cell passes if each request
makes exactly one span on that side, with the right operation and status, and in the right order if
there is one. Exits with 1 if a cell is not as expected. A gap that has closed is also unexpected.

Needs the right to load eBPF programs, and what `--install` installs.
"""

import argparse
import http.server
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import report  # noqa: E402
from judge import SIDES, Op, Seen, joined, judge  # noqa: E402
from rows import ROWS, TLS  # noqa: E402
from spanwise import Spanwise, binary  # noqa: E402

CLIENT_SECONDS = 90
# Maximum time to wait for expected spans, and time to wait for unexpected ones.
SPANS_SECONDS, QUIET_SECONDS = 8, 1.2
# Maximum delay of the agent on a busy host.
MARKER_SECONDS = 60
# Time for attaching probes after a server or a library is first seen.
PROBES_SECONDS = 1.0
TRIES, LOST_PAUSE_SECONDS = 6, 5
COLUMNS = """encode(span_id, 'hex'), encode(assembled_parent, 'hex'), capture, protocol, operation, status, status_code,
    start_unix_nano, error, server_address, client_port, request_tcp_seq, response_tcp_seq"""


class Broken(Exception):
    """A server or client failed."""


class Behind(Broken):
    """The agent cannot keep up."""


class Marker:
    """A marker request. When its span is stored, earlier events have been read. When its two sides
    are joined, earlier parents are known.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, spanwise):
        """Waits until everything so far is stored with its parents."""
        since, deadline = time.time_ns(), time.monotonic() + MARKER_SECONDS
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/marker", timeout=10).close()
        while not int(spanwise.sql(f"SELECT count(*) FROM spans WHERE server_port = {self.port} "
                                   f"AND start_unix_nano >= {since} AND assembled_parent IS NOT NULL")[0][0]):
            if time.monotonic() > deadline:
                raise Behind(f"the agent is more than {MARKER_SECONDS} s behind")
            time.sleep(0.1)


MARKER = Marker()


def spans(spanwise, server, since_nano):
    """What the agent captured at a server since then, oldest first."""
    rows = spanwise.sql(f"""SELECT {COLUMNS} FROM spans WHERE start_unix_nano >= {since_nano}
        AND server_port = {server.port} ORDER BY start_unix_nano LIMIT 5000""")
    found = []
    for span, parent, capture, protocol, operation, status, code, start, error, address, port, request, response in rows:
        if address not in (server.address, None):
            continue
        # A broker delivers messages. The client is the server of such a span.
        handed_over = operation.startswith("deliver ")
        side = "client" if (capture == "client-process") != handed_over else "server"
        found.append(Seen(span, parent, side, protocol, operation, status == "error", code, int(start), port, request,
                          response, error))
    return found


def settle(spanwise, server, since_nano, count):
    """The spans when no more arrive; `count` are expected."""
    deadline, quiet, seen = time.monotonic() + SPANS_SECONDS, None, []
    while time.monotonic() < deadline:
        now = spans(spanwise, server, since_nano)
        if now != seen or quiet is None:
            seen, quiet = now, time.monotonic()
        # Parents are known within the next second, unless the host is busy.
        elif len(seen) >= count and time.monotonic() - quiet > QUIET_SECONDS:
            return now
        time.sleep(0.3)
    return seen


def ask(row, server, mode, certificate, log):
    """Runs the client. Returns its records."""
    command = [*row.command, mode, str(getattr(server, "asked_port", server.port)),
               *([str(certificate)] if certificate else [])]
    log.write(f"\n$ {' '.join(command)}\n")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise Broken(f"the client did not end within {CLIENT_SECONDS} s") from late
    log.write(done.stdout + done.stderr)
    log.flush()
    if done.returncode:
        raise Broken(f"the client ended with exit code {done.returncode}: {done.stderr.strip()[-1500:]}")
    return [Op.read(json.loads(line)) for line in done.stdout.splitlines()]


def counters(spanwise):
    return spanwise.get("status")["agent"]["counters"]


def run_mode(spanwise, row, encryption, mode, server, certificate, log):
    """The cell of a mode. If the agent lost events meanwhile, because the host was busy, the cell
    is run again.
    """
    for left in reversed(range(TRIES)):
        try:
            cell, lost = try_mode(spanwise, row, encryption, mode, server, certificate, log)
        except Behind as behind:
            if not left:
                raise
            print(f"      {behind}: again", flush=True)
            continue
        if not lost or cell.as_expected():
            break
        print(f"      {lost} events lost of all this machine's: again", flush=True)
        time.sleep(LOST_PAUSE_SECONDS)
    return cell


def try_mode(spanwise, row, encryption, mode, server, certificate, log):
    """The cell of a mode, and the number of lost events."""
    before, since = counters(spanwise), time.time_ns()
    ops = ask(row, server, mode, certificate, log)
    MARKER.wait(spanwise)
    count = sum(len(op.sides) for op in ops)
    seen = [span for span in settle(spanwise, server, since, count) if not row.sets_up(span.name)]
    for span in seen:
        log.write(f"  {span}\n")
    changed = {name: now - before.get(name, 0) for name, now in counters(spanwise).items()
               if now != before.get(name, 0) and re.search("lost|malformed|gap|orphan|over_limit|without_socket", name)}
    log.write(f"  counters: {changed}\n")
    verdicts = {}
    for side in SIDES:
        protocols = {span.protocol for span in seen if span.side == side}
        verdicts[side] = report.Half(judge(ops, seen, side, row.ordered(mode)), row.gap(encryption, mode, side), protocols)
    hops = joined(ops, seen) if all(half.verdict.passes for half in verdicts.values()) else None
    cell = report.Cell(verdicts, len(ops), hops, row.unjoined.get((encryption, mode)))
    if not cell.as_expected():
        print(f"      counters: {changed}")
    return cell, changed.get("events_lost_in_kernel", 0)


def run_row(spanwise, row, encryption, log):
    """The cells of half a row: mode to cell."""
    cells = {}
    with row.start(encryption == TLS) as server:
        certificate = server.directory / "certificate.pem" if encryption == TLS else None
        if encryption == TLS:
            # A process that ends soon after its start is not examined the first time.
            time.sleep(PROBES_SECONDS)
            ask(row, server, row.modes[0], certificate, log)
            time.sleep(PROBES_SECONDS)
        for mode in row.modes:
            cells[mode] = run_mode(spanwise, row, encryption, mode, server, certificate, log)
            print(f"{row.protocol} ({row.server}) {encryption} {mode}: {cells[mode]}", flush=True)
    return cells


def run(spanwise, rows, log):
    """Cells by row, encryption and mode. An error takes the place of its cells."""
    found, broke = {}, []
    for row in rows:
        for encryption in row.encryptions:
            # A server or client that fails by itself says nothing about the agent.
            for last in (False, True):
                try:
                    found[row.name, encryption] = run_row(spanwise, row, encryption, log)
                    break
                except (Exception, SystemExit) as error:
                    print(f"BROKEN {row.name} {encryption}{'' if last else ', again'}: {error}", flush=True)
                    if last:
                        broke.append(f"{row.name} {encryption}: {error}")
    return found, broke


def interrupted(*_):
    # Only once: a second signal must not interrupt the cleanup.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def chosen(names):
    known = [row.name for row in ROWS]
    for name in names:
        if name not in known:
            raise SystemExit(f"no row {name}; there are {', '.join(known)}")
    return [row for row in ROWS if not names or row.name in names]


def running_agent(spanwise, seconds=30):
    deadline = time.monotonic() + seconds
    while (agent := spanwise.get("status")["agent"])["state"] == "starting" and time.monotonic() < deadline:
        time.sleep(0.1)
    if agent["state"] != "running":
        raise SystemExit(f"the agent does not run: {agent['state']}, {agent.get('reason')}")
    return agent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="get what servers and clients need, and end")
    parser.add_argument("--spanwise", help="the program to test (default: target/release/spanwise, else the debug build)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these rows and no others")
    parser.add_argument("--write", metavar="FILE", help="write the matrix there")
    parser.add_argument("--keep", action="store_true", help="keep logs, and say where they are")
    options = parser.parse_args()
    import install
    if options.install:
        return install.install()
    install.into_venv()
    rows, program = chosen(options.only), binary(options.spanwise)
    # Ends everything that was started.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)

    work = Path(tempfile.mkdtemp(prefix="spanwise-matrix-"))
    config = work / "spanwise.toml"
    # The host's other traffic is captured, too.
    config.write_text('[agent]\nring_bytes = "64MiB"\n')
    spanwise = Spanwise(program, work / "data", work / "spanwise.log", config=config)
    keep = options.keep
    try:
        spanwise.start()
        agent = running_agent(spanwise)
        with (work / "matrix.log").open("w") as log:
            found, broke = run(spanwise, rows, log)
        text = report.markdown(rows, found, agent["hook"])
        print(f"\n{text}")
        if options.write:
            Path(options.write).write_text(text)
        passed, failed = report.count(found)
        failed += broke
        for name in failed:
            print(f"failed: {name}")
        print(f"{passed} passed, {len(failed)} failed")
        keep |= bool(failed)
        return 1 if failed else 0
    finally:
        spanwise.stop() if spanwise.process else None
        if keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
