#!/usr/bin/env python3
"""A real LTTng and babeltrace2 against our reader: `make test-lttng` installs them from Debian.

1. A program's events, recorded by LTTng with buffers per user and per process, and a flight
   recorder that overwrites: babeltrace2 and our reader see the same events, times and fields.
2. A trace that babeltrace2 itself wrote of these.
3. The library's own events, if it is built with LTTng: `spanwise replay` makes the spans of them
   that its ring files hold.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "..", "..", "agents", "native")


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **more)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def fields(text):
    """Fields that are no structure or array, with decimal numbers."""
    text = re.sub(r"= 0x([0-9A-F]+)", lambda found: f"= {int(found[1], 16)}", text)
    plain = r'\w+ = (?:"(?:[^"\\]|\\.)*"|\( "[^"]*" : container = -?\d+ \)|[^{}\[\],"(]+?)(?=,| }|$)'
    return re.findall(plain, text)


def compare(reader, trace):
    theirs = run("babeltrace2", "--clock-seconds", "--no-delta", trace).splitlines()
    ours = run(reader, trace).splitlines()
    if len(theirs) != len(ours) or not ours:
        sys.exit(f"{trace}: babeltrace2 reads {len(theirs)} events, we read {len(ours)}")
    for their, our in zip(theirs, ours):
        time, name = re.match(r"\[([^\]]*)\] (\S+): ", our).groups()
        # babeltrace2 2.0.4 shows an empty text as the text that its field had before.
        missing = [field for field in fields(our) if field not in fields(their) and not field.endswith('= ""')]
        if not their.startswith(f"[{time}]") or f" {name}: " not in their or missing:
            sys.exit(f"{trace}: {missing}\nbabeltrace2: {their}\nours:        {our}")
    print(f"{os.path.relpath(trace)}: {len(ours)} events are the same")


def record(here, name, program, channel=(), events="shop:*,opentelemetry:*", times=1, environment=()):
    """A trace by LTTng, and its directories with metadata."""
    out = os.path.join(here, name)
    run("lttng", "create", name, f"--output={out}")
    run("lttng", "enable-channel", "-u", "channel", *channel)
    run("lttng", "enable-event", "-u", events, "-c", "channel")
    run("lttng", "add-context", "-u", "-t", "vtid", "-t", "procname", "-t", "vpid", "-c", "channel")
    run("lttng", "start")
    for _ in range(times):
        run(*program, env={**os.environ, **dict(environment)}, cwd=here)
    run("lttng", "destroy", name)
    return [dir for dir, _, files in os.walk(out) if "metadata" in files]


def replay(spanwise, here, path, name):
    """What `spanwise replay` says, and the files with spans and log records that it writes."""
    file = os.path.join(here, name)
    said = subprocess.run([spanwise, "replay", path, "--file", file], stderr=subprocess.PIPE, text=True).stderr
    print("  " + said.strip().replace("\n", "\n  "))
    return said, file


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--reader", required=True, help="wire/ctf's example `events`")
    arguments.add_argument("--spanwise", required=True)
    arguments = arguments.parse_args()
    reader, spanwise = os.path.abspath(arguments.reader), os.path.abspath(arguments.spanwise)
    here = tempfile.mkdtemp(prefix="spanwise-lttng-")
    # A session daemon of our own, which ends with the test.
    os.environ.update(LTTNG_HOME=here, LTTNG_RUNDIR=os.path.join(here, "run"), LTTNG_UST_REGISTER_TIMEOUT="5000")
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if subprocess.run(["lttng", "list"], capture_output=True).returncode == 0:
                break
            subprocess.run(["sleep", "0.1"])
        program = os.path.join(here, "shop")
        run("cc", "-I", HERE, f"{HERE}/providers.c", f"{HERE}/shop.c", "-o", program, "-llttng-ust", "-ldl")
        small = ("--subbuf-size=4096", "--num-subbuf=4")
        traces = record(here, "per_user", [program], small, times=5)
        traces += record(here, "per_process", [program], (*small, "--buffers-pid"), times=2)
        traces += record(here, "overwritten", [program], (*small, "--overwrite"), "*", times=20)
        for trace in traces:
            compare(reader, trace)
        copy = os.path.join(here, "copy")
        run("babeltrace2", traces[0], "-c", "sink.ctf.fs", f'--params=path="{copy}"')
        for trace in [dir for dir, _, files in os.walk(copy) if "metadata" in files]:
            compare(reader, trace)
        # Laid out as a kernel's, with known figures in the reader's own tests.
        compare(reader, os.path.join(HERE, "..", "..", "wire", "ctf", "tests", "recorded", "kernel"))
        said, _ = replay(spanwise, here, traces[0], "shop.otlp")
        # Each run has four spans, one of them open.
        if not said.startswith("20 spans, 5 log records and 5 metric points are sent"):
            sys.exit("a replay sends something else")
        own(spanwise, here)
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(here, ignore_errors=True)
    print("LTTng's traces are read as babeltrace2 reads them")


def protobuf(message):
    """A message's fields: numbers, with texts and messages as bytes."""
    at, fields = 0, []

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 2: None, 5: 4}[tag & 7]
            if length is None:
                length = varint()
            value = message[at : at + length]
            at += length
        fields.append((tag >> 3, value))
    return fields


def messages(file):
    data = open(file, "rb").read()
    while data:
        length = int.from_bytes(data[:4], "big")
        yield data[4 : 4 + length]
        data = data[4 + length :]


# Which fields of OpenTelemetry's messages are messages; `None` is never the same twice.
ATTRIBUTE = {2: {}}
RECORDS = {
    "": {1: None, 2: None, 4: None, 7: None, 8: None, 9: ATTRIBUTE, 11: {1: None, 3: ATTRIBUTE}, 13: {4: ATTRIBUTE}, 15: {}},
    ".logs": {1: None, 5: {}, 6: ATTRIBUTE, 9: None, 10: None, 11: None},
}


def normal(message, kinds):
    """Fields in a fixed order, without those that say nothing."""
    found = []
    for number, value in protobuf(message):
        kind = kinds.get(number, ())
        if kind is not None and value:
            found.append((number, normal(value, kind) if isinstance(kind, dict) else value))
    return tuple(sorted(found, key=repr))


def records(file, kinds):
    """Attributes of resources, and spans or log records."""
    found = set()
    for message in messages(file):
        for _, of_resource in protobuf(message):
            for field, part in protobuf(of_resource):
                if field == 1:
                    found |= {normal(pair, ATTRIBUTE) for number, pair in protobuf(part) if number == 1}
                elif field == 2:
                    found |= {normal(record, kinds) for number, record in protobuf(part) if number == 2}
    # LTTng knows the host, and each run is a process of its own.
    return {one for one in found if not {(1, b"process.pid"), (1, b"host.name")} & set(one)}


def own(spanwise, here):
    """The library's events make what its files make."""
    build = os.path.join(here, "native")
    run("make", "-s", "-C", NATIVE, "all", f"BUILD={build}")
    if not os.path.exists(f"{build}/libspanwise-lttng.so.1"):
        sys.exit("the library is built without LTTng")
    program = os.path.join(here, "own")
    run("cc", "-Wall", "-Werror", f"-I{NATIVE}/include", f"{HERE}/own.c", f"{build}/libspanwise.a", "-o", program, "-pthread", "-ldl")
    environment = {"LD_LIBRARY_PATH": build}
    [trace] = record(here, "own_trace", [program, "lttng", f"{here}/control"], ("--subbuf-size=16384",), "spanwise:*", 1, environment)
    run(program, "files", f"{here}/files")
    by_lttng, by_files = replay(spanwise, here, trace, "lttng.otlp"), replay(spanwise, here, f"{here}/files", "files.otlp")
    for said, _ in (by_lttng, by_files):
        if not said.startswith("7 spans, 3 log records"):
            sys.exit("7 spans and 3 log records were made")
    for suffix, kinds in RECORDS.items():
        ours, theirs = records(by_files[1] + suffix, kinds), records(by_lttng[1] + suffix, kinds)
        if ours != theirs or len(ours) < 3:
            sys.exit(f"only in files: {ours - theirs}\nonly in LTTng's trace: {theirs - ours}")
    print("the library's events are its files' spans and log records")


if __name__ == "__main__":
    main()
