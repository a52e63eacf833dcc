#!/usr/bin/env python3
"""What a hundred labels on every span cost ClickHouse, by how they are stored.

The forms are text, LowCardinality text, and numbers that stand for texts (the comparison of
DeepFlow's paper, SIGCOMM '23, section 5.3), each compared with the same spans without labels.

Spans of 90 processes arrive in blocks. All spans of a process have the same labels, like
Kubernetes labels. Each form runs in a separate process with a new ClickHouse. It inserts blocks
from files in ClickHouse's Native format, waits for all merges, and reports the processor time of
all threads, peak memory, and the bytes of the table.

Run with a Python that has chdb-core (see `make bench-tags`).
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

LABELS = 100
PROCESSES = 90
BLOCK_ROWS = 50_000
# A span's own columns.
SPAN = {
    "trace_id": "FixedString(16)",
    "span_id": "UInt64",
    "parent_span_id": "UInt64",
    "start": "DateTime64(9)",
    "duration": "UInt64",
    "service": "LowCardinality(String)",
    "operation": "LowCardinality(String)",
    "status": "UInt8",
    "process": "UInt32",
}
ROW = f"""
    reinterpretAsFixedString(sipHash128(intDiv(number, 20))) AS trace_id,
    sipHash64(number) AS span_id,
    if(number % 20 = 0, 0, sipHash64(number - 1)) AS parent_span_id,
    toDateTime64(1700000000 + number / 20000, 9) AS start,
    1000 + sipHash64(number, 1) % 50000000 AS duration,
    concat('service-', toString(process % 30)) AS service,
    concat('GET /api/v1/', toString(sipHash64(number, 2) % 40)) AS operation,
    sipHash64(number, 3) % 100 = 0 AS status,
    toUInt32(sipHash64(number, 4) % {PROCESSES}) AS process"""


def which(label):
    """A process's value of a label: one of a few, or unique to the process."""
    values = (1, 2, 5, 30, PROCESSES)
    return f"process % {values[label % len(values)]}"


def text(label):
    return f"concat('label-{label:03d}-of-', toString({which(label)}))"


def number(label):
    return f"toUInt32({label * PROCESSES} + {which(label)})"


# The stored and the inserted form: type, and expression for a row.
FORMS = {
    "none": lambda label: None,
    "numbers": lambda label: ("UInt32", "UInt32", number(label)),
    "strings": lambda label: ("String", "String", text(label)),
    "low_cardinality": lambda label: ("LowCardinality(String)", "String", text(label)),
}


def labels(form):
    found = ((f"label_{label:03d}", FORMS[form](label)) for label in range(LABELS))
    return {name: what for name, what in found if what}


def write_blocks(directory, form, rows):
    """Writes the input files."""
    from chdb.state import connect

    engine = connect(str(directory / "made"))
    columns = [ROW] + [f"{sql} AS {name}" for name, (_, _, sql) in labels(form).items()]
    for block, first in enumerate(range(0, rows, BLOCK_ROWS)):
        engine.query(
            f"SELECT {', '.join(columns)} FROM numbers({first}, {min(BLOCK_ROWS, rows - first)}) "
            f"INTO OUTFILE '{directory}/{block}.native' FORMAT Native")
    engine.close()


def insert_blocks(directory, form):
    """Measures one form. Prints the result as JSON."""
    from chdb.state import connect

    engine = connect(str(directory / "data"))
    columns = {**SPAN, **{name: stored for name, (stored, _, _) in labels(form).items()}}
    columns = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    engine.query(f"CREATE TABLE default.spans ({columns}) ENGINE = MergeTree ORDER BY (service, start)")
    before = resource.getrusage(resource.RUSAGE_SELF)
    for block in sorted(directory.glob("*.native"), key=lambda path: int(path.stem)):
        engine.query(f"INSERT INTO default.spans FROM INFILE '{block}' COMPRESSION 'none' FORMAT Native")
    engine.query("OPTIMIZE TABLE default.spans FINAL")
    after = resource.getrusage(resource.RUSAGE_SELF)
    taken = engine.query(
        "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'spans'", "CSV")
    rows, disk = (int(number) for number in str(taken).strip().split(","))
    engine.close()
    cpu = sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_utime", "ru_stime"))
    print(json.dumps({"rows": rows, "cpu_seconds": cpu, "memory_mb": after.ru_maxrss / 1024, "disk_bytes": disk}))


def alone(*arguments):
    """Runs this program in a separate process. Returns the last line of its output."""
    run = subprocess.run([sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"bench-tags: {arguments[0]} ended with {run.returncode}")
    return run.stdout.strip().splitlines()[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    flags = parser.parse_args()
    print(f"{'in ClickHouse':<18}{'CPU s/million':>14}{'MB':>10}{'bytes/span':>12}")
    taken = {}
    for form in FORMS:
        with tempfile.TemporaryDirectory() as directory:
            alone("write", directory, form, flags.rows)
            taken[form] = json.loads(alone("insert", directory, form)[0])
        found = taken[form]
        if found["rows"] != flags.rows:
            sys.exit(f"bench-tags: {found['rows']} rows of {flags.rows} are there")
        print(f"{form:<18}{found['cpu_seconds'] / flags.rows * 1e6:>14.2f}{found['memory_mb']:>10.0f}"
              f"{found['disk_bytes'] / flags.rows:>12.1f}", flush=True)
    print()
    none = taken.pop("none")
    for form, found in taken.items():
        for figure, what in (("cpu", "cpu_seconds"), ("memory", "memory_mb"), ("disk", "disk_bytes")):
            print(f"figure tags.clickhouse.{form}.{figure}_ratio {found[what] / none[what]:.2f} 1")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", directory, form, rows]:
            write_blocks(pathlib.Path(directory), form, int(rows))
        case ["insert", directory, form]:
            insert_blocks(pathlib.Path(directory), form)
        case _:
            main()
