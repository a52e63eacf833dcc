"""Apache Dubbo's provider and consumer, of both release lines with this protocol.

Needs a JDK of 17 or newer and Maven, which downloads Dubbo from Maven Central.
"""

from relay import Relay, run
from servers import Dubbo

def record(version, name):
    with Dubbo(version) as server:
        # Dubbo does not connect to loopback addresses. It replaces them with the host's.
        relay = Relay(server.port, "")
        run(*server.java, "consume", f"dubbo://127.0.0.1:{relay.port}", cwd=server.directory)
        relay.write("dubbo", name)


def dubbo_2():
    record("2.7.23", "dubbo_2")


def dubbo_3():
    record("3.3.2", "dubbo_3")


SCENARIOS = (dubbo_2, dubbo_3)
