"""Which versions of servers and clients were run."""

import importlib.metadata
import subprocess

from install import MODULES, PACKAGES


def of_packages():
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *PACKAGES],
                          capture_output=True, text=True).stdout
    found = dict(line.split()[:2] for line in said.splitlines() if line.endswith(" installed"))
    return [f"{name} {version}" for name, version in sorted(found.items())]


def of_modules():
    return [f"{name} {importlib.metadata.version(name)}" for name in MODULES]


def of_servers():
    return "; ".join(("Debian's " + ", ".join(of_packages()), "Python's " + ", ".join(of_modules())))
