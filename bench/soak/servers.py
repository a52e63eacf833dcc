"""Real servers for the soak test, on free ports. Nothing on disk outlives the run."""

import os
import pathlib
import pwd
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import postgres  # noqa: E402
from programs import free_port, wait_for  # noqa: E402

PACKAGES = {
    "nginx": "nginx-light", "openssl": "openssl", "redis-server": "redis-server", "memcached": "memcached",
    "mariadbd": "mariadb-server-core", "mariadb-install-db": "mariadb-server-core", "dnsmasq": "dnsmasq-base",
}
# The agent only captures datagrams of ports 53 and 5353. On a separate address, the port is free,
# whatever resolver this host has.
DNS_ADDRESS, DNS_PORT = "127.53.0.1", 5353


class Servers:
    """Starts all servers. `ports` contains their ports."""

    def __init__(self, programs):
        self.programs = programs
        names = ("http", "http2", "grpc", "https", "redis", "memcached", "postgresql", "mysql")
        self.ports = {name: free_port() for name in names} | {"dns": DNS_PORT}
        self.nginx()
        self.redis()
        self.memcached()
        postgres.start(programs, self.ports["postgresql"])
        self.mysql()
        self.dns()
        for name, port in self.ports.items():
            wait_for(port, address=DNS_ADDRESS if name == "dns" else "127.0.0.1")

    def directory(self, name, user=None):
        path = self.programs.directory / name
        path.mkdir(mode=0o700)
        if user and os.geteuid() == 0:
            shutil.chown(path, user)
        return path

    def nginx(self):
        directory = self.directory("nginx")
        self.programs.run(
            "openssl", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", directory / "key.pem",
            "-out", directory / "certificate.pem")
        ports = self.ports
        answer = 'default_type application/json; return 200 \'{"item": "$uri", "left": 12}\\n\';'
        (directory / "nginx.conf").write_text(f"""
daemon off; worker_processes 1; user root; pid {directory}/pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {directory}; proxy_temp_path {directory};
    fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};
    ssl_certificate {directory}/certificate.pem; ssl_certificate_key {directory}/key.pem;
    server {{ listen 127.0.0.1:{ports["http"]}; location / {{ {answer} }} }}
    server {{ listen 127.0.0.1:{ports["http2"]} http2; location / {{ {answer} }} }}
    server {{ listen 127.0.0.1:{ports["https"]} ssl; location / {{ {answer} }} }}
    server {{
        listen 127.0.0.1:{ports["grpc"]} http2;
        # A response of headers alone ("Trailers-Only") is what gRPC answers
        # where there is no message.
        location / {{ default_type application/grpc; add_header grpc-status 0; return 200; }}
    }}
}}
""")
        self.programs.start("nginx", "nginx", "-p", directory, "-c", directory / "nginx.conf")

    def redis(self):
        self.programs.start("redis", "redis-server", "--port", self.ports["redis"], "--bind", "127.0.0.1",
                            "--save", "", "--dir", self.directory("redis"))

    def memcached(self):
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.programs.start("memcached", "memcached", "-l", "127.0.0.1", "-p", self.ports["memcached"],
                            "-U", 0, "-t", 1, *user)

    def mysql(self):
        user = postgres.unprivileged("mysql")
        directory = self.directory("mysql", user)
        named = [f"--user={user}"] if user else []
        self.programs.run("mariadb-install-db", "mariadb-install-db", "--no-defaults", f"--datadir={directory}",
                          "--auth-root-authentication-method=normal", "--skip-test-db", *named)
        tables = self.programs.directory / "mysql.sql"
        tables.write_text("CREATE DATABASE soak;\n")
        self.programs.start(
            "mysql", "mariadbd", "--no-defaults", f"--init-file={tables}", f"--datadir={directory}",
            f"--port={self.ports['mysql']}", "--bind-address=127.0.0.1", f"--socket={directory}/socket", f"--pid-file={directory}/pid",
            "--innodb-flush-log-at-trx-commit=0", *named)

    def dns(self):
        self.programs.start(
            "dns", "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
            "--pid-file=", f"--user={pwd.getpwuid(os.geteuid()).pw_name}", f"--port={DNS_PORT}",
            f"--listen-address={DNS_ADDRESS}", "--bind-interfaces", "--address=/soak.test/192.0.2.1")
