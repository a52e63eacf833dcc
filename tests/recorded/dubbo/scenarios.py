"""Apache Dubbo's provider and consumer, of both lines that speak this protocol.

Needs a JDK of 17 or newer and Maven, which fetches Dubbo from Maven Central."""

import pathlib
import shutil
import subprocess

from relay import Relay, Server, run

HERE = pathlib.Path(__file__).parent
OPENED = ["--add-opens=java.base/" + package + "=ALL-UNNAMED"
          for package in ("java.lang", "java.math", "java.util", "java.text", "java.net")]


class Dubbo(Server):
    def __init__(self, version):
        self.version = version

    def start(self):
        paths = self.directory / "paths"
        shutil.copy(HERE / "pom.xml", self.directory)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Ddubbo.version={self.version}",
             f"-Dmdep.outputFile={paths}"], check=True, cwd=self.directory)
        jars = paths.read_text()
        subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", self.directory, HERE / "Shop.java"],
                       check=True)
        self.java = ["java", *OPENED, "-Djava.net.preferIPv4Stack=true", "-cp",
                     f"{self.directory}:{jars}", "Shop"]
        return self.spawn(*self.java, "provide", self.port, cwd=self.directory)


def record(version, name):
    with Dubbo(version) as server:
        # Dubbo does not connect to loopback addresses: it puts the host's in their place.
        relay = Relay(server.port, "")
        run(*server.java, "consume", f"dubbo://127.0.0.1:{relay.port}", cwd=server.directory)
        relay.write("dubbo", name)


def dubbo_2():
    record("2.7.23", "dubbo_2")


def dubbo_3():
    record("3.3.2", "dubbo_3")


SCENARIOS = (dubbo_2, dubbo_3)
