#!/usr/bin/env python3
"""Records the traffic between real clients and real servers.

    record.py [PROTOCOL[/SCENARIO] ...]

Each scenario (PROTOCOL/scenarios.py) runs a server behind a relay on 127.0.0.1, lets a client use
it, and writes PROTOCOL/SCENARIO.jsonl: the events that the kernel side would report for the
client's socket and for the server's (see capture/tracer/src/recording.rs for the format). The
relay captures like the kernel side: the first 1024 bytes of each transfer, and 64 after 16 KiB in
one direction.
"""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def scenarios():
    """Every scenario by name, PROTOCOL/SCENARIO."""
    found = {}
    for path in sorted(HERE.glob("*/scenarios.py")):
        protocol = path.parent.name
        spec = importlib.util.spec_from_file_location(f"{protocol}_scenarios", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for scenario in module.SCENARIOS:
            found[f"{protocol}/{scenario.__name__}"] = scenario
    return found


if __name__ == "__main__":
    known = scenarios()
    for wanted in sys.argv[1:] or known:
        chosen = [name for name in known if name == wanted or name.startswith(f"{wanted}/")]
        if not chosen:
            raise SystemExit(f"no scenario {wanted}; known: {', '.join(known)}")
        for name in chosen:
            known[name]()
