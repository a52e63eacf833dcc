"""Counts passed and failed checks."""

import sys
import traceback


class Checks:
    """`check(name, held, detail)`; `close()` prints the total and returns the exit code."""

    def __init__(self):
        self.passed, self.failed = 0, []

    def check(self, name, held, detail=""):
        text = f"{name}{': ' if detail else ''}{detail}"
        if held:
            self.passed += 1
            print(f"ok    {text}", flush=True)
        else:
            self.failed.append(name)
            print(f"FAIL  {text}", flush=True)
        return held

    def case(self, name, body):
        """Runs a case. An exception in it only fails this case."""
        try:
            body()
        except (Exception, SystemExit):
            traceback.print_exc(file=sys.stdout)
            self.check(name, False, "the case itself broke; see above")

    def close(self):
        for name in self.failed:
            print(f"failed: {name}")
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0
