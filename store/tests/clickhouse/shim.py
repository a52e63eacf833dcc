"""ClickHouse's HTTP interface over chDB, which is ClickHouse as a library.

chDB has no server. This script provides the part of the HTTP interface that the ClickHouse store
uses: a statement as the parameter `query` or as the body, other parameters as settings of the
statement, Arrow streams in both directions, user and password in headers, and errors with
ClickHouse's codes.

    shim.py --data DIRECTORY [--port PORT] [--user USER --password PASSWORD]

Prints `listening on PORT`, and ends when its standard input closes.
"""

import argparse
import os
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import chdb
from chdb.state import connect

# Parameters of the interface itself.
NOT_SETTINGS = {"query", "database", "default_format", "wait_end_of_query",
                "cancel_http_readonly_queries_on_client_close"}
# As in ClickHouse's exceptionCodeToHTTPStatus.
STATUS = {60: 404, 81: 404, 497: 403, 516: 403, 159: 408, 164: 403}
SERVER_ERRORS = {49, 210, 241, 242, 243, 252, 999}
CODE = re.compile(r"Code: (\d+)\.")
INSERT = re.compile(r"^\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)\s*$", re.I | re.S)


class Refused(Exception):
    """An error of ClickHouse: code and message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def as_literal(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        try:
            self.authenticate()
            answer, out = self.server.run(parameters, body)
        except Refused as refused:
            self.refuse(refused)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-ClickHouse-Format", out)
        self.end_headers()
        self.wfile.write(answer)

    def authenticate(self):
        given = (self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key") or "")
        if given != self.server.account:
            raise Refused(516, f"Code: 516. DB::Exception: {given[0]}: Authentication failed: "
                               "password is incorrect, or there is no user with such name. "
                               "(AUTHENTICATION_FAILED)")

    def refuse(self, refused):
        text = str(refused).encode()
        status = STATUS.get(refused.code, 500 if refused.code in SERVER_ERRORS else 400)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-ClickHouse-Exception-Code", str(refused.code))
        self.end_headers()
        self.wfile.write(text)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port, data, account):
        super().__init__(("127.0.0.1", port), Handler)
        self.data = data
        self.account = account
        # The engine lives as long as a connection to it exists.
        self.engine = connect(data)

    def handle_error(self, request, client_address):
        # Ignores clients that disconnected.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def run(self, parameters, body):
        """The bytes of the answer, and their format."""
        # Each connection has its own settings and current database.
        connection = connect(self.data)
        try:
            connection.query("USE " + "`" + parameters.get("database", "default") + "`")
            settings = [f"{name} = {as_literal(value)}" for name, value in parameters.items()
                        if name not in NOT_SETTINGS]
            if settings:
                connection.query("SET " + ", ".join(settings))
            statement = parameters.get("query") or body.decode()
            insert = INSERT.match(statement)
            if insert and "query" in parameters:
                # Not chDB's send_insert, which reports no errors.
                with tempfile.NamedTemporaryFile() as file:
                    file.write(body)
                    file.flush()
                    connection.query(f"{insert[1]} FROM INFILE {as_literal(file.name)} "
                                     f"COMPRESSION 'none' FORMAT {insert[2]}")
                return b"", insert[2]
            out = parameters.get("default_format", "TabSeparated")
            return connection.query(statement, out).bytes() or b"", out
        except (RuntimeError, chdb.ChdbError) as error:
            code = CODE.search(str(error))
            raise Refused(int(code[1]) if code else 1002, str(error)) from None
        finally:
            connection.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    options = parser.parse_args()
    server = Server(options.port, options.data, (options.user, options.password))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on {server.server_port}", flush=True)
    # The pipe closes when the parent process ends.
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
