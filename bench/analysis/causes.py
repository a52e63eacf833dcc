#!/usr/bin/env python3
"""Breaks the demo's shop in many ways, and asks each time who it was.

The shop runs under `spanwise up`, seen by zero-code capture alone. Each fault is on for some
seconds; then `GET /api/v1/cause` is asked about that time. Between two faults nothing is wrong, and
the same is asked about that. Prints a line for each fault, and figures.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "demo"))

# Nobody listens here: the SDK of payments must not help.
os.environ.setdefault("SHOP_OTLP", "http://127.0.0.1:9")

from manager import faults, layout  # noqa: E402
from manager.install import install  # noqa: E402
from manager.shop import Shop  # noqa: E402

SETTLING = 8
"""Seconds until the last spans of a time are assembled and can be asked for, at least."""
MOST_SETTLING = 90

CASES = [
    (name, service)
    for place in range(3)
    for name, (_, services) in faults.KINDS.items()
    for service in services[place:place + 1]
]


def ask(url, start, end):
    query = urllib.parse.urlencode({"start": int(start * 1e9), "end": int(end * 1e9)})
    with urllib.request.urlopen(f"{url}/api/v1/cause?{query}", timeout=60) as reply:
        return json.load(reply)


def settle(url, end):
    """Waits until spans that started then are assembled: on a busy machine this takes longer."""
    statement = "SELECT max(start_unix_nano) AS newest FROM spans WHERE assembled_trace_id IS NOT NULL"
    request = urllib.request.Request(f"{url}/api/v1/sql?{urllib.parse.urlencode({'query': statement})}",
                                     headers={"spanwise-request": "bench"})
    time.sleep(SETTLING)
    for _ in range(MOST_SETTLING):
        with urllib.request.urlopen(request, timeout=60) as reply:
            newest = json.load(reply)["rows"][0][0]
        if newest and int(newest) > (end + 1) * 1e9:
            return
        time.sleep(1)
    sys.exit(f"no span that started after {end:.0f} s was assembled for {MOST_SETTLING} s")


def brief(answer):
    return f"{'! ' if answer['stands_out'] else '  '}{answer['summary'][:150]}"


def tracer(options, data):
    """`spanwise up` with names for the shop's ports."""
    configuration = data / "spanwise.toml"
    lines = []
    for name, port in layout.PORTS.items():
        shown = {"postgres": "postgresql"}.get(name, name)
        lines.append(f'[[agent.service]]\nname = "{shown}"\nport = {port}\n')
    lines.append('[[agent.service]]\nname = "customers"\ncommand = "loadgen.py"\n')
    lines.append('[[agent.service]]\nname = "shop manager"\ncommand = "causes.py"\n')
    configuration.write_text("\n".join(lines))
    command = [os.path.abspath(options.spanwise), "up", "--data", str(data / "spans"), "--config", str(configuration),
               "--http", str(options.http), *options.flags]
    log = open(data / "spanwise.log", "wb")
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{options.http}"
    for _ in range(200):
        if process.poll() is not None:
            sys.exit((data / "spanwise.log").read_text())
        try:
            with urllib.request.urlopen(url + "/api/v1/status", timeout=2) as reply:
                agent = json.load(reply)["agent"]
            if agent["state"] == "running":
                return process, url
            if agent["state"] == "off":
                sys.exit(f"the agent is off: {agent['reason']}")
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("spanwise does not answer; see " + str(data / "spanwise.log"))


def measure(options, url, shop, cases, failed):
    first = among = clear = wrong = blamed = 0
    quiet_asked = 0
    kinds = {}
    print(f"warming up for {options.warm_up} s", flush=True)
    time.sleep(options.warm_up)
    for name, service in cases:
        quiet_start = time.time()
        time.sleep(options.quiet)
        quiet_end = time.time()
        settle(url, quiet_end)
        answer = ask(url, max(quiet_start, quiet_end - options.seconds), quiet_end)
        quiet_asked += 1
        blamed += answer["stands_out"]
        if answer["stands_out"]:
            print(f"quiet, and yet      {brief(answer)}", flush=True)
        faults.switch(name, "on", service)
        # The switch is looked for five times a second.
        time.sleep(0.5)
        start = time.time()
        time.sleep(options.seconds)
        end = time.time()
        faults.switch(name, "off", service)
        if failed:
            sys.exit(failed[0])
        settle(url, end)
        answer = ask(url, start, end)
        told = [suspect["service"] for suspect in answer["suspects"]]
        place = told.index(service) + 1 if service in told else 0
        clear += bool(place) and answer["suspects"][place - 1]["stands_out"]
        wrong += bool(told) and answer["suspects"][0]["stands_out"] and place != 1
        first += place == 1
        among += 0 < place <= 3
        kinds.setdefault(name, []).append(place)
        print(f"{name:<20}{service:<12}{place or '-'}  {brief(answer)}", flush=True)
        if options.show:
            for suspect in answer["suspects"][:4]:
                for evidence in suspect["evidence"][:3]:
                    print(f"      {suspect['score']:.2f} {suspect['service']}: {evidence['text']}")
            for change in answer["changes"][:4]:
                print(f"      change: {change['text']}")
            print(f"      {answer['spans']} spans, {answer['usual_ranges']} usual ranges, {answer['warnings']}", flush=True)
        gone = shop.processes.ended()
        if gone:
            sys.exit(f"{gone[0]} ended with exit code {gone[1]}")
    count = len(cases)
    print(f"{len(kinds)} kinds of faults, {count} faults, {quiet_asked} quiet times")
    print(f"figure analysis.cause_top1_share {first / count:.3f} 1")
    print(f"figure analysis.cause_top3_share {among / count:.3f} 1")
    print(f"figure analysis.cause_clear_share {clear / count:.3f} 1")
    print(f"figure analysis.cause_blamed_wrongly_share {wrong / count:.3f} 1")
    print(f"figure analysis.cause_quiet_blamed_share {blamed / quiet_asked:.3f} 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", default=str(ROOT / "target/release/spanwise"), help="the program")
    parser.add_argument("--http", type=int, default=7070, help="port of the UI")
    parser.add_argument("--flags", type=str.split, default=[], help="further flags of `spanwise up`")
    parser.add_argument("--rate", type=float, default=40, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20, help="how long each fault lasts")
    parser.add_argument("--quiet", type=float, default=30, help="how long nothing is wrong before each")
    parser.add_argument("--warm-up", type=float, default=120)
    parser.add_argument("--only", type=lambda text: text.split(","), help="only these kinds of faults")
    parser.add_argument("--services", type=int, default=3, help="of each kind, the first so many services")
    parser.add_argument("--show", action="store_true", help="print the evidence too")
    options = parser.parse_args()
    allowed = {(name, service) for name, (_, services) in faults.KINDS.items()
               for service in services[:options.services]}
    cases = [case for case in CASES if case in allowed and (not options.only or case[0] in options.only)]
    install(print)
    # Whoever ends this ends the shop too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    data = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-causes-"))
    process, url = tracer(options, data)
    try:
        failed = []
        with Shop(lambda text: failed.append(text) if "cannot make" in text else None) as shop:
            shop.load(options.rate, 1)
            measure(options, url, shop, cases, failed)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
