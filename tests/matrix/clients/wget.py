"""wget, whose TLS is GnuTLS's."""

from client import CERTIFICATE, HOST, PORT, did, modes, tool

PATHS = {"/index.html": 200, "/missing": 404, "/gone": 503, "/large.bin": 200}


def sequential():
    trust = [f"--ca-certificate={CERTIFICATE}"] if CERTIFICATE else []
    scheme = "https" if CERTIFICATE else "http"
    tool("wget", "-q", "-O", "/dev/null", "--tries=1", *trust, *(f"{scheme}://{HOST}:{PORT}{path}" for path in PATHS))
    for path, code in PATHS.items():
        did(f"GET {path}", code >= 400, code, server_failed=code >= 500)


modes(sequential=sequential)
