#!/usr/bin/env python3
"""Schemathesis on our API: it makes requests of the OpenAPI document, right ones and wrong ones, and
compares the answers with it. Its whole report is in tests/surfaces/out/openapi.txt."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from surfaces import BUILT, OUT, Brief, ask, binary, run, sent_by_otlp, until, Spanwise

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "openapi" / "requirements.txt"
# Whether a question is right may depend on two of its parameters (`start` is before `end`) or on an
# SQL parser, which the document cannot say.
NOT_CHECKED = "positive_data_acceptance"
EXAMPLES = 50
SEED = 20261127


def install():
    """Schemathesis in an environment of its own, once."""
    venv = BUILT / "openapi"
    program = venv / "bin" / "schemathesis"
    if not program.exists() or program.stat().st_mtime < REQUIREMENTS.stat().st_mtime:
        print("installing schemathesis", flush=True)
        BUILT.mkdir(exist_ok=True)
        run([sys.executable, "-m", "venv", venv], HERE)
        run([venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS], HERE)
        program.touch()
    return program


def document_about(port, trace, path):
    """The document as the server has it, with a trace for example that is there."""
    status, document = ask(port, "/api/v1/openapi.json")
    if status != 200:
        raise SystemExit(f"there is no OpenAPI document: {status}")
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] == "id":
                    parameter["example"] = trace
                # Which Schemathesis does not read.
                if parameter.pop("allowEmptyValue", False):
                    parameter["schema"] = {"anyOf": [parameter["schema"], {"const": ""}]}
    path.write_text(json.dumps(document))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanwise", help="the program to test")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="requests of each operation and phase")
    options = parser.parse_args()
    program = install()
    OUT.mkdir(exist_ok=True)
    report = OUT / "openapi.txt"
    report.write_text("")
    checks = Brief()
    with tempfile.TemporaryDirectory(prefix="spanwise-openapi-") as directory:
        directory = Path(directory)
        spanwise = Spanwise(binary(options.spanwise), directory / "data", OUT / "spanwise.log", command="server")
        spanwise.start()
        try:
            trace, sent = sent_by_otlp(time.time_ns() - 5 * 10**9)
            ask(spanwise.otlp, "/v1/traces", "POST", json.dumps(sent), {"Content-Type": "application/json"})
            came = until(lambda: ask(spanwise.http, f"/api/v1/traces/{trace}")[0], lambda status: status == 200)
            checks.check("the trace that is asked for is there", came == 200, came)
            document = directory / "openapi.json"
            document_about(spanwise.http, trace, document)
            # What deletes comes last.
            for methods in (["--exclude-method=DELETE"], ["--include-method=DELETE"]):
                done = subprocess.run(
                    [program, "run", document, f"--url=http://127.0.0.1:{spanwise.http}", *methods,
                     "--header=Spanwise-Request: schemathesis", f"--max-examples={options.examples}",
                     f"--seed={SEED}", f"--exclude-checks={NOT_CHECKED}", "--continue-on-failure",
                     "--warnings=off"],
                    cwd=directory, capture_output=True, text=True, timeout=900, check=False)
                with open(report, "a") as file:
                    file.write(done.stdout + done.stderr)
                found = done.stdout[done.stdout.find("= FAILURES ="):] if done.returncode else ""
                checks.check(f"the API is as its document says ({methods[0]})", done.returncode == 0,
                             found[:4000] or done.stderr[-2000:])
            checks.check("the server is still there", spanwise.alive() and ask(spanwise.http, "/api/v1/status")[0] == 200)
        finally:
            spanwise.stop()
    sys.exit(checks.close())


if __name__ == "__main__":
    main()
