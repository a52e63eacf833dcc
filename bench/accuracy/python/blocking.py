"""Calls with `requests`, by threads and greenlets."""

import threading
import time

import requests
from requests.adapters import HTTPAdapter

import program


class PerCall:
    """A new connection for each call."""

    def get(self, *arguments, **options):
        with requests.Session() as session:
            return session.get(*arguments, **options)


def _pooled():
    session = requests.Session()
    session.mount("http", HTTPAdapter(pool_connections=4, pool_maxsize=program.POOL))
    return session


_session = PerCall() if program.FRESH else _pooled()


def call(token, replies):
    reply = _session.get(program.leaf_url(token), verify=program.CERTIFICATE or True, timeout=30)
    reply.raise_for_status()
    replies.append(reply.content)


def handle(path, sleep, all_at_once):
    """The handler of a request. `all_at_once` runs functions concurrently."""
    made, replies = program.tokens(), []
    program.work()
    sleep(program.pause_seconds())
    if program.PARALLEL:
        all_at_once([lambda token=token: call(token, replies) for token in made])
    else:
        for token in made:
            call(token, replies)
            sleep(program.pause_seconds())
    if len(replies) != len(made):
        raise RuntimeError("a call failed")
    program.note(path, made)
    return program.work(b"".join(replies))


def in_background():
    """Background calls, like a cache refresh."""
    while True:
        token, = program.tokens()[:1]
        program.note(program.NOBODY, [token])
        call(token, [])
        time.sleep(program.BACKGROUND_SECONDS)


def start():
    if program.BACKGROUND:
        threading.Thread(target=in_background, daemon=True).start()
