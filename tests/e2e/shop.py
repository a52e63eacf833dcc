"""The demo shop as a child process, with its truth files."""

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time

from spanwise import ROOT

DEMO = ROOT / "demo"
FRONT = "127.0.0.1:8080"


class Shop:
    """Started on entering, stopped on leaving."""

    def __init__(self, truth, otlp_port, log):
        self.truth, self.otlp_port, self.log = truth, otlp_port, log

    def __enter__(self):
        environment = os.environ | {"SHOP_OTLP": f"http://127.0.0.1:{self.otlp_port}"}
        self.process = subprocess.Popen(
            [sys.executable, str(DEMO / "shop.py"), "up", "--no-load", "--truth", str(self.truth)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "Ctrl-C stops it" in line:
                return self
        raise SystemExit(f"the shop did not come up (exit code {self.process.wait()}):\n{''.join(said)}")

    def __exit__(self, *exception):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def load(self, concurrency, requests, seed):
        """Runs customers. Returns their report."""
        done = subprocess.run(
            [sys.executable, str(DEMO / "loadgen" / "loadgen.py"), "--concurrency", str(concurrency),
             "--requests", str(requests), "--seed", str(seed)],
            env=os.environ | {"SHOP_TRUTH": str(self.truth), "SHOP_SERVICE": "loadgen"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if done.returncode:
            raise SystemExit(f"the load generator failed:\n{done.stdout}")
        return done.stdout.strip()


def request(method, path, body=None, address=FRONT, timeout=30):
    """One request on a new connection, with a call id: (status, id, end time)."""
    call = secrets.token_hex(8)
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        mark = "&" if "?" in path else "?"
        connection.request(method, f"{path}{mark}call={call}", data, {"Content-Type": "application/json"} if data else {})
        response = connection.getresponse()
        response.read()
        return response.status, call, time.time()
    finally:
        connection.close()
