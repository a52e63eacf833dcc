#!/usr/bin/env python3
"""The UI in headless Chromium, against the shop under the tracer.

Starts both, waits until requests have been traced, and runs
web/test/browser.mjs, which searches, opens a trace, reads the tree from the
page and saves screenshots to tests/e2e/out/screenshots.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from shop import Shop
from spanwise import ROOT, Spanwise, binary

REQUESTS = 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to test")
    parser.add_argument("--out", default=ROOT / "tests" / "e2e" / "out" / "screenshots", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spanwise-browser-") as directory:
        spanwise = Spanwise(binary(options.spanwise), Path(directory) / "data",
                            options.out.parent / "browser-spanwise.log")
        spanwise.start()
        try:
            with Shop(Path(directory) / "truth", spanwise.otlp, None) as shop:
                print(shop.load(concurrency=1, requests=REQUESTS, seed=3))
                spanwise.wait_quiet()
                result = subprocess.run(
                    ["node", str(ROOT / "web" / "test" / "browser.mjs"),
                     f"http://127.0.0.1:{spanwise.http}", str(options.out)], check=False)
        finally:
            spanwise.stop()
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
