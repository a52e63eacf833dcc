"""The shop's own records: which call was made while which one was served."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

RUNTIMES = {
    "nginx": "nginx", "storefront": "node", "catalog": "python-threads", "stock": "python-threads",
    "ledger": "python-threads", "cart": "go", "orders": "java", "payments": "python-sdk", "loadgen": "client",
}


@dataclass(frozen=True)
class Call:
    """One hop. `serving` is the hop that was being served."""

    made: str
    serving: str | None
    service: str
    kind: str
    target: str
    start_unix_nano: int
    end_unix_nano: int

    @property
    def runtime(self):
        return RUNTIMES[self.service]


def read(directory, end_after_nano=0):
    """Calls by id that ended after a time."""
    found = {}
    for path in sorted(Path(directory).glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise SystemExit(f"{path}:{number} is no JSON: {error}") from error
            if "end_seconds" in record:  # nginx counts in milliseconds
                end = round(record.pop("end_seconds") * 1e9)
                record["start_unix_nano"] = end - round(record.pop("lasted_seconds") * 1e9)
                record["end_unix_nano"] = end
            call = Call(**record)
            if call.end_unix_nano <= end_after_nano:
                continue
            if call.made in found:
                raise SystemExit(f"{path}:{number} names call {call.made} a second time")
            found[call.made] = call
    return found


def of_customers(calls):
    """Calls that belong to a request of the load generator, with the id of that request: {made:
    root}. Health checks are not part of a tree.
    """
    roots = {}
    for call in calls.values():
        path, at = [], call
        while at is not None and at.made not in roots:
            path.append(at.made)
            if at.serving is None:
                roots[at.made] = at.made if at.service == "loadgen" else None
                break
            at = calls.get(at.serving)
        root = roots.get(at.made) if at is not None else None
        for made in path:
            roots[made] = root
    return {made: root for made, root in roots.items() if root}


def check(directory):
    """Checks the truth itself: every request is a tree whose calls lie within the calls that they
    serve. Prints each problem and returns their number.
    """
    calls = read(directory)
    roots = of_customers(calls)
    problems = 0
    for call in calls.values():
        if call.serving is None:
            continue
        parent = calls.get(call.serving)
        if parent is None:
            print(f"{call.service}: {call.made} was made for {call.serving}, which nobody made")
            problems += 1
        elif call.made in roots:
            # nginx has milliseconds, and Node's clock drifts from the kernel's.
            slack = 5_000_000
            if call.start_unix_nano < parent.start_unix_nano - slack or call.end_unix_nano > parent.end_unix_nano + slack:
                print(f"{call.service}: {call.made} does not lie within {parent.service}'s {parent.made}")
                problems += 1
    requests = Counter(roots.values())
    print(f"{len(calls)} calls, {len(requests)} requests, of {min(requests.values(), default=0)} to "
          f"{max(requests.values(), default=0)} hops, {problems} problems")
    for (service, kind), count in sorted(Counter((c.service, c.kind) for c in calls.values()).items()):
        print(f"  {service:<11} {kind:<11} {count}")
    return problems


if __name__ == "__main__":
    import sys
    sys.exit(1 if check(sys.argv[1]) else 0)
