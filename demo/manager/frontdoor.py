"""nginx and its configuration for this checkout."""

import os

from . import layout
from .layout import Service


def nginx(truth):
    """nginx in front of storefront. With `truth`, it adds ids to its calls and logs them."""
    directory = layout.RUN / "nginx"
    directory.mkdir()
    names = {
        "USER": "user root;" if os.geteuid() == 0 else "",
        "RUN": directory,
        "LOG": layout.LOG,
        "STOREFRONT": layout.address("storefront"),
        "LISTEN": layout.address("nginx"),
        "TRUTH": f"access_log {truth}/nginx.jsonl truth;" if truth else "",
        "UPSTREAM": "http://storefront$uri?call=$made$rest" if truth else "http://storefront",
    }
    text = (layout.SERVICES / "nginx" / "nginx.conf").read_text()
    for name, value in names.items():
        text = text.replace(f"@{name}@", str(value))
    configuration = directory / "nginx.conf"
    configuration.write_text(text)
    return Service("nginx", ["nginx", "-p", str(directory), "-c", str(configuration), "-e",
                             str(layout.LOG / "nginx-error.log")])
