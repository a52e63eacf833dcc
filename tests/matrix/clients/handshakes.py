"""TLS that is not read: connections that are made, and one that is not."""

from client import CERTIFICATE, HOST, PORT, did, modes, tool


def sequential():
    for options in (["--tls-max", "1.2"], ["--tlsv1.3"], None):
        trust = ["--cacert", CERTIFICATE, *options] if options else ["--tls-max", "1.2"]
        said = tool("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *trust, f"https://{HOST}:{PORT}/index.html",
                    SPANWISE_TLS="off")
        did(f"TLS {PORT}", failed=said != "200")


modes(sequential=sequential)
