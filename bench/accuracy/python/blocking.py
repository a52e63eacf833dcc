"""Calls with `requests`, as threads and greenlets make them."""

import threading
import time

import requests
from requests.adapters import HTTPAdapter

import program


class PerCall:
    """A connection of its own for each call."""

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
    """What a request's handler does; `all_at_once` runs functions at the same time."""
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
    """Calls for no request, as a refresh of a cache makes them."""
    while True:
        token, = program.tokens()[:1]
        program.note(program.NOBODY, [token])
        call(token, [])
        time.sleep(program.BACKGROUND_SECONDS)


def start():
    if program.BACKGROUND:
        threading.Thread(target=in_background, daemon=True).start()
