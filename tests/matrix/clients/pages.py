"""Pages of php-fpm through nginx, which is the FastCGI client."""

import urllib.error
import urllib.request

from client import HOST, PORT, did, modes


def sequential():
    for page in ("shop", "missing", "broken", "large", "slow", "shop"):
        try:
            with urllib.request.urlopen(f"http://{HOST}:{PORT}/{page}.php", timeout=10) as response:
                response.read()
                code = response.status
        except urllib.error.HTTPError as error:
            error.read()
            code = error.code
        did(f"GET /{page}.php", code >= 400, code, server_failed=code >= 500)


modes(sequential=sequential)
