"""PHP with nginx, and Go's FastCGI server with concurrent requests.

Needs Debian's nginx and php-fpm, and for `multiplexed` a Go toolchain.
"""

import socket
import struct
import subprocess
import urllib.error
import urllib.request

from relay import Relay, Server
from servers import FastcgiNginx, Php

PAGES = {
    "shop.php": """<?php
        header('X-Request-ID: ' . ($_SERVER['HTTP_X_REQUEST_ID'] ?? 'none'));
        echo 'geheim ', strlen(file_get_contents('php://input'));""",
    "missing.php": "<?php http_response_code(404); echo 'geheim';",
    "away.php": "<?php header('Location: https://elsewhere.example/');",
    "broken.php": "<?php throw new Exception(\"the password 'hunter2' is wrong\");",
    "warned.php": "<?php error_log('a warning with geheim'); echo 'fine';",
    "large.php": "<?php echo str_repeat('geheim', 50000);",
    "slow.php": "<?php for ($n = 0; $n < 3; $n++) { echo 'part'; flush(); usleep(20000); }",
}


def ask(nginx, path, data=None, headers=()):
    request = urllib.request.Request(
        f"http://127.0.0.1:{nginx.port}{path}", data=data, headers=dict(headers))
    opener = urllib.request.build_opener(Stay)
    try:
        opener.open(request, timeout=10).read()
    except urllib.error.HTTPError as error:
        error.read()


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def talk(nginx):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    ask(nginx, "/shop.php/orders/42?token=geheim&page=2",
        headers={"traceparent": trace, "X-Request-ID": "r-1"})
    ask(nginx, "/shop.php", data=b"geheim" * 10)
    ask(nginx, "/shop.php", data=b"geheim" * 10_000)
    for page in ("missing", "away", "broken", "warned", "large", "slow"):
        ask(nginx, f"/{page}.php")
    ask(nginx, "/nowhere.php")
    ask(nginx, "/shop.php", headers={"Cookie": "session=" + "geheim" * 200, "traceparent": trace})


def closing():
    with Php(PAGES) as server:
        relay = Relay(server.port)
        nginx = FastcgiNginx(server, relay.port, keep=False)
        talk(nginx)
        nginx.stop()
        relay.write("fastcgi", "closing")


def kept():
    with Php(PAGES) as server:
        relay = Relay(server.port)
        nginx = FastcgiNginx(server, relay.port, keep=True)
        talk(nginx)
        nginx.stop()
        relay.write("fastcgi", "kept")


GO = """
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		panic(err)
	}
	fcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(100 * time.Millisecond)
		}
		if r.URL.Path == "/no" {
			w.WriteHeader(503)
		}
		fmt.Fprintln(w, "geheim", r.URL.Path)
	}))
}
"""


class Go(Server):
    def start(self):
        (self.directory / "main.go").write_text(GO)
        subprocess.run(
            ["go", "build", "-o", "app", "main.go"], check=True, cwd=self.directory, timeout=300)
        return self.spawn(self.directory / "app", f"127.0.0.1:{self.port}")


def multiplexed():
    def record(kind, number, content=b""):
        padding = -len(content) % 8
        header = struct.pack(">BBHHBx", 1, kind, number, len(content), padding)
        return header + content + bytes(padding)

    def begin(number):
        return record(1, number, struct.pack(">HB5x", 1, 1))

    def params(number, path):
        pairs = {"REQUEST_METHOD": "GET", "REQUEST_URI": path, "SERVER_PROTOCOL": "HTTP/1.1",
                 "HTTP_HOST": "shop.example", "HTTP_X_REQUEST_ID": f"r-{number}"}
        content = b"".join(
            bytes([len(name), len(value)]) + name.encode() + value.encode()
            for name, value in pairs.items())
        # In two records, split within a pair.
        return record(4, number, content[:40]) + record(4, number, content[40:]) + record(4, number)

    with Go() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.settimeout(0.4)

            def receive():
                try:
                    while client.recv(65536):
                        pass
                except TimeoutError:
                    pass

            client.sendall(begin(1) + params(1, "/slow"))
            client.sendall(begin(2) + begin(3) + params(3, "/no") + params(2, "/orders/7")
                           + record(5, 1) + record(5, 3) + record(5, 2))
            receive()
            client.sendall(begin(1) + params(1, "/again") + record(5, 1))
            receive()
        relay.write("fastcgi", "multiplexed")


SCENARIOS = (closing, kept, multiplexed)
