#!/usr/bin/env python3
"""Breaks the demo's shop, and finds the cause each time in the UI.

The shop runs under `spanwise up`, seen by zero-code capture. Each fault is on for some seconds;
then web/test/walkthroughs.mjs goes from the overview to the cause, with six clicks at most, checks
what it finds, and makes the pictures of docs/walkthroughs. Needs root, as the agent does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shop import Shop
from spanwise import ROOT, Spanwise, binary

sys.path.insert(0, str(ROOT / "demo"))
from manager import faults, layout  # noqa: E402

CASES = {
    "slow-query": ("slow-query", "catalog"),
    "failing-dependency": ("failing-dependency", "ledger"),
    "packet-loss": ("packet-loss", "catalog"),
    "lock-contention": ("lock-contention", "stock"),
    "retry-storm": ("retry-storm", "stock"),
    "n-plus-one": ("n-plus-one", "catalog"),
}


def load(rate):
    """Customers at a steady rate, until they are stopped."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "demo" / "loadgen" / "loadgen.py"), "--rate", str(rate),
         "--url", f"http://127.0.0.1:{layout.PORTS['nginx']}"],
        env=os.environ | {"SHOP_SERVICE": "loadgen"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def settle(spanwise, end_seconds, most=60):
    """Waits until spans that started then are assembled."""
    statement = "SELECT max(start_unix_nano) FROM spans WHERE assembled_trace_id IS NOT NULL"
    for _ in range(most):
        newest = spanwise.sql(statement)[0][0]
        if newest and int(newest) > end_seconds * 1e9:
            return
        time.sleep(1)
    raise SystemExit(f"nothing of the last {most} s was assembled")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program")
    parser.add_argument("--out", default=ROOT / "docs" / "walkthroughs", type=Path, help="for the pictures")
    parser.add_argument("--ui", help="address of the UI, if it is not the program's own")
    parser.add_argument("--only", type=lambda text: text.split(","), help="only these: " + ", ".join(CASES))
    parser.add_argument("--rate", type=float, default=25, help="requests a second")
    parser.add_argument("--seconds", type=float, default=40, help="how long each fault lasts")
    parser.add_argument("--quiet", type=float, default=20, help="how long nothing is wrong before each")
    options = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(prefix="spanwise-walkthroughs-") as directory:
        spanwise = Spanwise(binary(options.spanwise), Path(directory) / "data", Path(directory) / "spanwise.log")
        spanwise.start()
        try:
            with Shop(Path(directory) / "truth", 9, None):
                customers = load(options.rate)
                try:
                    for name, (fault, service) in CASES.items():
                        if options.only and name not in options.only:
                            continue
                        time.sleep(options.quiet)
                        faults.switch(fault, "on", service)
                        start = time.time()
                        time.sleep(options.seconds)
                        faults.switch(fault, "off", service)
                        settle(spanwise, start + options.seconds)
                        done = subprocess.run(
                            ["node", str(ROOT / "web" / "test" / "walkthroughs.mjs"),
                             options.ui or f"http://127.0.0.1:{spanwise.http}", str(options.out), name, service,
                             str(start)], check=False, env=os.environ | {"API": f"http://127.0.0.1:{spanwise.http}"})
                        if done.returncode:
                            failed.append(name)
                finally:
                    customers.terminate()
                    customers.wait(10)
        finally:
            spanwise.stop()
    if failed:
        raise SystemExit(f"not found: {', '.join(failed)}")


if __name__ == "__main__":
    main()
