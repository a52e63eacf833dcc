#!/usr/bin/env python3
"""The agent on other kernels: Debian's, each in a virtual machine emulated by QEMU.

The virtual machine contains nginx, redis-server, curl, redis-cli, a server and an agent in its
memory, and nothing else. Each client sends the same requests a few times, in plaintext and TLS,
and the spans are counted: as many of each kind as requests, on both sides. Then the tests of the
kernel side run there (capture/agent/tests/kernel.rs): every call with every hook.

    kernels.py --spanwise target/release/spanwise [--release bookworm] [--hook sys-exit-raw]
"""

import argparse
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
MIRROR = "http://deb.debian.org/debian/"
# Debian's release -> the hooks that the agent chooses on its kernel.
RELEASES = {"bullseye": "sys-exit-btf", "bookworm": "inet-fexit", "trixie": "sock-length"}
BOOT_SECONDS = 1800
PROGRAMS = ("nginx", "redis-server", "redis-cli", "curl", "openssl")
ROUNDS = 5
# Size of the file that nginx serves with sendfile.
FILE_BYTES = 300000
# Service, kind, operation and status of each request, made ROUNDS times.
EXPECTED = {
    ("curl", "client", "GET /bad", "error"), ("curl", "client", "GET /plain", "unset"),
    ("curl", "client", "GET /file", "unset"), ("nginx:8080", "server", "GET /file", "unset"),
    ("curl", "client", "GET /tls", "unset"), ("curl", "client", "GET /up", "unset"),
    ("nginx:8080", "client", "GET /", "unset"), ("nginx:8080", "server", "GET /bad", "error"),
    ("nginx:8080", "server", "GET /plain", "unset"), ("nginx:8080", "server", "GET /up", "unset"),
    ("nginx:8080", "server", "GET /", "unset"), ("nginx:8080", "server", "GET /tls", "unset"),
    ("redis-cli", "client", "GET", "unset"), ("redis-cli", "client", "SET", "unset"),
    ("redis-server:6379", "server", "GET", "unset"), ("redis-server:6379", "server", "SET", "unset"),
}
# Over a Unix socket. Not with hooks at the end of each system call.
EXPECTED_UNIX = {("redis-cli", "client", "INCR", "unset"), ("redis-server:6379", "server", "INCR", "unset")}


def fail(text):
    sys.exit(f"kernels: {text}")


def fetch(path):
    """A file from Debian's mirror."""
    try:
        with urllib.request.urlopen(MIRROR + path, timeout=120) as reply:
            return reply.read()
    except OSError as error:
        fail(f"{MIRROR}{path}: {error}")


def kernel(release, directory):
    """The image of a release's newest cloud kernel."""
    packages = lzma.decompress(fetch(f"dists/{release}/main/binary-amd64/Packages.xz")).decode()
    names = [re.search(r"^Filename: (.*)$", one, re.M)[1] for one in packages.split("\n\n")
             if re.match(r"Package: linux-image-\d[^\n]*-cloud-amd64\n", one)]
    if not names:
        fail(f"{release} has no kernel of the name that was expected")
    package = directory / f"{release}.deb"
    newest = max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    package.write_bytes(fetch(newest))
    subprocess.run(["dpkg-deb", "-x", package, directory / release], check=True)
    return next((directory / release / "boot").glob("vmlinuz-*"))


def put(root, source, target=None):
    """Adds a file to the virtual machine, following links."""
    target = root / (target or str(source)).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(os.path.realpath(source), target)


def put_program(root, source, target=None):
    """Adds a program and its libraries."""
    put(root, source, target)
    said = subprocess.run(["ldd", source], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", said):
        put(root, library)


def tests():
    """The compiled tests of the kernel side."""
    command = ["cargo", "test", "--release", "--locked", "-p", "spanwise-capture-agent", "--test", "kernel",
               "--no-run", "--message-format", "json-render-diagnostics"]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent.parent, check=True).stdout
    return next(said["executable"] for said in map(json.loads, made.splitlines())
                if said["reason"] == "compiler-artifact" and said["target"]["name"] == "kernel")


def initrd(spanwise, directory):
    """All files of the virtual machine."""
    root = directory / "root"
    for name in ("bin", "proc", "sys", "dev", "tmp", "data", "etc", "run", "var/log/nginx", "var/lib/nginx"):
        (root / name).mkdir(parents=True)
    put_program(root, shutil.which("busybox") or fail("busybox-static is missing"), "/bin/busybox")
    for name in PROGRAMS:
        put_program(root, shutil.which(name) or fail(f"{name} is missing; `make test-kernels` installs it"))
    for source, target in ((spanwise, "/bin/spanwise"), (tests(), "/bin/kernel-tests")):
        stripped = directory / "stripped"
        subprocess.run(["strip", "-o", stripped, source], check=True)
        put_program(root, stripped, target)
    put(root, "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
    put(root, HERE / "init.sh", "/init")
    put(root, HERE / "nginx.conf", "/etc/nginx.conf")
    (root / "init").chmod(0o755)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    image = directory / "initrd.gz"
    subprocess.run(f"find . | cpio -o -H newc --quiet | gzip -1 > {image}", shell=True, cwd=root, check=True)
    return image


def boot(image, files, choice, hook):
    """The output of a virtual machine in which the agent must use `choice` and the tests use
    `hook`.
    """
    arguments = f"console=ttyS0 panic=1 quiet mitigations=off HOOK={choice} TESTED_HOOK={hook} ROUNDS={ROUNDS} FILE_BYTES={FILE_BYTES}"
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "3000", "-smp", "2", "-nographic",
               "-no-reboot", "-kernel", image, "-initrd", files, "-append", arguments]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=BOOT_SECONDS).stdout
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace") + f"\nit did not end within {BOOT_SECONDS} s"


def judge(said, hook):
    """The problems as text; empty if there are none."""
    answer = next((line for line in said.splitlines() if line.startswith('{"columns"')), None)
    if not answer:
        return "no spans were asked for:\n" + said[-3000:]
    if f"with {hook}" not in said:
        return f"the agent does not use {hook}:\n" + said[-3000:]
    rows = json.loads(answer)["rows"]
    found = {tuple(row[:4]): int(row[4]) for row in rows}
    expected = EXPECTED if hook.startswith("sys-exit") else EXPECTED | EXPECTED_UNIX
    if found != dict.fromkeys(expected, ROUNDS):
        return "\n".join(f"{key}: {found.get(key, 0)} spans of {ROUNDS if key in expected else 0}"
                         for key in sorted(expected | set(found)) if found.get(key) != ROUNDS or key not in expected)
    short = [row for row in rows if row[2] == "GET /file" and (row[5] or 0) < FILE_BYTES]
    if short:
        return f"not all of the file was counted: {short}"
    return "" if "test result: ok. " in said else "tests fail:\n" + said[-5000:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", required=True, type=pathlib.Path)
    parser.add_argument("--release", action="append", choices=RELEASES, help="of Debian (default: all)")
    parser.add_argument("--hook", help="other hooks than those that the agent chooses")
    options = parser.parse_args()
    if not options.spanwise.exists():
        fail(f"{options.spanwise} is not there; `make build` makes it")
    if not shutil.which("qemu-system-x86_64"):
        fail("qemu-system-x86_64 is missing; `make test-kernels` installs it")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="spanwise-kernels-") as name:
        directory = pathlib.Path(name)
        files = initrd(options.spanwise.resolve(), directory)
        for release in options.release or RELEASES:
            image = kernel(release, directory)
            hook = options.hook or RELEASES[release]
            problem = judge(boot(image, files, options.hook or "auto", hook), hook)
            print(f"{image.name.removeprefix('vmlinuz-')} ({release}), {hook}: {problem or 'ok'}", flush=True)
            wrong += bool(problem)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
