"""A PostgreSQL server for benchmarks."""

import glob
import os
import pwd
import shutil
import signal

from programs import fail, wait_for


def tool(name):
    """Debian keeps the server's programs and pgbench out of PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]))
    if not found:
        fail(f"{name} is missing; apt-get install postgresql")
    return found[-1]


def unprivileged(wanted):
    """The user to run a database as, because it refuses to run as root; None if this is not root.
    """
    if os.geteuid() != 0:
        return None
    for name in (wanted, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return fail(f"there is neither a user {wanted} nor nobody; add one")


def start(programs, port):
    """Starts a server with the user `bench`, who needs no password."""
    user = unprivileged("postgres")
    directory = programs.directory / "postgresql"
    directory.mkdir(mode=0o700)
    if user:
        shutil.chown(directory, user)
    as_user = {"cwd": directory} | ({"user": user} if user else {})
    programs.run("initdb", tool("initdb"), "-D", directory, "-U", "bench", "--auth=trust", "--encoding=UTF8",
                 "--no-locale", "--no-sync", **as_user)
    programs.start(
        "postgresql", tool("postgres"), "-D", directory, "-p", port, "-c", "listen_addresses=127.0.0.1",
        "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=120",
        # PostgreSQL's fast shutdown, which does not wait for clients.
        ends_on=signal.SIGINT, **as_user)
    wait_for(port)
