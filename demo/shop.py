#!/usr/bin/env python3
"""The Spanwise demo shop: real services that know nothing of tracing.

  shop.py install     get and build what the shop needs
  shop.py up          start it, with load; Ctrl-C stops it and leaves nothing behind
  shop.py fault NAME on|off SERVICE
                      break something of the shop that runs, or mend it; without arguments, list
"""

import argparse
import os
import signal
import sys
import time

from manager import faults, layout
from manager.install import install
from manager.layout import ShopError
from manager.shop import Shop

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def say(text):
    print(f"{chr(27)}[2mshop{chr(27)}[0m  {text}" if COLOUR else f"shop  {text}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="install | up | fault")
    commands.add_parser("install", help="get and build what the shop needs")
    up = commands.add_parser("up", help="start the shop")
    up.add_argument("--no-load", action="store_true", help="without the load generator")
    up.add_argument("--rate", type=float, default=12, help="requests a second (default %(default)s)")
    up.add_argument("--seed", type=int, default=1, help="of the load (default %(default)s)")
    up.add_argument("--truth", metavar="DIR", default=os.environ.get("SHOP_TRUTH") or None,
                    help="note each call in DIR, for tests (default: $SHOP_TRUTH)")
    fault = commands.add_parser("fault", help="break something of the shop that runs, or mend it")
    fault.add_argument("name", nargs="?", help="the fault")
    fault.add_argument("state", nargs="?", choices=["on", "off"])
    fault.add_argument("service", nargs="?", help="the service that has it")
    options = parser.parse_args()
    if options.command == "fault" and options.name and not options.service:
        parser.error("write for example: shop.py fault slow-query on catalog")
    return options


def run(options):
    if options.command == "fault":
        if options.name:
            faults.switch(options.name, options.state, options.service)
        else:
            print("\n".join(faults.listing()))
        return
    install(say)
    if options.command == "install":
        say("everything is there")
        return
    start = time.monotonic()
    truth = os.path.abspath(options.truth) if options.truth else None
    with Shop(say, truth) as shop:
        say(f"up in {time.monotonic() - start:.1f} s at {layout.URL}; logs in {layout.LOG}")
        if not options.no_load:
            shop.load(options.rate, options.seed)
            say(f"{options.rate:g} requests a second run through it")
        say("Ctrl-C stops it")
        while True:
            time.sleep(0.5)
            gone = shop.processes.ended()
            if gone:
                raise ShopError(f"{gone[0]} ended with exit code {gone[1]}; see {layout.LOG / (gone[0] + '.log')}")


def interrupted(*_):
    # Once: a second Ctrl-C must not cut the stopping short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        run(arguments())
    except KeyboardInterrupt:
        say("stopped")
    except ShopError as error:
        sys.exit(f"shop: {error}")


if __name__ == "__main__":
    main()
