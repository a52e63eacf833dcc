"""Downloads and builds what the shop needs. Existing files are kept."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import layout
from .layout import ShopError


def install(say):
    """Prepares everything for the start. `say(text)` reports progress."""
    _packages(say)
    _step(say, "Python packages", layout.VENV / "shop.stamp", [layout.SERVICES / "requirements.txt"], _venv)
    _step(say, "cart (Go)", layout.CART_BINARY.parent / "shop.stamp", (layout.SERVICES / "cart").glob("*.*"), _cart)
    _step(say, "orders (Java)", layout.ORDERS_JAR.parent / "shop.stamp",
          [layout.SERVICES / "orders" / "pom.xml", *(layout.SERVICES / "orders" / "src").rglob("*.java")], _orders)


def _missing():
    """Debian packages whose programs are missing."""
    wanted = [
        ("nginx-light", lambda: shutil.which("nginx", path=layout.clean_environment()["PATH"])),
        ("redis-server", lambda: shutil.which("redis-server")),
        ("postgresql", lambda: layout.postgres_tool("initdb") and layout.postgres_tool("psql")),
        ("nodejs", lambda: shutil.which("node")),
        ("golang-go", lambda: shutil.which("go", path=layout.clean_environment()["PATH"])),
        ("default-jdk-headless", lambda: shutil.which("javac")),
        ("maven", lambda: shutil.which("mvn")),
        ("python3-venv", _venv_works),
    ]
    return [package for package, present in wanted if not present()]


def _venv_works():
    # Debian's venv module exists even without ensurepip, but cannot create an environment then.
    return subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0


def _packages(say):
    missing = _missing()
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not shutil.which("apt-get"):
        raise ShopError(f"missing programs of the Debian packages {', '.join(missing)}: install them with "
                        "this system's package manager")
    if os.geteuid() != 0:
        raise ShopError(f"missing packages; install them first: sudo {' '.join(command)}")
    say(f"installing {', '.join(missing)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], layout.DEMO, environment)
    _run(command, layout.DEMO, environment)
    still = _missing()
    if still:
        raise ShopError(f"installed {', '.join(still)}, and its programs are still not found; see the output above")


def _step(say, name, stamp, inputs, build):
    """Runs `build` unless the stamp says that it ran with the same inputs."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(inputs):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    say(f"building {name}")
    start = time.monotonic()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    build()
    stamp.write_text(digest.hexdigest())
    say(f"built {name} in {time.monotonic() - start:.0f} s")


def _venv():
    shutil.rmtree(layout.VENV, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(layout.VENV)], layout.DEMO)
    _run([str(layout.VENV / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check",
          "-r", str(layout.SERVICES / "requirements.txt")], layout.DEMO)


def _cart():
    _run(["go", "build", "-o", str(layout.CART_BINARY), "."], layout.SERVICES / "cart", os.environ | {
        "PATH": layout.clean_environment()["PATH"]})


def _orders():
    _run(["mvn", "-q", "-B", "package"], layout.SERVICES / "orders")


def _run(command, directory: Path, environment=None):
    done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise ShopError(f"`{' '.join(command[:4])} …` failed with exit code {done.returncode}:\n{tail}")
