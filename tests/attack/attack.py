#!/usr/bin/env python3
"""Attacks the server over the network, each attack within limits, in a separate network namespace.
Prints each attack, what the server did, and whether it withstood. Needs only Python. Exits with 1
if anything broke.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import http2
import pages
import payloads
import slow
import sql
from target import Target, binary

INSIDE = "SPANWISE_ATTACK_INSIDE"
ATTACKS = [*pages.ATTACKS, *slow.ATTACKS, *http2.ATTACKS, *payloads.ATTACKS, *sql.ATTACKS]


def into_namespace():
    """Runs this program again in a network namespace that only has loopback."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'ip link set lo up && exec "$@"'
    command = ["unshare", "--net", *user, "sh", "-c", script, "sh", sys.executable, *sys.argv]
    os.execvpe("unshare", command, {**os.environ, INSIDE: "1"})


def attempt(target, attack):
    """The result of an attack: what the server did, whether it withstood, and the seconds that it
    took.
    """
    start = time.monotonic()
    try:
        did, held = attack(target)
    except Exception as error:  # any error during an attack is a result
        did, held = f"{type(error).__name__}: {error}", False
    if not target.alive():
        did, held = f"ENDED with {target.process.returncode}; {did}", False
        target.start()
    elif not target.works():
        did, held = f"does not answer afterwards; {did}", False
        target.kill()
        target.start()
    return did, held, time.monotonic() - start


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--spanwise", help="the program; default: target/release/spanwise")
    arguments.add_argument("--only", help="attacks whose name matches this pattern")
    options = arguments.parse_args()
    if INSIDE not in os.environ:
        into_namespace()
    chosen = [one for one in ATTACKS if not options.only or re.search(options.only, one.__name__)]
    directory = Path(tempfile.mkdtemp(prefix="spanwise-attack-"))
    target = Target(binary(options.spanwise), directory / "data", directory / "log")
    target.start()
    rows = []
    try:
        for one in chosen:
            did, held, seconds = attempt(target, one)
            rows.append((one.__name__, one.__doc__, str(did), held))
            print(f"{'held ' if held else 'BROKE'} {one.__name__} ({seconds:.0f} s): {did}", flush=True)
    finally:
        target.stop()
    print("\n| attack | what was tried | what the server did | |\n| --- | --- | --- | --- |")
    for name, tried, did, held in rows:
        print(f"| {name} | {' '.join(tried.split())} | {did.replace('|', '/')} | {'held' if held else '**broke**'} |")
    broke = [name for name, _, _, held in rows if not held]
    print(f"\n{len(rows) - len(broke)} of {len(rows)} held" + (f"; broke: {', '.join(broke)}" if broke else ""))
    if broke:
        print(f"the server's log: {target.log_path}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
