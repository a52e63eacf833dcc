"""Requests from a web page in the operator's browser, and senders that use the wrong port."""

import ssl

from target import ALLOWED_ORIGIN, GRPC, EXPORT, ask, connect, grpc_message, otlp_json

JSON = {"Content-Type": "application/json"}
ZIPKIN = b'[{"traceId":"1","id":"1","name":"forged"}]'


def places(target):
    """A valid request for each HTTP/1.1 port."""
    return {"api": (target.http, "GET", "/api/v1/services", {}, None),
            "otlp": (target.otlp, "POST", "/v1/traces", JSON, otlp_json(77)),
            "zipkin": (target.zipkin, "POST", "/api/v2/spans", JSON, ZIPKIN),
            "jaeger": (target.jaeger_http, "POST", "/api/traces", {"Content-Type": "application/x-thrift"}, b"")}


def with_header(target, headers):
    return {name: ask(port, method, path, {**usual, **headers}, body)[0]
            for name, (port, method, path, usual, body) in places(target).items()}


def forged_hosts(target):
    """A page whose name was pointed to this host (DNS rebinding)."""
    statuses = [with_header(target, {"Host": host}) for host in ("evil.example", "evil.example:7070", "10.1.2.3")]
    return statuses, all(status == 421 for found in statuses for status in found.values())


def forged_origins(target):
    """Requests of unlisted pages to all ports."""
    origins = ("https://evil.example", "null", "http://localhost:3000")
    statuses = [with_header(target, {"Origin": origin}) for origin in origins]
    statuses.append(with_header(target, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}))
    return statuses, all(status == 403 for found in statuses for status in found.values())


def simple_posts(target):
    """What a page may post without permission and without an Origin: texts and forms."""
    statuses = []
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for port, path, body in ((target.zipkin, "/api/v2/spans", ZIPKIN), (target.zipkin, "/api/v1/spans", ZIPKIN),
                                 (target.otlp, "/v1/traces", otlp_json(78)), (target.jaeger_http, "/api/traces", b"x")):
            statuses.append(ask(port, "POST", path, {"Content-Type": kind}, body)[0])
    return statuses, set(statuses) == {415}


def preflights(target):
    """Preflight requests for listed and unlisted pages."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    answers = []
    for origin in ("https://evil.example", ALLOWED_ORIGIN):
        status, headers, _ = ask(target.otlp, "OPTIONS", "/v1/traces", {**asked, "Origin": origin})
        answers.append((status, headers["Access-Control-Allow-Origin"]))
    status, headers, _ = ask(target.otlp, "POST", "/v1/traces", {**JSON, "Origin": ALLOWED_ORIGIN}, otlp_json(79))
    answers.append((status, headers["Access-Control-Allow-Origin"]))
    return answers, answers == [(403, None), (204, ALLOWED_ORIGIN), (200, ALLOWED_ORIGIN)]


def sql_and_deletion_unasked(target):
    """SQL and deletion without the header that pages cannot send."""
    statuses = [ask(target.http, *request)[0] for request in (
        ("GET", "/api/v1/sql?query=SELECT%201"), ("POST", "/api/v1/sql", {"Content-Type": "text/plain"}, b"SELECT 1"),
        ("POST", "/api/v1/sql", {"Content-Type": "application/x-www-form-urlencoded"}, b"SELECT 1"),
        ("DELETE", "/api/v1/services/attack"))]
    return statuses, set(statuses) == {403}


def framed(target):
    """The UI in a frame of another page, with foreign scripts, and with guessed types."""
    missing = []
    for path in ("/", "/search", "/api/v1/status", "/metrics", "/nothing"):
        _, headers, _ = ask(target.http, "GET", path)
        policy = headers["Content-Security-Policy"] or ""
        if "frame-ancestors 'none'" not in policy or "unsafe-eval" in policy or "script-src 'self'" not in policy:
            missing.append((path, "policy"))
        if headers["X-Content-Type-Options"] != "nosniff" or not headers["Referrer-Policy"]:
            missing.append((path, "headers"))
    return f"missing: {missing}", not missing


def wrong_paths(target):
    """Spans sent to unknown paths must not be answered with success."""
    body = otlp_json(80)
    wrong = [(target.otlp, path) for path in ("/v1/trace", "/v1/v1/traces", "//v1/traces", "/", "/api/v2/spans")]
    wrong += [(target.zipkin, "/v1/traces"), (target.jaeger_http, "/v1/traces"), (target.http, "/v1/traces")]
    statuses = [ask(port, "POST", path, JSON, body)[0] for port, path in wrong]
    methods = [ask(port, "GET", path)[0] for port, path in
               ((target.otlp, "/v1/traces"), (target.zipkin, "/api/v2/spans"), (target.jaeger_http, "/api/traces"))]
    slash = ask(target.otlp, "POST", "/v1/traces/", JSON, body)[0]
    held = all(status in (404, 405) for status in statuses) and set(methods) == {405} and slash == 200
    return f"{statuses}, GET {methods}, with a slash {slash}", held


def wrong_protocols(target):
    """TLS, gRPC and HTTP/1.1 at ports with another protocol."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = []
    for port in target.ports().values():
        try:
            with context.wrap_socket(connect(port)):
                tls.append("taken")
        except OSError as error:
            tls.append(type(error).__name__)
    with connect(target.http) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        http2 = connection.recv(1000)
    plain, _, text = ask(target.grpc, "POST", "/v1/traces", JSON, otlp_json(81))
    _, headers, _ = ask(target.otlp, "POST", EXPORT, GRPC, grpc_message(b""))
    named = target.counter("connections_of_other_protocol")
    held = ("taken" not in tls and b"HTTP/1.1" in http2 and plain == 415 and str(target.otlp).encode() in text
            and headers["grpc-status"] == "12" and named >= 7)
    return f"TLS {set(tls)}, HTTP/1.1 at the gRPC port {plain}, gRPC at the HTTP port {headers['grpc-status']}", held


ATTACKS = [forged_hosts, forged_origins, simple_posts, preflights, sql_and_deletion_unasked, framed, wrong_paths,
           wrong_protocols]
