"""PHP, asked by nginx; and Go's FastCGI server, asked several things at once.

Needs Debian's nginx and php-fpm, and for `multiplexed` a Go toolchain.
"""

import os
import pathlib
import socket
import struct
import subprocess
import urllib.error
import urllib.request

from relay import Relay, Server, free_port, wait_for

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


class Php(Server):
    def start(self):
        program = max(pathlib.Path("/usr/sbin").glob("php-fpm*"))
        pages = self.directory / "pages"
        pages.mkdir()
        for name, text in PAGES.items():
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


class Nginx:
    """nginx before a FastCGI server."""

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

    def ask(self, path, data=None, headers=()):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, headers=dict(headers))
        opener = urllib.request.build_opener(Stay)
        try:
            opener.open(request, timeout=10).read()
        except urllib.error.HTTPError as error:
            error.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def talk(nginx):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    nginx.ask("/shop.php/orders/42?token=geheim&page=2",
              headers={"traceparent": trace, "X-Request-ID": "r-1"})
    nginx.ask("/shop.php", data=b"geheim" * 10)
    nginx.ask("/shop.php", data=b"geheim" * 10_000)
    for page in ("missing", "away", "broken", "warned", "large", "slow"):
        nginx.ask(f"/{page}.php")
    nginx.ask("/nowhere.php")
    nginx.ask("/shop.php", headers={"Cookie": "session=" + "geheim" * 200, "traceparent": trace})


def closing():
    with Php() as server:
        relay = Relay(server.port)
        nginx = Nginx(server, relay.port, keep=False)
        talk(nginx)
        nginx.stop()
        relay.write("fastcgi", "closing")


def kept():
    with Php() as server:
        relay = Relay(server.port)
        nginx = Nginx(server, relay.port, keep=True)
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
        # In two records, cut in the middle of a pair.
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
