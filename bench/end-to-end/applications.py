"""The measured applications, which know nothing of tracing. `processes` are those of an
application that is already running.
"""

import os
import pathlib
import socket
import sys
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import postgres  # noqa: E402
from programs import fail, free_port  # noqa: E402

START_SECONDS = 90


def wait_for_page(programs, process, name, url):
    """Waits until the page is available. A program may listen before it can answer."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        programs.check(name, process)
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                reply.read()
                return
        except OSError:
            time.sleep(0.2)
    fail(f"{name} does not answer at {url} after {START_SECONDS} s; see {programs.log(name)}")


class Spring:
    """Three Spring Boot services and PostgreSQL. A request is an order with its lines and the
    stock of each.
    """

    name = "spring"
    paths = ["/orders/{}"]
    items = 1000
    script = HERE / "numbers.lua"
    packages = {"java": "default-jre-headless"}
    processes = ()

    def start(self, programs, otlp_port):
        jar = HERE / "spring" / "target" / "spring.jar"
        if not jar.exists():
            fail(f"{jar} is not there; `mvn package` in bench/end-to-end/spring makes it")
        database, gateway, orders, stock = (free_port() for _ in range(4))
        postgres.start(programs, database)
        programs.run("psql", postgres.tool("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
                     "-p", database, "-U", "bench", "-f", HERE / "spring" / "schema.sql", "postgres")
        for name, port, page in (("stock", stock, "/stock/1"), ("orders", orders, "/orders/1"),
                                 ("gateway", gateway, "/orders/1")):
            process = programs.start(
                name, "java", "-Xmx256m", "-Dhttp.maxConnections=50", "-jar", jar,
                f"--spring.profiles.active={name}", f"--server.port={port}",
                f"--spring.datasource.url=jdbc:postgresql://127.0.0.1:{database}/postgres?user=bench&sslmode=disable",
                f"--bench.orders=http://127.0.0.1:{orders}", f"--bench.stock=http://127.0.0.1:{stock}")
            wait_for_page(programs, process, name, f"http://127.0.0.1:{port}{page}")
        self.url = f"http://127.0.0.1:{gateway}"


class Shop:
    """The demo shop: services in Node.js, Python, Go and Java behind nginx, with Redis and
    PostgreSQL.
    """

    name = "shop"
    paths = ["/product/{}", "/product/{}", "/product/{}", "/", "/cart?customer=c{}"]
    items = 200
    script = HERE / "shop.lua"
    packages = {}
    processes = ()

    def start(self, programs, otlp_port):
        process = programs.start("shop", sys.executable, ROOT / "demo" / "shop.py", "up", "--no-load",
                                 env=os.environ | {"SHOP_OTLP": f"http://127.0.0.1:{otlp_port}"})
        sys.path.insert(0, str(ROOT / "demo"))
        from manager import layout  # The shop's ports are its own.
        self.url = layout.URL
        end = time.monotonic() + START_SECONDS
        while "Ctrl-C stops it" not in programs.log("shop").read_text():
            programs.check("shop", process)
            if time.monotonic() > end:
                fail(f"the shop is not up after {START_SECONDS} s:\n{programs.log('shop').read_text()}")
            time.sleep(0.2)


class Running:
    """An application that is already running, with its root processes if known."""

    script = HERE / "numbers.lua"
    packages = {}

    def __init__(self, name, url, items, pids):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            fail(f"{url} is no URL of plain HTTP")
        self.name = name
        self.items = items
        self.processes = [Process(pid) for pid in pids]
        self.url = f"http://{parts.netloc}"
        self.paths = [parts.path + (f"?{parts.query}" if parts.query else "") or "/"]

    def start(self, programs, otlp_port):
        page = self.url + self.paths[0].replace("{}", "1")
        try:
            with urllib.request.urlopen(page, timeout=10) as reply:
                reply.read()
        except OSError as error:
            fail(f"{page} does not answer: {error}")


class Process:
    """A process that this benchmark must not end."""

    def __init__(self, pid):
        if not pathlib.Path(f"/proc/{pid}").exists():
            fail(f"there is no process {pid}; --process takes what all of the application comes from")
        self.pid = pid


def address(application):
    """Its address, as ADDRESS:PORT."""
    parts = urllib.parse.urlsplit(application.url)
    return f"{socket.gethostbyname(parts.hostname)}:{parts.port or 80}"
