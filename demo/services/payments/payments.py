"""payments: charges the customer. The only service with the standard OpenTelemetry SDK:
`opentelemetry-instrument` starts it and instruments Flask and requests. Nothing of that is in this
file.
"""

import os
import signal

import requests
from flask import Flask, request
from werkzeug.serving import WSGIRequestHandler, run_simple

from shopkit import calls

app = Flask("payments")
ledger = requests.Session()

DECLINED = "4000000000000002"
BROKEN = "4000000000000119"


@app.get("/health")
def health():
    return {"status": "ok"}


@app.post("/payments")
def pay():
    calls.serving.set(request.args.get("call"))
    payment = request.get_json()
    if payment["card"] == DECLINED:
        return {"error": "card declined"}, 402
    if payment["card"] == BROKEN:
        raise RuntimeError("the card network did not answer")
    url = f"http://{os.environ['LEDGER_ADDRESS']}/entries"
    with calls.made("http", f"POST {url}") as call:
        entry = ledger.post(calls.in_url(url, call), timeout=10, json={
            "order_key": payment["order_key"], "amount_cents": payment["amount_cents"]})
    entry.raise_for_status()
    return {"paid": payment["amount_cents"], "entry": entry.json()["entry"]}, 201


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive
    wbufsize = 65536
    disable_nagle_algorithm = True

    def log_request(self, *args):
        pass


def stop(*_):
    raise SystemExit(0)  # so that the SDK sends its remaining spans


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    run_simple("127.0.0.1", int(os.environ["PORT"]), app, threaded=True, request_handler=Handler)
