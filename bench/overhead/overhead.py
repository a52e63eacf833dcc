#!/usr/bin/env python3
"""What tracing takes from programs of the JVM: the suites of three publications, with today's tracers.

    overhead.py jmh         six programs under JMH (KubeCon 2019, "What's the Performance Overhead?")
    overhead.py topologies  4, 11 and 28 services of Spring Boot (a thesis on Spring Cloud Sleuth and Zipkin)
    overhead.py load        JCallGraph's Figures 7 to 9 (load, sizes of messages, sampling)

Results go to bench/results, pictures to docs/images. Everything in docs/overhead.md.
"""

import argparse
import pathlib
import sys
import tempfile

import host
import jmh
import load
import topologies

sys.path.insert(0, str(host.ROOT / "bench"))
from programs import Programs, end_on_signals, fail, need  # noqa: E402
from tracers import JAR  # noqa: E402

SUITES = {"jmh": jmh, "topologies": topologies, "load": load}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--spanwise", type=pathlib.Path, default=host.ROOT / "target" / "release" / "spanwise", metavar="PROGRAM")
    parser.add_argument("--ports", type=int, metavar="FIRST", help="use the ports from this one on; default: free ones")
    parser.add_argument("--results", type=pathlib.Path, metavar="DIRECTORY",
                        help="for results and pictures; default: bench/results and docs/images")
    for suite in SUITES.values():
        suite.flags(parser)
    parser.add_argument("--quick", action="store_true",
                        help="the least of everything, to see that a suite runs; its figures mean nothing")
    options = parser.parse_args()
    if options.quick:
        for name, value in SUITES[options.suite].QUICK.items():
            # What is given beside it counts.
            if getattr(options, name) == parser.get_default(name):
                setattr(options, name, value)
    if not JAR.exists():
        fail("bench/overhead/java is not built; run mvn -q -B package there")
    if not options.spanwise.exists():
        fail(f"no program at {options.spanwise}; name it with --spanwise")
    options.spanwise = options.spanwise.resolve()
    need({"java": "default-jre-headless"})
    end_on_signals()
    report = host.Report(options.suite, options.results)
    report.say(host.facts())
    report.say("# overhead.py " + " ".join(word for word in sys.argv[1:] if "/" not in word))
    with tempfile.TemporaryDirectory(prefix="overhead-") as directory:
        options.programs = Programs(directory)
        try:
            SUITES[options.suite].run(options, pathlib.Path(directory), report)
        except KeyboardInterrupt:
            report.say("# ended early")
        finally:
            options.programs.stop_all()
            report.close()


if __name__ == "__main__":
    main()
