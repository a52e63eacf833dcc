"""The columns of the suites: what a JVM is given to be traced in each way, and why a way is missing here."""

import dataclasses
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "overhead"
JAR = BUILT / "overhead-1.jar"
CLASS_PATH = f"{JAR}:{BUILT / 'lib'}/*"
OTEL_AGENT = BUILT / "agents" / "opentelemetry-javaagent.jar"
# In the order of the tables.
NAMES = ("none", "noop", "otel-sdk", "otel-agent", "brave", "skywalking", "spanwise")
TITLES = {
    "none": "none", "noop": "no-op API", "otel-sdk": "OpenTelemetry SDK", "otel-agent": "OpenTelemetry agent",
    "brave": "Brave", "skywalking": "SkyWalking agent", "spanwise": "Spanwise agent", "zero-code": "Spanwise, zero-code"}


@dataclasses.dataclass
class Tracer:
    """One way to trace."""
    name: str
    flags: list  # of the JVM
    missing: str = ""  # why it cannot run here

    @property
    def title(self):
        return TITLES[self.name]


def spanwise_agent():
    """Our agent's jar, as `make java-helper` leaves it."""
    given = os.environ.get("SPANWISE_JVM_AGENT")
    return pathlib.Path(given) if given else ROOT / "target" / "java-helper" / "spanwise-java-helper.jar"


def tracer(name, server, service="bench", sampled=1.0):
    """A way by its name. `server` is where spans go."""
    where = [f"-Dbench.otlp=http://127.0.0.1:{server.otlp}", f"-Dbench.zipkin=http://127.0.0.1:{server.zipkin}",
             f"-Dbench.sampled={sampled:g}"]
    if name == "otel-agent":
        missing = "" if OTEL_AGENT.exists() else f"not fetched: {OTEL_AGENT.relative_to(ROOT)} is missing"
        # Traces alone, as for every other way.
        return Tracer(name, [
            f"-javaagent:{OTEL_AGENT}", f"-Dotel.service.name={service}", "-Dotel.exporter.otlp.protocol=http/protobuf",
            f"-Dotel.exporter.otlp.endpoint=http://127.0.0.1:{server.otlp}", "-Dotel.metrics.exporter=none",
            "-Dotel.logs.exporter=none", "-Dotel.traces.sampler=parentbased_traceidratio",
            f"-Dotel.traces.sampler.arg={sampled:g}", *where], missing)
    if name == "skywalking":
        given = os.environ.get("SKYWALKING_AGENT")
        # Its own sampler counts traces in three seconds; a share cannot be set.
        return Tracer(name, [f"-javaagent:{given}", f"-Dskywalking.agent.service_name={service}", *where],
                      "" if given and pathlib.Path(given).exists()
                      else "not installed: SKYWALKING_AGENT does not name skywalking-agent.jar of its distribution")
    if name == "spanwise":
        jar = spanwise_agent()
        keep = f"sampling={round(1 / sampled)}" if sampled else "spans=off"
        settings = f"endpoint=http://127.0.0.1:{server.otlp},service={service},{keep}"
        return Tracer(name, [f"-javaagent:{jar}={settings}", *where], "" if jar.exists() else "not built: make java-helper")
    return Tracer(name, where)
