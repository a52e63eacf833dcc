"""Helpers for scenarios: a relay that records its traffic, and servers that live as long as a
scenario.
"""

import json
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
CLIENT, SERVER = 100, 200
# The client's numbers wrap within each recording.
CLIENT_SEQ, SERVER_SEQ = 2**32 - 150, 5000
MAX_PAYLOAD, TURN_BYTES, TAIL_PAYLOAD = 1024, 16384, 64


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def without_places(line):
    """Says nothing of where this machine has the project and Python: tracebacks would. Lengths stay."""
    for place in (str(HERE.parents[1]), sys.prefix):
        line = line.replace(place, "/srv".ljust(len(place), "x"))
    return line


class Relay:
    """Forwards connections to a server and records their traffic."""

    def __init__(self, port, address="127.0.0.1"):
        self.target = port
        self.events = []
        self.lock = threading.Lock()
        self.started = time.monotonic_ns()
        self.count = 0
        self.threads = []
        self.listener = socket.create_server((address, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def now(self):
        return 1_000_000_000 + time.monotonic_ns() - self.started

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.relay, args=(near,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def log(self, **event):
        with self.lock:
            self.events.append(event)

    def relay(self, near):
        far = socket.create_connection(("127.0.0.1", self.target))
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.count += 1
            number = self.count
        ids = {CLIENT: number * 2 - 1, SERVER: number * 2}
        ends = {
            CLIENT: {"address": "10.0.0.1", "port": 40000 + number},
            SERVER: {"address": "10.0.0.2", "port": 8000},
        }
        seqs = {CLIENT: CLIENT_SEQ, SERVER: SERVER_SEQ}
        turns = {CLIENT: [None, 0], SERVER: [None, 0]}
        for process, role, other in ((CLIENT, "client", SERVER), (SERVER, "server", CLIENT)):
            self.log(
                event="opened", time_nano=self.now(), connection=ids[process], process=process,
                thread=process, role=role, local=ends[process], remote=ends[other],
                network_namespace=1, connect_nano=150_000 if role == "client" else None,
            )

        def transfer(process, direction, seq, data, time_nano):
            turn = turns[process]
            if turn[0] != direction:
                turn[:] = [direction, 0]
            wanted = TAIL_PAYLOAD if turn[1] > TURN_BYTES else MAX_PAYLOAD
            turn[1] += len(data)
            self.log(
                event="data", time_nano=time_nano, connection=ids[process], process=process,
                thread=process, direction=direction, seq=seq % 2**32, length=len(data),
                srtt_micros=80, retransmits=0, bytes=data[:wanted].decode("latin-1"),
            )

        reset = False
        while True:
            ready, _, _ = select.select([near, far], [], [])
            # The server's last data is forwarded before the client is read.
            source = far if far in ready else near
            sender, receiver = (CLIENT, SERVER) if source is near else (SERVER, CLIENT)
            try:
                data = source.recv(32768)
            except ConnectionResetError:
                data, reset = b"", True
            if not data:
                break
            now = self.now()
            transfer(sender, "sent", seqs[sender], data, now)
            transfer(receiver, "received", seqs[sender], data, now + 30_000)
            seqs[sender] += len(data)
            try:
                (far if source is near else near).sendall(data)
            except ConnectionError:
                break
        for process in (CLIENT, SERVER):
            self.log(
                event="closed", time_nano=self.now(), connection=ids[process], reset=reset,
                retransmits=0,
            )
        near.close()
        far.close()

    def write(self, protocol, name):
        for thread in self.threads:
            thread.join(timeout=5)
        self.listener.close()
        path = HERE / protocol / f"{name}.jsonl"
        with path.open("w") as file:
            for event in self.events:
                file.write(without_places(json.dumps(event)) + "\n")
        print(f"{path.relative_to(HERE)}: {len(self.events)} events")


class DatagramRelay(Relay):
    """The same for UDP as well, at the same port."""

    def __init__(self, port, address="127.0.0.1", own_port=None):
        super().__init__(port)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, own_port or self.port))
        self.peers = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                data, peer = self.udp.recvfrom(65536)
            except OSError:
                return
            if peer not in self.peers:
                far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                far.connect(("127.0.0.1", self.target))
                self.peers[peer] = far, 50_000 + len(self.peers)
                threading.Thread(
                    target=self.answer, args=(peer, *self.peers[peer]), daemon=True
                ).start()
            far, number = self.peers[peer]
            now = self.now()
            self.datagram(CLIENT, "sent", number, data, now)
            # The receive hook does not know the sender.
            self.datagram(SERVER, "received", number, data, now + 30_000, knows_peer=False)
            far.send(data)

    def answer(self, peer, far, number):
        while True:
            try:
                data = far.recv(65536)
            except OSError:
                continue
            now = self.now()
            self.datagram(SERVER, "sent", number, data, now)
            self.datagram(CLIENT, "received", number, data, now + 30_000)
            self.udp.sendto(data, peer)

    def datagram(self, process, direction, number, data, time_nano, knows_peer=True):
        ends = {
            CLIENT: {"address": "10.0.0.1", "port": number},
            SERVER: {"address": "10.0.0.2", "port": 53},
        }
        self.log(
            event="datagram", time_nano=time_nano, process=process, thread=process,
            direction=direction, local=ends[process],
            remote=ends[CLIENT + SERVER - process] if knows_peer else None,
            network_namespace=1, length=len(data), bytes=data[:MAX_PAYLOAD].decode("latin-1"),
        )

    def write(self, protocol, name):
        self.udp.close()
        super().write(protocol, name)


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], check=False, timeout=30, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, **options,
    )


def wait_for(port, address="127.0.0.1", seconds=60):
    for _ in range(seconds * 20):
        try:
            socket.create_connection((address, port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


class Server:
    """A server process in a temporary directory."""

    address = "127.0.0.1"
    # A fixed port, if the server needs one; else a free port.
    own_port = None

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="record-"))
        self.directory.chmod(0o755)
        self.spawned = []
        self.port = self.own_port or free_port()
        try:
            self.process = self.start()
            wait_for(self.port, self.address)
        except BaseException:
            print(self.said(), end="")
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.spawned):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def spawn(self, *command, **options):
        """Starts a process that ends with the server."""
        with (self.directory / "output").open("ab") as output:
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, **options,
            )
        self.spawned.append(process)
        return process

    def said(self, characters=2000):
        """The end of its processes' output."""
        return (self.directory / "output").read_text(errors="replace")[-characters:]
