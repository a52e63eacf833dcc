"""The versions of the tested servers and clients."""

import importlib.metadata
import re
import subprocess

from install import DUBBO_JARS, FERRETDB_VERSION, HERE, KAFKA_JARS, MODULES, PACKAGES


def of_packages():
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *PACKAGES],
                          capture_output=True, text=True).stdout
    found = dict(line.split()[:2] for line in said.splitlines() if line.endswith(" installed"))
    return [f"{name} {version}" for name, version in sorted(found.items())]


def of_modules():
    return [f"{name} {importlib.metadata.version(name)}" for name in MODULES]


def of_programs():
    """Programs that the user installed."""
    found = []
    for command in (["nginx", "-v"], ["node", "--version"], ["java", "-version"], ["go", "version"]):
        done = subprocess.run(command, capture_output=True, text=True)
        number = re.search(r"\d+\.\d+[.\d]*", done.stdout + done.stderr)
        found.append(f"{command[0]} {number[0] if number else 'of unknown version'}")
    for jars, name in ((KAFKA_JARS, "kafka_2.13"), (DUBBO_JARS, "dubbo")):
        found += [path.stem for path in jars.glob(f"{name}-[0-9]*.jar")]
    module = re.search(r"google.golang.org/grpc (\S+)", (HERE / "go" / "go.mod").read_text())
    return [*found, f"grpc-go {module[1]}", f"FerretDB {FERRETDB_VERSION}"]


def of_servers():
    return "; ".join((", ".join(of_programs()), "Debian's " + ", ".join(of_packages()), "Python's " + ", ".join(of_modules())))
