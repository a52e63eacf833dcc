"""Saves a cell as a test case: the kernel events of its program, and which calls belong to which
request. `capture/tracer/tests/links.rs` replays it.
"""

import gzip
import json
import re

import score

# Bytes of each message of HTTP/1 that are kept: the first line, and the end of the message.
PAYLOAD_BYTES = 256
# Names of `Runtime` in capture/protocols/src/process.rs. All others are "program".
LANGUAGES = {"python": "cpython", "grpcio": "cpython", "node": "nodejs", "grpcjs": "nodejs", "go": "go", "java": "java",
             "netty": "java", "spring": "java"}


def read(path):
    """The lines of the agent's recording, each with its process and its connection."""
    with open(path) as recording:
        for line in recording:
            event = json.loads(line)
            yield line, event.get("process"), event.get("connection")


def write(cell, processes, events, truth, roots, directory):
    """Saves a cell's case: those of the events that belong to its processes."""
    own, connections = [], set()
    for line, process, connection in events:
        if process in processes:
            connections.add(connection)
        elif process is not None or connection not in connections:
            continue
        own.append(line)
    language = LANGUAGES.get(re.split("[-_]", cell.runtime.name)[0], "program")
    notes = [f"# runtime {language}"]
    notes += [f"{call} {request}" for call, request in sorted(truth.items())]
    notes += [f"{call} -" for call in sorted(roots)]
    directory.mkdir(parents=True, exist_ok=True)
    # Without time and name, so that equal cases are equal files.
    with open(directory / f"{cell.name}.jsonl.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write("".join(own).encode())
    (directory / f"{cell.name}.truth").write_text("\n".join(notes) + "\n")
    return len(own)


def truth_of(cell):
    """The request of each call according to the program, including the warm-up, and background
    calls.
    """
    if cell.runtime.proxy:
        tokens = [token for name in ("warm-up", "tokens") for token in (cell.directory / name).read_text().split()]
        return {token: token for token in tokens}, set()
    truth, roots = {}, set()
    for request, calls in score.read_notes((cell.directory / "truth").read_text()):
        if request == score.NOBODY:
            roots.update(calls)
        else:
            truth |= dict.fromkeys(calls, request)
    return truth, roots
