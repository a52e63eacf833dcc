"""The shop's ports, directories, and start commands."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent
SERVICES = DEMO / "services"
VENV = DEMO / ".venv"
RUN = DEMO / ".run"
LOG = RUN / "log"
CART_BINARY = SERVICES / "cart" / "target" / "cart"
ORDERS_JAR = SERVICES / "orders" / "target" / "orders.jar"

HOST = "127.0.0.1"
# With SHOP_PORTS, a number such as 21100, all ports are moved there, for a second shop on a machine.
_BASE = int(os.environ.get("SHOP_PORTS") or 8100)
PORTS = {
    "nginx": _BASE if os.environ.get("SHOP_PORTS") else 8080,
    "storefront": _BASE + 1,
    "catalog": _BASE + 2,
    "cart": _BASE + 3,
    "orders": _BASE + 4,
    "payments": _BASE + 5,
    "stock": _BASE + 6,
    "ledger": _BASE + 7,
    "redis": _BASE + 9,
    "postgres": _BASE + 10,
}
URL = f"http://{HOST}:{PORTS['nginx']}"
POSTGRES_DSN = f"host={HOST} port={PORTS['postgres']} user=shop dbname=shop sslmode=disable gssencmode=disable"
POSTGRES_URL = f"jdbc:postgresql://{HOST}:{PORTS['postgres']}/shop?user=shop&sslmode=disable&gssEncMode=disable"


class ShopError(Exception):
    """An error message for the user that says what to do."""


def address(name):
    return f"{HOST}:{PORTS[name]}"


def postgres_tool(name):
    """A PostgreSQL program. Debian keeps the server's programs out of PATH."""
    found = shutil.which(name)
    candidates = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4]) if p.parts[4].isdigit() else 0)
    return str(candidates[-1]) if candidates else found


@dataclass
class Service:
    """One process of the shop."""

    name: str
    command: list
    environment: dict = field(default_factory=dict)
    user: str | None = None
    stop_signal: str = "SIGTERM"


def clean_environment():
    """The environment of every process of the shop: nothing of the caller's but PATH."""
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin") + ":/usr/sbin:/usr/local/go/bin",
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
    }


def services():
    """The shop's own services, in start order."""
    python = {"PYTHONPATH": str(SERVICES), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
              "SHOP_FAULTS": str(RUN / "faults")}
    interpreter = str(VENV / "bin" / "python")
    databases = {"POSTGRES_DSN": POSTGRES_DSN, "REDIS_ADDRESS": address("redis")}

    def script(name):
        return [interpreter, str(SERVICES / name / f"{name}.py")]

    return [
        Service("catalog", script("catalog"), python | databases),
        Service("stock", script("stock"), python | databases),
        Service("ledger", script("ledger"), python | databases),
        Service("payments", [str(VENV / "bin" / "opentelemetry-instrument")] + script("payments"), python | {
            "LEDGER_ADDRESS": address("ledger"),
            "OTEL_SERVICE_NAME": "payments",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": os.environ.get("SHOP_OTLP", "http://127.0.0.1:4318"),
            "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process",
            "OTEL_SEMCONV_STABILITY_OPT_IN": "http",
            "OTEL_PYTHON_FLASK_EXCLUDED_URLS": "health",
            # With the default of 5 s, the SDK's spans would be the last to arrive.
            "OTEL_BSP_SCHEDULE_DELAY": "500",
            # Without a receiver, it would delay the stop by 10 s.
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
        }),
        Service("cart", [str(CART_BINARY)], {"REDIS_ADDRESS": address("redis"), "CATALOG_ADDRESS": address("catalog")}),
        Service("orders", [
            "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
            "-Dsun.net.httpserver.nodelay=true", "-Dsun.net.httpserver.idleInterval=300",
            "-jar", str(ORDERS_JAR),
        ], {"POSTGRES_URL": POSTGRES_URL, "CART_ADDRESS": address("cart"), "STOCK_ADDRESS": address("stock"),
            "PAYMENTS_ADDRESS": address("payments")}),
        Service("storefront", ["node", str(SERVICES / "storefront" / "server.js")], {
            "CATALOG_ADDRESS": address("catalog"), "CART_ADDRESS": address("cart"),
            "ORDERS_ADDRESS": address("orders"), "STOCK_ADDRESS": address("stock")}),
    ]


def loadgen(rate, seed):
    """The load generator, as a process beside the shop."""
    return Service("loadgen", [sys.executable, str(DEMO / "loadgen" / "loadgen.py"), "--url", URL,
                               "--rate", str(rate), "--seed", str(seed)], {"PYTHONDONTWRITEBYTECODE": "1"})
