"""Costs of the native library, a flood, and its replay. Prints `figure NAME VALUE`."""

import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(*command):
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--dir", help="where the flood goes; default: the system's temporary directory")
    arguments = parser.parse_args()
    build = ROOT / "target/native"
    run("make", "-s", "-C", "agents/native", f"BUILD={build}", f"{build}/native")
    run("cargo", "build", "-q", "--release", "--locked", "-p", "spanwise-native", "--example", "decode")
    dir_ = pathlib.Path(tempfile.mkdtemp(prefix="spanwise-bench-", dir=arguments.dir))
    try:
        print(run(build / "native", dir_ / "hot", "hot"), end="")
        shutil.rmtree(dir_ / "hot")
        flood = run(build / "native", dir_ / "flood", "flood", str(arguments.seconds))
        made = int(re.search(r"made (\d+)", flood)[1]) + 1  # and the one of the disabled site
        print(flood.splitlines()[0])
        decoded = run(ROOT / "target/release/examples/decode", dir_ / "flood")
        read, rate = re.search(r"spans (\d+) per_second (\d+)", decoded).groups()
        # The last segment is as long as the others, but empty at its end.
        used = int(re.search(r"bytes (\d+)", decoded)[1])
        print(f"figure native.flood_lost {made - int(read)}")
        print(f"figure native.bytes_per_span {used / int(read):.2f}")
        print(f"figure native.replay_spans_per_second {rate}")
    finally:
        shutil.rmtree(dir_, ignore_errors=True)


if __name__ == "__main__":
    main()
