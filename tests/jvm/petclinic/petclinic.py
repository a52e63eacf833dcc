#!/usr/bin/env python3
"""Spring Petclinic's microservices under the JVM agent: each request is one tree, from the gateway
to the statement.

    git clone https://github.com/spring-petclinic/spring-petclinic-microservices
    make petclinic PETCLINIC=spring-petclinic-microservices

Builds the checkout if it has no jars, and starts six of its services with the agent: the servers of
settings and of names, the gateway, owners, visits and vets. The one that asks a language model is
left out. Their settings are those of config/.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from spanwise import Spanwise, binary, free_ports  # noqa: E402

CONFIG = Path(__file__).resolve().parent / "config"
AGENT = ROOT / "target" / "java-helper" / "spanwise-java-helper.jar"
PREFIX = "spring-petclinic-"
SERVICES = ("config-server", "discovery-server", "customers-service", "visits-service", "vets-service", "api-gateway")
PATIENCE_S = 300
# The gateway asks for names every two seconds, and so does the cache of the server of names.
NAMES_S = 8
AT_ONCE = 8
GATEWAY = PREFIX + "api-gateway"
VISIT = {"date": "2026-01-05", "description": "cough"}

# Request, the status of its answer, and what its tree must have below the gateway: services, and how
# many statements of each at least.
REQUESTS = (
    ("GET", "/api/customer/owners", None, 200, {"customers-service": 1}),
    ("GET", "/api/customer/owners/1", None, 200, {"customers-service": 1}),
    ("GET", "/api/vet/vets", None, 200, {"vets-service": 1}),
    ("POST", "/api/visit/owners/1/pets/1/visits", VISIT, 201, {"visits-service": 1}),
    # The gateway's own code asks two services, one after the other, through a circuit breaker.
    ("GET", "/api/gateway/owners/6", None, 200, {"customers-service": 1, "visits-service": 1}),
    # A service that fails.
    ("GET", "/api/customer/owners/0", None, 400, {"customers-service": 0}),
)


def jar(checkout, service):
    found = sorted((checkout / (PREFIX + service) / "target").glob(f"{PREFIX}{service}-*.jar"))
    return found[0] if found else None


def build(checkout):
    if not (checkout / (PREFIX + "api-gateway")).is_dir():
        raise SystemExit(f"{checkout} is no checkout of github.com/spring-petclinic/spring-petclinic-microservices")
    if not all(jar(checkout, service) for service in SERVICES):
        print("building Petclinic", flush=True)
        modules = ",".join(PREFIX + service for service in SERVICES)
        subprocess.run(["mvn", "-q", "-B", "-DskipTests", "-pl", modules, "package"], cwd=checkout, check=True)


def ask(url, method="GET", body=None, seconds=30):
    """Status and body of an answer; no status if there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as failure:
        return failure.code, failure.read()
    except OSError:
        return None, b""


class Petclinic:
    def __init__(self, checkout, endpoint, logs, options):
        self.checkout, self.endpoint, self.logs, self.options = checkout, endpoint, Path(logs), options
        self.ports = dict(zip(SERVICES, free_ports(len(SERVICES))))
        self.processes = {}

    def at(self, service):
        return f"http://127.0.0.1:{self.ports[service]}"

    def start(self, service):
        agent = f"-javaagent:{AGENT}=endpoint={self.endpoint}{self.options}"
        more = ["--spring.profiles.active=native"] if service == "config-server" else []
        if service == "discovery-server":
            more = ["--eureka.instance.hostname=127.0.0.1"]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SPANWISE_")},
            "GIT_REPO": str(CONFIG),
            "CONFIG_SERVER_URL": self.at("config-server"),
        }
        with open(self.logs / f"{service}.log", "ab") as log:
            self.processes[service] = subprocess.Popen(
                ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", agent,
                 "-jar", str(jar(self.checkout, service)),
                 f"--server.port={self.ports[service]}", "--server.address=127.0.0.1",
                 f"--eureka.client.service-url.defaultZone={self.at('discovery-server')}/eureka/", *more],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self, url, is_ready, what):
        """Until an answer is as it should be, and no service has ended."""
        end = time.monotonic() + PATIENCE_S
        answer = None
        while time.monotonic() < end:
            for service, process in self.processes.items():
                if process.poll() is not None:
                    raise SystemExit(f"{service} ended with {process.returncode}: see {self.logs}/{service}.log")
            answer = ask(url, seconds=5)
            if is_ready(*answer):
                return
            time.sleep(0.5)
        raise SystemExit(f"{what} is not ready after {PATIENCE_S} s: {url} answers {answer}; logs are in {self.logs}")

    def up(self):
        start = time.monotonic()
        self.start("config-server")
        self.wait(self.at("config-server") + "/application/default", lambda status, _: status == 200, "config-server")
        self.start("discovery-server")
        self.wait(self.at("discovery-server") + "/eureka/apps", lambda status, _: status == 200, "discovery-server")
        for service in SERVICES[2:]:
            self.start(service)
        for service in SERVICES[2:]:
            self.wait(f"{self.at('discovery-server')}/eureka/apps/{service}", lambda status, _: status == 200, service)
        # The gateway learns the others' names later. It is not asked before: failures open its
        # circuit breaker, which all routes share.
        time.sleep(NAMES_S)
        gateway = self.at("api-gateway")
        for path in ("/api/customer/petTypes", "/api/vet/vets", "/api/visit/pets/visits?petId=1"):
            self.wait(gateway + path, lambda status, _: status == 200, path)
        self.wait(gateway + "/api/gateway/owners/1", lambda status, _: status == 200, "the gateway")
        print(f"six services came up in {time.monotonic() - start:.0f} s", flush=True)

    def down(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def said(self):
        """What the agents said on standard error."""
        lines = []
        for service in SERVICES:
            for line in (self.logs / f"{service}.log").read_text(errors="replace").splitlines():
                if line.lower().startswith("spanwise"):
                    lines.append(f"{service}: {line}")
        return lines


def show(spans):
    for span in spans:
        failed = span.get("error") if span["status"] == "error" else ""
        print("   ", "  " * span["depth"], span["service"].removeprefix(PREFIX), span["kind"], span["operation"][:70],
              span.get("status_code") or "", failed or "")


def faults(spans, status, wanted):
    """What is wrong with the tree of a request."""
    wrong = []
    known = {span["span_id"]: span for span in spans}
    roots = [span for span in spans if span.get("parent") not in known]
    if not roots:
        return ["no span"]
    if len(roots) != 1:
        wrong.append(f"{len(roots)} roots")
    root = roots[0]
    if root["service"] != GATEWAY or root["kind"] != "server":
        wrong.append(f"the root is {root['kind']} of {root['service']}")

    elif root.get("status_code") != status:
        wrong.append(f"the gateway answered {root.get('status_code')}")

    def above(span):
        while span.get("parent") in known:
            span = known[span["parent"]]
            yield span

    for service, statements in wanted.items():
        name = PREFIX + service
        servers = [span for span in spans if span["service"] == name and span["kind"] == "server"]
        if len(servers) != 1:
            wrong.append(f"{len(servers)} server spans of {service}")
        for server in servers:
            line = [(span["service"], span["kind"]) for span in above(server)]
            if line[:1] != [(GATEWAY, "client")] or line[-1] != (GATEWAY, "server"):
                wrong.append(f"{service} is below {line}")
        of_database = [span for span in spans if span["service"] == name and span["kind"] == "client"]
        if len(of_database) < statements:
            wrong.append(f"{len(of_database)} statements of {service}")
        for statement in of_database:
            if not any(span in servers for span in above(statement)):
                wrong.append(f"{statement['operation']} is not below {service}")
    others = {span["service"] for span in spans} - {GATEWAY} - {PREFIX + service for service in wanted}
    if others:
        wrong.append(f"spans of {', '.join(sorted(others))}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of spring-petclinic-microservices")
    parser.add_argument("--spanwise", help="the program that receives the spans")
    parser.add_argument("--rounds", type=int, default=32, help="how often each request is sent, eight at once")
    parser.add_argument("--options", default="", help="more options of the agent, such as propagation=compact")
    parser.add_argument("--logs", type=Path, help="where the services write (default: a new directory)")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    build(checkout)
    if not AGENT.is_file():
        raise SystemExit(f"{AGENT} is missing: run `make java-helper`")
    logs = options.logs or Path(tempfile.mkdtemp(prefix="petclinic-"))
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        empty = Path(data) / "spanwise.toml"
        empty.write_text("")
        server = Spanwise(binary(options.spanwise), Path(data) / "spans", logs / "spanwise.log", "server", empty)
        server.start()
        clinic = Petclinic(checkout, f"http://127.0.0.1:{server.otlp}", logs,
                           "," + options.options if options.options else "")
        try:
            clinic.up()
            failed = check(server, clinic, options.rounds)
        finally:
            clinic.down()
            server.stop()
    for line in clinic.said():
        print(line)
    if failed:
        raise SystemExit(f"{failed} requests are not one tree; logs are in {logs}")


def check(server, clinic, rounds):
    failed = 0
    seen = 0
    gateway = clinic.at("api-gateway")
    for method, path, body, status, wanted in REQUESTS:
        server.wait_quiet(10, 1)
        before = {trace["trace_id"] for trace in search(server, method, path)}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            statuses = Counter(answer[0] for answer in pool.map(lambda _: ask(gateway + path, method, body), range(rounds)))
        end = time.monotonic() + 20
        while time.monotonic() < end:
            traces = [trace for trace in search(server, method, path) if trace["trace_id"] not in before]
            if len(traces) >= rounds:
                break
            time.sleep(0.5)
        time.sleep(1.5)
        print(f"{method} {path}: status {dict(statuses)}, {len(traces)} traces of {rounds}", flush=True)
        failed += abs(rounds - len(traces))
        for number, trace in enumerate(traces):
            spans = server.get(f"traces/{trace['trace_id']}")["spans"]
            wrong = faults(spans, status, wanted)
            seen += len(spans)
            if number == 0 or wrong and failed < 5:
                show(spans)
            if wrong:
                failed += 1
                print("  wrong:", "; ".join(wrong), flush=True)
    show_others(server)
    print(f"{len(REQUESTS) * rounds - failed} of {len(REQUESTS) * rounds} requests are one tree; {seen} spans")
    return failed


def show_others(server):
    """What the services do without being asked: the newest traces that do not begin at the gateway."""
    begun = Counter()
    for trace in server.get("search", limit=500, sort="newest")["traces"]:
        root = trace["root"]
        if root and (root["service"], root["kind"]) != (GATEWAY, "server"):
            begun[root["service"].removeprefix(PREFIX), root["kind"], root["operation"][:70]] += 1
    print("other traces, by what begins them:")
    for (service, kind, operation), count in begun.most_common(20):
        print(f"    {count} {service} {kind} {operation}")


def search(server, method, path):
    """Traces that the gateway's span of such a request begins."""
    return server.get("search", service=GATEWAY, limit=500,
                      attribute=[f"url.path={path}", f"http.request.method={method}"])["traces"]


if __name__ == "__main__":
    main()
