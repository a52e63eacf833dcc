"""The shop's own Redis and PostgreSQL: created at every start, removed at stop."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import layout
from .layout import Service, ShopError
from .processes import as_user, log_of


def redis():
    """Redis, in memory only."""
    directory = layout.RUN / "redis"
    directory.mkdir()
    return Service("redis", ["redis-server", "--bind", layout.HOST, "--port", str(layout.PORTS["redis"]),
                             "--save", "", "--appendonly", "no", "--dir", str(directory)])


class Postgres:
    """A cluster in its own directory, run by a user other than root."""

    def __init__(self):
        self.user = _unprivileged() if os.geteuid() == 0 else None
        self.directory = layout.RUN / "postgres"
        if self.user and not _reachable(layout.RUN):
            self.directory = Path(tempfile.mkdtemp(prefix="spanwise-shop-"))
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o700)
        if self.user:
            shutil.chown(self.directory, self.user)

    def service(self):
        """Creates the cluster and returns the command that starts it."""
        done = self._run([layout.postgres_tool("initdb"), "-D", str(self.directory), "-U", "shop", "--auth=trust",
                          "--encoding=UTF8", "--locale=C", "--no-sync"])
        if done.returncode:
            raise ShopError(f"initdb failed:\n{done.stdout}")
        settings = {
            "listen_addresses": layout.HOST,
            "port": layout.PORTS["postgres"],
            "unix_socket_directories": "",
            "max_connections": 120,
            "fsync": "off",  # nothing here must outlive the demo
            "jit": "off",
        }
        command = [layout.postgres_tool("postgres"), "-D", str(self.directory)]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        # SIGINT is PostgreSQL's fast shutdown, which does not wait for clients.
        return Service("postgres", command, user=self.user, stop_signal="SIGINT")

    def accepts(self):
        """Whether it answers queries."""
        return self.psql("postgres", "-c", "SELECT 1").returncode == 0

    def load(self):
        """Creates tables and goods."""
        for database, arguments in (("postgres", ["-c", "CREATE DATABASE shop"]),
                                    ("shop", ["-f", str(layout.DEMO / "database" / "schema.sql")])):
            done = self.psql(database, *arguments)
            if done.returncode:
                raise ShopError(f"loading the shop's tables failed:\n{done.stdout}\nlog: {log_of('postgres')}")

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def psql(self, database, *arguments):
        # As root, because it reads the checkout, which the unprivileged user may not be able to.
        return _capture([layout.postgres_tool("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", layout.HOST,
                         "-p", str(layout.PORTS["postgres"]), "-U", "shop", "-d", database, *arguments])

    def _run(self, command):
        return _capture(command, cwd="/", **as_user(self.user))


def _capture(command, **options):
    return subprocess.run(command, env=layout.clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **options)


def _unprivileged():
    """PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise ShopError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody; add one")


def _reachable(directory):
    """Whether other users can access every parent directory."""
    return all(folder.stat().st_mode & 0o001 for folder in (directory, *directory.parents))
