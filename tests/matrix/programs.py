"""Servers that the matrix adds to those of ../recorded."""

import os
import sys
from pathlib import Path

from install import BUILT, DUBBO_CLASSES, JVM_CLASSES
import servers
from relay import Server
from servers import Dnsmasq, Encrypting, FastcgiNginx, Php

CLIENTS = Path(__file__).resolve().parent / "clients"
GO = BUILT / "go-matrix"


class Own(Encrypting):
    """One of our programs. Its arguments are `serve PORT`, and for TLS certificate and key."""

    def __init__(self, *command, tls=False):
        super().__init__(tls)
        self.command = command

    def start(self):
        return self.spawn(*self.command, "serve", self.port, *(self.certificate() if self.tls else []))


class Go(Own):
    def __init__(self, kind, tls=False):
        super().__init__(GO, tls=tls)
        self.kind = kind

    def start(self):
        return self.spawn(GO, "serve", self.kind, self.port, *(self.certificate() if self.tls else []))


def python(script, tls=False):
    return Own(sys.executable, CLIENTS / f"{script}.py", tls=tls)


def node(kind, tls=False):
    return Own("node", CLIENTS / "node.js", kind, tls=tls)


JVM = ["java", "-Xmx128m", "-cp", str(JVM_CLASSES), "Jvm"]


def jvm(tls=False):
    return Own(*JVM, tls=tls)


DUBBO_CLIENT = ["java", "-Xmx256m", "-Djava.net.preferIPv4Stack=true", *servers.OPENED, "-cp", str(DUBBO_CLASSES), "Matrix"]


class Dubbo(Server):
    def start(self):
        # Dubbo does not accept addresses that it recognises as loopback. This is 127.0.0.1.
        return self.spawn(*DUBBO_CLIENT, "provide", self.port, env=os.environ | {"DUBBO_IP_TO_BIND": "2130706433"})


class DnsPort(Dnsmasq):
    """Only the DNS port is watched, and other programs use it, too."""

    address, own_port = "127.0.88.53", 53


PAGES = {
    "shop.php": "<?php echo 'geheim ', strlen(file_get_contents('php://input'));",
    "missing.php": "<?php http_response_code(404); echo 'geheim';",
    "broken.php": "<?php throw new Exception('geheim');",
    "large.php": "<?php echo str_repeat('geheim', 50000);",
    "slow.php": "<?php for ($n = 0; $n < 3; $n++) { echo 'part'; flush(); usleep(20000); }",
}


class PhpBehindNginx(Php):
    """php-fpm. Clients connect to `asked_port`, which is nginx's."""

    def __init__(self):
        super().__init__(PAGES)

    def __enter__(self):
        super().__enter__()
        self.asked_port = FastcgiNginx(self, self.port, keep=True).port
        return self

