"""Gets what servers and clients need; what is there already is left alone."""

import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"

PACKAGES = [
    "curl", "nginx-light", "openssl",
    "postgresql", "libpq5",
    "mariadb-server", "mariadb-client",
    "redis-server", "redis-tools",
]
MODULES = [line.split("==")[0] for line in (HERE / "requirements.txt").read_text().split()]


def installed(package):
    said = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], capture_output=True, text=True)
    return said.stdout == "installed"


def packages():
    missing = [package for package in PACKAGES if not installed(package)]
    if not missing:
        return
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise SystemExit(f"missing packages; install them first: sudo {' '.join(command)}")
    print(f"installing {', '.join(missing)}", flush=True)
    # Installing a server must not start one here.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    finally:
        if ours:
            policy.unlink()


def modules():
    wanted = HERE / "requirements.txt"
    stamp = VENV / "stamp"
    if stamp.exists() and stamp.stat().st_mtime > wanted.stat().st_mtime:
        return
    venv.create(VENV, with_pip=True, clear=True)
    subprocess.run([VENV / "bin" / "pip", "install", "-q", "-r", wanted], check=True)
    stamp.touch()


def install():
    packages()
    modules()
    return 0


def into_venv():
    """Goes on as the Python that has the clients' modules."""
    python = VENV / "bin" / "python"
    if Path(sys.prefix) == VENV:
        return
    if not python.exists():
        raise SystemExit(f"{VENV} is not there: run `{sys.argv[0]} --install` first")
    os.execv(python, [python, *sys.argv])
