"""A ClickHouse cluster on this host: two shards of two replicas each, a keeper, and ON CLUSTER.

    cluster.py --into DIRECTORY --data DIRECTORY --user USER --password PASSWORD

The servers are ClickHouse 26.7, from the library in npm's chdb (see node.py). The keeper is
Debian's ZooKeeper. The library lacks the queue for ON CLUSTER. So such statements are parsed by a
server's own parser, and then executed as the queue would: on each server, or on one of each shard
if it replicates the change.

Installs the library into the first directory. Prints `listening on PORT…`, one port for each
server, ordered by shard. A line `kill N` on standard input kills that server, and `killed` is
printed. The end of input ends all servers.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

PACKAGE = "@chdb/lib-linux-x64-gnu@26.7.3-stable.1"
INTEGRITY = "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw=="
ZOOKEEPER = Path("/usr/share/java/zookeeper.jar")
SHARDS = [1, 1, 2, 2]
CLUSTER = "spanwise"
# The address of the interserver interface: see node.py.
OTHER_HOST = "127.0.0.2"
ON_CLUSTER = re.compile(r"\sON CLUSTER '[^']*'")
PATIENCE_SECONDS = 60


def install(into):
    """The library, which is downloaded if it is missing."""
    library = into / "package/libchdb.so"
    ready = into / "ready"
    if not ready.exists():
        into.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["npm", "pack", "--json", PACKAGE], cwd=into, check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        archive = into / json.loads(packed.stdout)[0]["filename"]
        digest = hashlib.sha512(archive.read_bytes()).digest()
        if "sha512-" + base64.b64encode(digest).decode() != INTEGRITY:
            sys.exit(f"{archive} is not the package that this was written for")
        with tarfile.open(archive) as tar:
            tar.extract("package/libchdb.so", into, filter="data")
        archive.unlink()
        ready.touch()
    return library


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A server of the cluster. `everyone` contains all servers."""

    def __init__(self, number, directory, ports):
        self.number = number
        self.directory = directory
        self.http, self.native = ports

    def configure(self, keeper, everyone, user, password):
        self.directory.mkdir(parents=True)
        shards = {}
        for shard, server in zip(SHARDS, everyone):
            shards[shard] = shards.get(shard, "") + (
                f"<replica><host>127.0.0.1</host><port>{server.native}</port>"
                f"<user>{escape(user)}</user><password>{escape(password)}</password></replica>")
        shards = "".join("<shard><internal_replication>true</internal_replication>"
                         f"{replicas}</shard>" for replicas in shards.values())
        (self.directory / "config.xml").write_text(f"""<clickhouse>
<listen_host>127.0.0.1</listen_host><listen_host>{OTHER_HOST}</listen_host>
<tcp_port>{self.native}</tcp_port><http_port>{self.http}</http_port>
<users_config>{self.directory}/users.xml</users_config>
<macros><shard>{SHARDS[self.number]}</shard><replica>{self.number}</replica></macros>
<zookeeper><node><host>127.0.0.1</host><port>{keeper}</port></node>
<sessions_path>/clickhouse/sessions/{self.number}</sessions_path></zookeeper>
<remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers>
<log-level>warning</log-level><logger><log>{self.directory}/log</log></logger>
</clickhouse>""")
        account = "<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
        (self.directory / "users.xml").write_text(f"""<clickhouse>
<profiles><default/></profiles><quotas><default/></quotas>
<users><default><password></password>{account}</default>
<{user}><password>{escape(password)}</password>{account}</{user}></users>
</clickhouse>""")

    def start(self, library):
        node = Path(__file__).parent / "node.py"
        out = (self.directory / "out").open("wb")
        return subprocess.Popen([sys.executable, node, library, self.directory],
                                stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def last_words(self):
        log = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join([line for line in log if "<Fatal>" in line or "<Error>" in line][-60:])

    def ask(self, path, headers, body):
        """Status, headers and body of its response."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", body, headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read()


class Handler(BaseHTTPRequestHandler):
    """A proxy in front of a server that handles ON CLUSTER."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items()
                   if name.lower().startswith("x-clickhouse-")}
        statement = body[:10_000].decode(errors="replace")
        if "&query=" not in self.path and ON_CLUSTER.search(statement.partition("(")[0]):
            answer = self.on_every_server(headers, statement)
        else:
            answer = self.server.of.ask(self.path, headers, body)
        self.give(*answer)

    def on_every_server(self, headers, statement):
        literal = "'" + statement.replace("\\", "\\\\").replace("'", "\\'") + "'"
        looked_at = self.server.of.ask(self.path, headers, f"SELECT formatQuery({literal})".encode())
        if looked_at[0] != 200:
            return looked_at
        servers = self.server.everyone
        if statement.startswith("ALTER") and "MODIFY SETTING" not in statement:
            servers = [servers[SHARDS.index(shard)] for shard in sorted(set(SHARDS))]
        statement = ON_CLUSTER.sub("", statement, count=1).encode()
        for server in servers:
            answer = server.ask(self.path, headers, statement)
            if answer[0] != 200:
                break
        return answer

    def give(self, status, headers, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            if name.lower().startswith("x-clickhouse-"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Front(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, of, everyone):
        super().__init__(("127.0.0.1", 0), Handler)
        self.of, self.everyone = of, everyone

    def handle_error(self, request, client_address):
        # Ignores clients that disconnected.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def start_keeper(directory, port):
    if not ZOOKEEPER.exists():
        sys.exit("the cluster's tests need Debian's zookeeper: apt-get install zookeeper")
    directory.mkdir(parents=True)
    (directory / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={directory}/data\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n")
    log = (directory / "log").open("wb")
    return subprocess.Popen(["java", "-Xmx256m", "-cp", ZOOKEEPER,
                             "org.apache.zookeeper.server.ZooKeeperServerMain",
                             directory / "zoo.cfg"], stdout=log, stderr=log)


def wait_for(port, process, log):
    for _ in range(PATIENCE_SECONDS * 10):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"what was to listen on {port} does not: {log.read_text(errors='replace')[-2000:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    options = parser.parse_args()
    library = install(options.into)
    keeper, *ports = free_ports(1 + 2 * len(SHARDS))
    servers = [Server(number, options.data / str(number), ports[2 * number:][:2])
               for number in range(len(SHARDS))]
    processes = [start_keeper(options.data / "keeper", keeper)]
    try:
        wait_for(keeper, processes[0], options.data / "keeper/log")
        for server in servers:
            server.configure(keeper, servers, options.user, options.password)
            processes.append(server.start(library))
        for server, process in zip(servers, processes[1:]):
            wait_for(server.http, process, server.directory / "out")
        fronts = [Front(server, servers) for server in servers]
        for front in fronts:
            threading.Thread(target=front.serve_forever, daemon=True).start()
        print("listening on", *(front.server_port for front in fronts), flush=True)
        # The pipe closes when the parent process ends.
        for line in sys.stdin:
            process = processes[1 + int(line.removeprefix("kill "))]
            process.kill()
            process.wait()
            print("killed", flush=True)
    finally:
        for server, process in zip(servers, processes[1:]):
            # Servers that were killed on purpose are not reported.
            if process.poll() not in (None, -signal.SIGKILL):
                print(f"a server ended by itself: {server.last_words()}", file=sys.stderr)
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(options.data, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
