"""The real servers of the scenarios and of ../matrix.

Each serves plaintext at its `port`, or TLS if it is created with `tls=True`. The scenarios of a
protocol say what its servers need.
"""

import os
import pathlib
import random
import shutil
import subprocess
import time

from relay import Relay, Server, free_port, run, wait_for

HERE = pathlib.Path(__file__).parent


def certificate(directory, name="shop.example"):
    """A self-signed certificate and its key."""
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
        "-keyout", directory / "key.pem", "-out", directory / "certificate.pem",
        "-subj", f"/CN={name}",
        "-addext", f"subjectAltName=DNS:{name},DNS:go.{name},DNS:localhost,IP:127.0.0.1")
    return directory / "certificate.pem", directory / "key.pem"


class Encrypting(Server):
    """A server with TLS support."""

    def __init__(self, tls=False):
        self.tls = tls

    def certificate(self, user=None):
        """Paths of its certificate and its key, which belong to the current user."""
        chain, key = certificate(self.directory)
        for path in (chain, key):
            path.chmod(0o600)
            if user and os.geteuid() == 0:
                shutil.chown(path, user)
        return chain, key


class Nginx(Encrypting):
    """nginx. `options` are added to its `listen` directive (such as `http2`)."""

    def __init__(self, *options, tls=False, size=150_000):
        super().__init__(tls)
        self.options, self.size = options, size

    def start(self):
        root = self.directory / "www"
        root.mkdir()
        (root / "index.html").write_text("hello\n")
        (root / "large.bin").write_bytes(random.Random(1).randbytes(self.size))
        listen, secrets = [f"127.0.0.1:{self.port}", *self.options], ""
        if self.tls:
            listen.append("ssl")
            chain, key = self.certificate()
            secrets = f"ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;"
        (self.directory / "nginx.conf").write_text(
            f"""daemon off; pid {self.directory}/pid; error_log /dev/null; user root;
            events {{ worker_connections 64; }}
            http {{
                access_log off; client_body_temp_path {self.directory}/body;
                server {{
                    listen {" ".join(listen)}; root {root}; {secrets}
                    location /gone {{ return 503 "no\\n"; }}
                    location /empty {{ return 204; }}
                }}
            }}"""
        )
        return self.spawn("nginx", "-p", self.directory, "-c", self.directory / "nginx.conf")


class Postgres(Encrypting):
    def start(self):
        bin_directory = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        data = self.directory / "data"
        as_user = []
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres")
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        run(*as_user, bin_directory / "initdb", "-D", data, "-U", "shop", "-A", "trust", cwd="/")
        secrets = []
        if self.tls:
            chain, key = self.certificate("postgres")
            secrets = ["-c", "ssl=on", "-c", f"ssl_cert_file={chain}", "-c", f"ssl_key_file={key}"]
        return self.spawn(
            *as_user, bin_directory / "postgres", "-D", data, "-p", self.port,
            "-c", "listen_addresses=127.0.0.1", "-k", self.directory, *secrets, cwd="/",
        )


MARIADB_SETUP = """
CREATE DATABASE shop; USE shop;
CREATE USER shop IDENTIFIED BY 'hunter2'; GRANT ALL ON *.* TO shop;
CREATE TABLE users (id int PRIMARY KEY, name varchar(4000));
CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, total decimal(8,2));
CREATE PROCEDURE totals() BEGIN SELECT id FROM orders; SELECT total FROM orders; END
"""


class Mariadb(Encrypting):
    def start(self):
        data = self.directory / "data"
        user = []
        if os.geteuid() == 0:
            shutil.chown(self.directory, "mysql")
            user = ["--user=mysql"]
        run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
            "--auth-root-authentication-method=normal", *user)
        secrets = ["--skip-ssl"]
        if self.tls:
            chain, key = self.certificate("mysql")
            secrets = [f"--ssl-key={key}", f"--ssl-cert={chain}"]
        return self.spawn(
            "mariadbd", "--no-defaults", f"--datadir={data}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--socket={self.directory}/socket", "--local-infile=1",
            *secrets, *user,
        )

    def __enter__(self):
        super().__enter__()
        import pymysql

        root = pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True)
        *statements, procedure = MARIADB_SETUP.strip().split("\n")
        with root.cursor() as cursor:
            for statement in " ".join(statements).split(";"):
                if statement.strip():
                    cursor.execute(statement)
            cursor.execute(procedure)
        root.close()
        return self


class Redis(Encrypting):
    def start(self):
        ports = ["--port", self.port]
        if self.tls:
            chain, key = self.certificate()
            ports = ["--port", "0", "--tls-port", self.port, "--tls-cert-file", chain, "--tls-key-file", key,
                     "--tls-ca-cert-file", chain, "--tls-auth-clients", "no"]
        return self.spawn(
            "redis-server", *ports, "--bind", "127.0.0.1", "--save", "", "--dir", self.directory,
        )


class Memcached(Encrypting):
    def start(self):
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        secrets = []
        if self.tls:
            chain, key = self.certificate("nobody")
            secrets = ["-Z", "-o", f"ssl_chain_cert={chain},ssl_key={key}"]
        return self.spawn("memcached", "-l", "127.0.0.1", "-p", self.port, "-U", "0", *secrets, *user)


class Mosquitto(Encrypting):
    def start(self):
        passwords = self.directory / "passwords"
        run("mosquitto_passwd", "-b", "-c", passwords, "shop", "geheim")
        rights = self.directory / "rights"
        rights.write_text("topic readwrite home/#\nuser shop\ntopic readwrite home/#\n")
        secrets = ""
        if self.tls:
            chain, key = self.certificate()
            secrets = f"certfile {chain}\nkeyfile {key}\n"
        config = self.directory / "mosquitto.conf"
        config.write_text(f"""listener {self.port} 127.0.0.1
{secrets}user root
allow_anonymous true
password_file {passwords}
acl_file {rights}
max_topic_alias 10
""")
        return self.spawn("mosquitto", "-c", config)


class RabbitMQ(Encrypting):
    def start(self):
        epmd = free_port()
        # Otherwise the broker would start one and leave it behind.
        self.spawn("epmd", "-port", epmd)
        wait_for(epmd)
        (self.directory / "plugins").write_text("[].\n")
        self.environment = os.environ | {
            "ERL_EPMD_PORT": str(epmd),
            "HOME": str(self.directory),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": "record@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.directory),
            "RABBITMQ_LOG_BASE": str(self.directory),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
        }
        if self.tls:
            chain, key = self.certificate()
            config = self.directory / "rabbitmq.conf"
            config.write_text(f"""listeners.tcp = none
listeners.ssl.1 = 127.0.0.1:{self.port}
ssl_options.certfile = {chain}
ssl_options.keyfile = {key}
ssl_options.verify = verify_none
""")
            self.environment["RABBITMQ_CONFIG_FILE"] = str(config)
            # RabbitMQ would also open this port without TLS.
            for name in ("RABBITMQ_NODE_IP_ADDRESS", "RABBITMQ_NODE_PORT"):
                del self.environment[name]
        process = self.spawn("/usr/lib/rabbitmq/bin/rabbitmq-server", env=self.environment)
        time.sleep(5)
        wait_for(self.port)
        return process


class Nats(Encrypting):
    def start(self):
        secrets = ""
        if self.tls:
            chain, key = self.certificate()
            secrets = f'tls {{ cert_file: "{chain}", key_file: "{key}" }}'
        config = self.directory / "nats.conf"
        config.write_text(f"""listen: 127.0.0.1:{self.port}
{secrets}
jetstream {{ store_dir: "{self.directory}" }}
no_auth_user: shop
authorization {{
    users: [
        {{ user: shop, password: geheim, permissions: {{ publish: {{ deny: "forbidden.>" }} }} }}
    ]
}}
""")
        return self.spawn("nats-server", "-c", config)


class Ferretdb(Encrypting):
    def start(self):
        listen = [f"--listen-addr=127.0.0.1:{self.port}"]
        if self.tls:
            chain, key = self.certificate()
            listen = ["--listen-addr=", f"--listen-tls=127.0.0.1:{self.port}",
                      f"--listen-tls-cert-file={chain}", f"--listen-tls-key-file={key}"]
        return self.spawn(
            os.environ["FERRETDB"], "--handler=sqlite", f"--sqlite-url=file:{self.directory}/",
            *listen, "--debug-addr=-", "--telemetry=disable", f"--state-dir={self.directory}",
        )


CLUSTER = "4L6g3nShT-eMCtK--X86sw"


class Kafka(Encrypting):
    """A broker with `advertised` as its address, because clients reconnect to the advertised
    address: its own port, or its relay's.
    """

    protocol = "PLAINTEXT"

    def __init__(self, tls=False, relayed=True):
        super().__init__(tls)
        self.relayed = relayed

    def start(self):
        self.relay = Relay(self.port) if self.relayed else None
        advertised = self.relay.port if self.relay else self.port
        control, inside = free_port(), free_port()
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        protocol, secrets = self.protocol, ""
        if self.tls:
            protocol = "SSL"
            chain, key = self.certificate()
            store = self.directory / "store.pem"
            store.write_text(key.read_text() + chain.read_text())
            secrets = f"ssl.keystore.type=PEM\nssl.keystore.location={store}"
        config = self.directory / "server.properties"
        config.write_text(f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=OUT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{control},IN://127.0.0.1:{inside}
advertised.listeners=OUT://127.0.0.1:{advertised},IN://127.0.0.1:{inside}
listener.security.protocol.map=OUT:{protocol},CONTROLLER:PLAINTEXT,IN:PLAINTEXT
inter.broker.listener.name=IN
controller.listener.names=CONTROLLER
log.dirs={self.directory}/data
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
sasl.enabled.mechanisms=PLAIN
listener.name.out.plain.sasl.jaas.config={plain} required user_shop="geheim";
{secrets}
""")
        java = ["java", "-Xmx512m", "-cp", f"{os.environ['KAFKA_LIB']}/*"]
        run(*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", config)
        process = self.spawn(*java, "kafka.Kafka", config)
        time.sleep(8)
        return process


class Dnsmasq(Server):
    def start(self):
        large = [f"--txt-record=large.shop.example,{'x' * 200}{n}" for n in range(8)]
        return self.spawn(
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", f"--port={self.port}",
            f"--listen-address={self.address}", "--bind-interfaces", "--no-resolv", "--no-hosts",
            "--pid-file", "--user=root", "--local=/shop.example/", "--edns-packet-max=4096",
            "--host-record=www.shop.example,10.1.2.3,fd00::3", "--cname=alias.shop.example,www.shop.example",
            "--address=/many.shop.example/10.1.0.1", "--srv-host=_http._tcp.shop.example,www.shop.example,80",
            "--server=/slow.example/127.0.0.1#9", *large,
        )


class Php(Server):
    """php-fpm with these pages (name to text)."""

    def __init__(self, pages):
        self.pages = pages

    def start(self):
        program = max(pathlib.Path("/usr/sbin").glob("php-fpm*"))
        pages = self.directory / "pages"
        pages.mkdir()
        for name, text in self.pages.items():
            (pages / name).write_text(text)
        config = self.directory / "fpm.conf"
        user = ["user = nobody", "group = nogroup"] if os.geteuid() == 0 else []
        config.write_text("\n".join([
            "[global]", f"error_log = {self.directory}/log", "[www]", *user,
            f"listen = 127.0.0.1:{self.port}", "pm = static", "pm.max_children = 2",
            "php_flag[display_errors] = off", "php_flag[log_errors] = on",
            "php_flag[output_buffering] = off", "",
        ]))
        return self.spawn(program, "--nodaemonize", "-n", "--fpm-config", config)


class FastcgiNginx:
    """nginx in front of a FastCGI server with a directory."""

    def __init__(self, server, port, keep):
        self.port = free_port()
        directory = server.directory
        kept = "fastcgi_keep_conn on;" if keep else ""
        params = "\n".join(
            f"fastcgi_param {name} {value};" for name, value in (
                ("QUERY_STRING", "$query_string"), ("REQUEST_METHOD", "$request_method"),
                ("CONTENT_TYPE", "$content_type"), ("CONTENT_LENGTH", "$content_length"),
                ("SCRIPT_NAME", "$fastcgi_script_name"), ("REQUEST_URI", "$request_uri"),
                ("SCRIPT_FILENAME", f"{directory}/pages$fastcgi_script_name"),
                ("SERVER_PROTOCOL", "$server_protocol"), ("SERVER_NAME", "shop.example"),
                ("REMOTE_ADDR", "$remote_addr"),
            ))
        config = directory / "nginx.conf"
        config.write_text(f"""
            daemon off; pid {directory}/pid; error_log {directory}/errors;
            events {{}}
            http {{
                access_log off; client_body_temp_path {directory}/body;
                fastcgi_temp_path {directory}/fastcgi; proxy_temp_path {directory}/proxy;
                scgi_temp_path {directory}/scgi; uwsgi_temp_path {directory}/uwsgi;
                upstream php {{ server 127.0.0.1:{port}; keepalive 4; }}
                server {{
                    listen 127.0.0.1:{self.port};
                    location / {{
                        fastcgi_pass php; {kept} {params}
                    }}
                }}
            }}
        """)
        self.process = server.spawn("/usr/sbin/nginx", "-c", config)
        wait_for(self.port)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


DUBBO = HERE / "dubbo"
OPENED = ["--add-opens=java.base/" + package + "=ALL-UNNAMED"
          for package in ("java.lang", "java.math", "java.util", "java.text", "java.net")]


class Dubbo(Server):
    def __init__(self, version, program=DUBBO / "Shop.java"):
        self.version, self.program = version, program

    def start(self):
        paths = self.directory / "paths"
        shutil.copy(DUBBO / "pom.xml", self.directory)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Ddubbo.version={self.version}",
             f"-Dmdep.outputFile={paths}"], check=True, cwd=self.directory)
        jars = paths.read_text()
        subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", self.directory, self.program],
                       check=True)
        self.java = ["java", *OPENED, "-Djava.net.preferIPv4Stack=true", "-cp",
                     f"{self.directory}:{jars}", self.program.stem]
        return self.spawn(*self.java, "provide", self.port, cwd=self.directory)
