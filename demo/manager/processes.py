"""Starts processes, each in its own process group, and ends exactly those."""

import ctypes
import os
import pwd
import signal
import subprocess
import time

from . import layout
from .layout import ShopError

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    # If the manager itself is killed, no process of the shop outlives it.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Processes:
    """The running processes. They are stopped in the reverse order of their start."""

    def __init__(self):
        self.running = []

    def start(self, service, extra_environment=None):
        """Starts a service. Its output goes to LOG/NAME.log."""
        environment = layout.clean_environment() | service.environment | (extra_environment or {})
        environment["SHOP_SERVICE"] = service.name
        if service.name in layout.PORTS:
            environment["PORT"] = str(layout.PORTS[service.name])
        with open(log_of(service.name), "ab") as log:
            try:
                process = subprocess.Popen(
                    service.command, env=environment, cwd="/" if service.user else layout.RUN,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, preexec_fn=_die_with_parent, **as_user(service.user))
            except OSError as error:
                raise ShopError(f"cannot start {service.name}: {error}; run `shop.py install`") from error
        self.running.append((service, process))
        return process

    def ended(self):
        """The first service that ended by itself, with its exit code; else None."""
        for service, process in self.running:
            if process.poll() is not None:
                return service.name, process.returncode
        return None

    def stop(self, seconds=10.0):
        """Ends all processes. Those that still run after `seconds` are killed."""
        for service, process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(getattr(signal, service.stop_signal))
        deadline = time.monotonic() + seconds
        for service, process in reversed(self.running):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            _kill_group(process.pid)
            process.wait()
        self.running.clear()


def _kill_group(group):
    """Kills the rest of a process group (the leader, or workers that outlived it) and waits until
    it is gone.
    """
    for _ in range(100):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            return
        time.sleep(0.02)
        try:
            os.waitpid(-group, os.WNOHANG)
        except ChildProcessError:
            pass


def as_user(name):
    """Arguments for subprocess to run a program as another user."""
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []} if name else {}


def log_of(name):
    """The file with a service's output."""
    return layout.LOG / f"{name}.log"


def tail_of(name, lines=12):
    """The end of a service's log."""
    try:
        return "\n".join(log_of(name).read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
