"""Evaluates links by time alone: a separate server gets a cell's rows without any other evidence.
"""

import replay
import score
from spanwise import Spanwise

# In the order that `judge` expects.
COLUMNS = """capture, process_id, operation, start_unix_nano, duration_nano, server_port,
    coalesce(attribute(attributes, 'url.path'), attribute(attributes, 'rpc.method'))"""


class Hidden:
    """A server that only knows the times and processes of requests and calls."""

    def __init__(self, options, directory):
        self.options, directory = options, directory / "hidden"
        directory.mkdir()
        self.spanwise = Spanwise(options.spanwise, directory / "data", directory / "spanwise.log", command="server",
                                 config=replay.config(directory))
        self.number = 0

    def start(self):
        self.spanwise.start()

    def judge(self, cell, truth, rows):
        """The score for a cell's rows."""
        found = replay.Replay()
        calls, requests = {}, {}
        for capture, process, operation, start, duration, port, token in rows:
            if capture == score.SERVER and int(port) != cell.port:
                continue
            self.number += 1
            side = "server" if capture == score.SERVER else "client"
            found.rows.append({
                "id": f"{self.number:016x}", "capture": capture, "kind": side, "service": cell.runtime.name, "host": "hidden",
                "process": int(process), "operation": operation, "start_unix_nano": int(start),
                "duration_nano": int(duration), "fragment": self.number if side == "server" else None, "sequences": None,
                "attributes": {}})
            (requests if side == "server" else calls).setdefault(score.token(token), found.rows[-1]["id"])
        # Calls that nobody captured cannot be found by time.
        found.truth = {calls[call]: requests[request] for call, request in truth.items()
                       if call in calls and request in requests}
        found.rows.sort(key=lambda row: row["start_unix_nano"] + row["duration_nano"])
        cell.score = score.score(found.truth, replay.assembled(self.options, self.spanwise, found.rows))
