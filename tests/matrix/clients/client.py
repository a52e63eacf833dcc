"""The common part of the clients. Each is run as `NAME.py MODE PORT [CERTIFICATE]` (with a
certificate: over TLS), and prints its requests, one JSON object each. Some are servers, too:
`NAME.py serve PORT [CERTIFICATE KEY]`.
"""

import json
import os
import ssl
import subprocess
import sys

MODE, PORT = sys.argv[1], int(sys.argv[2])
CERTIFICATE = sys.argv[3] if len(sys.argv) > 3 else None
KEY = sys.argv[4] if len(sys.argv) > 4 else None
HOST = "127.0.0.1"


def did(op, failed=False, code=None, **more):
    """Prints a request with its span's operation and its result."""
    print(json.dumps({"op": op, "failed": failed, **({} if code is None else {"code": code}), **more}), flush=True)


def tool(*command, text=None, **environment):
    """Runs a command-line client. Returns its output."""
    done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, timeout=60,
                          env=os.environ | environment)
    sys.stderr.write(done.stderr)
    return done.stdout


def context():
    """TLS that trusts the server's certificate, or that presents it."""
    if KEY:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(CERTIFICATE, KEY)
        return serving
    return ssl.create_default_context(cafile=CERTIFICATE)


def modes(**work):
    """Runs the work of this mode."""
    work[MODE]()
