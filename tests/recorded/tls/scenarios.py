"""TLS: curl and Go with nginx, OpenSSL with itself, Python, and failures.

Needs nginx, OpenSSL, curl, Go 1.24 or newer, and PostgreSQL.
"""

import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading

from relay import Relay, Server, run
from servers import Postgres, certificate

HERE = pathlib.Path(__file__).parent


class Nginx(Server):
    def start(self):
        chain, key = certificate(self.directory)
        (self.directory / "nginx.conf").write_text(
            f"""daemon off; pid {self.directory}/pid; error_log /dev/null; user root;
            events {{ worker_connections 64; }}
            http {{
                access_log off;
                server {{
                    listen 127.0.0.1:{self.port} ssl http2; server_name shop.example;
                    ssl_certificate {chain}; ssl_certificate_key {key};
                    ssl_protocols TLSv1.2 TLSv1.3;
                    location / {{ return 200 "geheim\\n"; }}
                }}
            }}"""
        )
        return self.spawn("nginx", "-p", self.directory, "-c", self.directory / "nginx.conf")


class OpenSsl(Server):
    def __init__(self, *options):
        self.options = options

    def start(self):
        chain, key = certificate(self.directory)
        return self.spawn(
            "openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-cert", chain,
            "-key", key, "-rev", *self.options,
        )


def curl(relay, *arguments, path="/"):
    run("curl", "-s", "--resolve", f"shop.example:{relay.port}:127.0.0.1", *arguments,
        f"https://shop.example:{relay.port}{path}")


def s_client(relay, *arguments):
    run("openssl", "s_client", "-connect", f"127.0.0.1:{relay.port}", "-servername",
        "shop.example", *arguments, input=b"geheim\n")


def versions():
    with Nginx() as server:
        relay = Relay(server.port)
        curl(relay, "-k", "--tls-max", "1.2")
        curl(relay, "-k", "--tlsv1.3")
        curl(relay, "-k", "--tls-max", "1.2", "--http1.1")
        relay.write("tls", "versions")


def go():
    with Nginx() as server, tempfile.TemporaryDirectory(prefix="record-") as directory:
        program = pathlib.Path(directory) / "client"
        subprocess.run(["go", "build", "-o", program, HERE / "client.go"], check=True)
        relay = Relay(server.port)
        run(program, f"https://127.0.0.1:{relay.port}/")
        relay.write("tls", "go")


def resumed():
    for version in ("-tls1_2", "-tls1_3"):
        with OpenSsl() as server:
            relay = Relay(server.port)
            session = server.directory / "session"
            # The response comes after the session tickets. Without it, the client does not store
            # them.
            for which in ("-sess_out", "-sess_in"):
                with subprocess.Popen(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{relay.port}", "-servername",
                     "shop.example", version, which, str(session)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                ) as client:
                    client.stdin.write(b"geheim\n")
                    client.stdin.flush()
                    while b"mieheg" not in client.stdout.readline():
                        pass
                    client.stdin.close()
            relay.write("tls", "resumed_" + version[-1])


def retried():
    """The server needs another group than the client offered first."""
    with OpenSsl("-groups", "P-384") as server:
        relay = Relay(server.port)
        s_client(relay, "-groups", "X25519:P-384", "-alpn", "h2,http/1.1")
        relay.write("tls", "retried")


def failures():
    with Nginx() as server:
        relay = Relay(server.port)
        # The client does not know the certificate's issuer.
        curl(relay, "--tls-max", "1.2")
        curl(relay, "--tlsv1.3")
        # No common cipher.
        curl(relay, "-k", "--tls-max", "1.2", "--ciphers", "DHE-RSA-AES256-GCM-SHA384")
        curl(relay, "-k", "--tlsv1.1", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0")
        # Closed after the ClientHello.
        greeting, _ = greeting_of("shop.example")
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(greeting)
            client.recv(65536)
        # TLS to a server without TLS, and the reverse.
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"\x16\x03\x01\x00\x05hello")
            client.recv(65536)
        relay.write("tls", "failures")


def greeting_of(name):
    """A client's first bytes."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(into, out, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read(), client


def python():
    """The server requires a client certificate."""
    with tempfile.TemporaryDirectory(prefix="record-") as directory:
        chain, key = certificate(pathlib.Path(directory))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        context.load_verify_locations(chain)
        context.verify_mode = ssl.CERT_REQUIRED
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            for _ in range(3):
                near, _ = listener.accept()
                try:
                    with context.wrap_socket(near, server_side=True) as secure:
                        while data := secure.recv(65536):
                            secure.sendall(data)
                except OSError:
                    near.close()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        relay = Relay(listener.getsockname()[1])
        for version, shows in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False),
                               (ssl.TLSVersion.TLSv1_3, False)):
            client = ssl.create_default_context(cafile=chain)
            client.maximum_version = version
            if shows:
                client.load_cert_chain(chain, key)
            try:
                with socket.create_connection(("127.0.0.1", relay.port)) as plain:
                    with client.wrap_socket(plain, server_hostname="shop.example") as secure:
                        secure.sendall(b"geheim" * 9000)
                        seen = 0
                        while seen < 54_000 and (data := secure.recv(65536)):
                            seen += len(data)
            except OSError:
                pass
        server.join(timeout=10)
        relay.write("tls", "python")


def starttls():
    with Postgres(tls=True) as server:
        relay = Relay(server.port)
        run("psql", "-X", "-q", f"host=127.0.0.1 port={relay.port} user=shop dbname=postgres "
            "sslmode=require", "-c", "SELECT 'geheim'")
        relay.write("tls", "starttls")


def tunnel():
    """curl through a proxy: HTTP first, then the tunnel's contents."""
    with Nginx() as server:
        listener = socket.create_server(("127.0.0.1", 0))

        def pass_on(source, sink):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

        def serve():
            near, _ = listener.accept()
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += near.recv(4096)
            far = socket.create_connection(("127.0.0.1", server.port))
            near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=pass_on, args=(far, near), daemon=True).start()
            try:
                pass_on(near, far)
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        relay = Relay(listener.getsockname()[1])
        run("curl", "-s", "-k", "--proxy", f"http://127.0.0.1:{relay.port}", "--connect-to",
            f"shop.example:443:127.0.0.1:{server.port}", "https://shop.example/geheim")
        relay.write("tls", "tunnel")


SCENARIOS = (versions, go, resumed, retried, failures, python, starttls, tunnel)
