#!/usr/bin/env python3
"""The shop under the tracer: `make demo`.

Starts `spanwise up`, then the shop with its load, and prints where to look.
Ctrl-C stops both, the shop first, and leaves nothing behind.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from manager.install import install
from manager.layout import DEMO, LOG, ShopError
from manager.shop import Shop
from shop import interrupted, say

READY_SECONDS = 20
STOP_SECONDS = 15


class Tracer:
    """`spanwise up` with a temporary data directory."""

    def __init__(self, program, http):
        self.url = f"http://127.0.0.1:{http}"
        self.data = tempfile.mkdtemp(prefix="spanwise-demo-")
        LOG.mkdir(parents=True, exist_ok=True)
        # Beside the shop's logs. The shop's start removes that directory.
        self.log = os.path.join(self.data, "spanwise.log")
        command = [os.path.abspath(program), "up", "--data", os.path.join(self.data, "spans"),
                   "--config", str(DEMO / "spanwise.toml"), "--http", str(http)]
        try:
            with open(self.log, "wb") as log:
                # In a new session, so that the terminal's Ctrl-C only reaches this script.
                self.process = subprocess.Popen(command, stdout=log, stderr=log,
                                                start_new_session=True)
        except OSError as error:
            shutil.rmtree(self.data, ignore_errors=True)
            raise ShopError(f"cannot start {program}: {error}; `make build` makes it") from None

    def __enter__(self):
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception):
        self.stop()

    def _wait(self):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise ShopError(f"spanwise ended with exit code {self.process.returncode}:\n"
                                + self.tail())
            try:
                self.agent = self.status()["agent"]
                if self.agent["state"] != "starting":
                    return
            except (OSError, ValueError, KeyError):
                pass
            time.sleep(0.05)
        raise ShopError(f"spanwise does not answer at {self.url} after {READY_SECONDS} s:\n"
                        + self.tail())

    def status(self):
        with urllib.request.urlopen(self.url + "/api/v1/status", timeout=2) as reply:
            return json.load(reply)

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-12:]).rstrip()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.data, ignore_errors=True)


def run(options):
    install(say)
    start = time.monotonic()
    with Tracer(options.spanwise, options.http) as tracer, Shop(say) as shop:
        shop.load(options.rate, 1)
        say(f"up in {time.monotonic() - start:.1f} s, with {options.rate:g} requests a second")
        if tracer.agent["state"] != "running":
            say(f"the agent is {tracer.agent['state']}: {tracer.agent.get('reason')}")
            say("only payments, which reports for itself, will be seen")
        say("")
        say(f"open {tracer.url}   (Ctrl-C stops everything)")
        say("")
        while True:
            time.sleep(0.5)
            if tracer.process.poll() is not None:
                raise ShopError(f"spanwise ended with exit code {tracer.process.returncode}:\n"
                                + tracer.tail())
            gone = shop.processes.ended()
            if gone:
                raise ShopError(f"{gone[0]} ended with exit code {gone[1]}; "
                                f"see {LOG / (gone[0] + '.log')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", default="target/release/spanwise", help="the program")
    parser.add_argument("--http", type=int, default=7070, help="port of the UI")
    parser.add_argument("--rate", type=float, default=12, help="requests a second")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        run(options)
    except KeyboardInterrupt:
        say("stopped; nothing is left behind")
    except ShopError as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main()
