"""Downloads and builds what servers and clients need, below target/matrix. Existing files are
kept.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILT = ROOT / "target" / "matrix"
VENV = BUILT / "venv"
JVM_CLASSES = BUILT / "java"
KAFKA_JARS = BUILT / "kafka"
DUBBO_JARS = BUILT / "dubbo"
DUBBO_CLASSES = f"{JVM_CLASSES}:{DUBBO_JARS}/*"
FERRETDB = BUILT / "ferretdb"
FERRETDB_MODULE = "github.com/FerretDB/FerretDB"
FERRETDB_VERSION = "v1.24.0"

PACKAGES = [
    "bind9-dnsutils", "curl", "dnsmasq-base", "libpq5", "mariadb-client", "mariadb-server", "memcached", "mosquitto",
    "nats-server", "openssl", "php-fpm", "postgresql", "rabbitmq-server", "redis-server", "redis-tools", "wget",
]
# The user chooses how to install these.
PROGRAMS = {"nginx": "nginx-light", "node": "nodejs", "javac": "default-jdk-headless", "mvn": "maven", "go": "golang-go"}
MODULES = [line.split("==")[0] for line in (HERE / "requirements.txt").read_text().split()]


def installed(package):
    said = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], capture_output=True, text=True)
    return said.stdout == "installed"


def packages():
    missing = [package for package in PACKAGES if not installed(package)]
    missing += [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if not missing:
        return
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise SystemExit(f"missing packages; install them first: sudo {' '.join(command)}")
    print(f"installing {', '.join(missing)}", flush=True)
    # Installing a server must not start it.
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


def step(what, result, sources, work):
    """Builds `result` if it is older than its sources."""
    if result.exists() and all(source.stat().st_mtime <= result.stat().st_mtime for source in sources):
        return
    print(f"making {what}", flush=True)
    BUILT.mkdir(parents=True, exist_ok=True)
    work()
    result.touch()


def modules():
    venv.create(VENV, with_pip=True, clear=True)
    subprocess.run([VENV / "bin" / "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)


def go():
    subprocess.run(["go", "build", "-o", BUILT / "go-matrix", "."], check=True, cwd=HERE / "go")


def ferretdb():
    """The module lacks a generated file, and so is built from a copy."""
    fetch = ["go", "mod", "download", "-json", f"{FERRETDB_MODULE}@{FERRETDB_VERSION}"]
    module = json.loads(subprocess.run(fetch, check=True, capture_output=True, cwd=BUILT).stdout)["Dir"]
    copy = BUILT / "ferretdb-module"
    shutil.rmtree(copy, ignore_errors=True)
    # The module cache is read-only.
    shutil.copytree(module, copy, copy_function=shutil.copyfile)
    for directory in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        directory.chmod(0o755)
    (copy / "build" / "version" / "version.txt").write_text(f"{FERRETDB_VERSION}\n")
    subprocess.run(["go", "build", "-o", FERRETDB, "./cmd/ferretdb"], check=True, cwd=copy)
    shutil.rmtree(copy)


def jars(pom, where, *options):
    shutil.rmtree(where, ignore_errors=True)
    subprocess.run(["mvn", "-q", "-B", "-f", pom, *options, "dependency:copy-dependencies", f"-DoutputDirectory={where}"],
                   check=True)


def java(sources):
    JVM_CLASSES.mkdir(exist_ok=True)
    subprocess.run(["javac", "-nowarn", "-cp", f"{DUBBO_JARS}/*", "-d", JVM_CLASSES, *sources], check=True)


def install():
    packages()
    dubbo, kafka = HERE.parent / "recorded" / "dubbo" / "pom.xml", HERE / "kafka" / "pom.xml"
    sources = [HERE / "clients" / "Jvm.java", HERE / "clients" / "Matrix.java"]
    step("clients' Python modules", VENV / "stamp", [HERE / "requirements.txt"], modules)
    step("clients and servers of Go", BUILT / "go-matrix", list((HERE / "go").iterdir()), go)
    step("Kafka", KAFKA_JARS, [kafka], lambda: jars(kafka, KAFKA_JARS))
    step("Dubbo", DUBBO_JARS, [dubbo], lambda: jars(dubbo, DUBBO_JARS))
    step("clients and servers of the JVM", JVM_CLASSES / "stamp", sources, lambda: java(sources))
    step("FerretDB", FERRETDB, [], ferretdb)
    return 0


def into_venv():
    """Restarts with the Python that has the clients' modules."""
    python = VENV / "bin" / "python"
    if Path(sys.prefix) == VENV:
        # Read by the servers of ../recorded.
        os.environ |= {"KAFKA_LIB": str(KAFKA_JARS), "FERRETDB": str(FERRETDB)}
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        return
    if not python.exists():
        raise SystemExit(f"{VENV} is not there: run `{sys.argv[0]} --install` first")
    os.execv(python, [python, *sys.argv])
