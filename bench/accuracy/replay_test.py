"""A replay must hide what it should, and lose nothing else."""

import json
import tempfile
import unittest
from pathlib import Path

from replay import Unreadable, hide, read

PROCESSES = {"p1": {"serviceName": "shop", "tags": [{"key": "hostname", "value": "one"}]},
             "p2": {"serviceName": "stock", "tags": []}}


def span(name, parent, kind, process, start, duration, trace="t1"):
    references = [{"refType": "CHILD_OF", "traceID": trace, "spanID": parent}] if parent else []
    return {"traceID": trace, "spanID": name, "operationName": f"do {name}", "references": references, "startTime": start,
            "duration": duration, "processID": process,
            "tags": [{"key": "span.kind", "value": kind}, {"key": "traceparent", "value": "00-t1"},
                     {"key": "http.method", "value": "GET"}]}


# shop serves a. Inside, the work b makes the call c, which stock serves as d. d calls shop again,
# without a recorded call (e). f is a background call.
TRACE = {"traceID": "t1", "processes": PROCESSES, "spans": [
    span("a", None, "server", "p1", 1000, 500), span("b", "a", "internal", "p1", 1010, 400),
    span("c", "b", "client", "p1", 1020, 300), span("d", "c", "server", "p2", 1030, 200),
    span("e", "d", "server", "p1", 1050, 100), span("f", None, "client", "p1", 1100, 10)]}


class Hiding(unittest.TestCase):
    def setUp(self):
        self.replay = hide([TRACE], now_nano=10**18)
        self.by_name = {}
        for row in self.replay.rows:
            self.by_name.setdefault((row["operation"][3:], row["kind"]), row)

    def test_calls_and_requests_are_left(self):
        self.assertEqual(sorted(self.by_name), [("a", "server"), ("c", "client"), ("d", "server"), ("e", "client"),
                                                ("e", "server"), ("f", "client")])
        self.assertEqual((self.replay.traces, self.replay.hidden, self.replay.added, self.replay.twice), (1, 1, 1, 0))

    def test_the_truth_is_the_request_above_in_the_process(self):
        of = {key: row["id"] for key, row in self.by_name.items()}
        self.assertEqual(self.replay.truth, {of["c", "client"]: of["a", "server"], of["e", "client"]: of["d", "server"]})
        self.assertEqual(self.replay.roots, {of["f", "client"]})

    def test_an_added_call_belongs_to_who_made_it(self):
        added, served = self.by_name["e", "client"], self.by_name["e", "server"]
        self.assertEqual((added["service"], served["service"]), ("stock", "shop"))
        self.assertEqual(added["sequences"], served["sequences"])

    def test_hops_have_numbers_of_their_own(self):
        numbers = [row["sequences"] for row in self.replay.rows if row["sequences"]]
        self.assertEqual((len(numbers), len(set(numbers))), (4, 2))
        self.assertEqual(self.by_name["c", "client"]["sequences"], self.by_name["d", "server"]["sequences"])

    def test_nothing_says_what_belongs_together(self):
        text = json.dumps(self.replay.rows)
        self.assertNotIn("t1", text)
        self.assertNotIn("references", text)
        # A fragment identifies a request, and no call has one.
        self.assertTrue(all((row["fragment"] is None) == (row["kind"] == "client") for row in self.replay.rows))
        self.assertEqual(self.by_name["a", "server"]["attributes"], {"http.method": "GET"})

    def test_the_last_ends_now(self):
        self.assertEqual(max(row["start_unix_nano"] + row["duration_nano"] for row in self.replay.rows), 10**18)
        self.assertEqual(self.by_name["c", "client"]["start_unix_nano"] - self.by_name["a", "server"]["start_unix_nano"], 20_000)


class Reading(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "traces.json"
            path.write_text(text)
            return read([path])

    def test_forms(self):
        for document in ({"data": [TRACE]}, [TRACE]):
            self.assertEqual(len(self.read(json.dumps(document))), 1)

    def test_what_is_no_recording_is_refused(self):
        for text in ("", "[1]", '{"data": null}', '{"data": []}', '{"data": [{"spans": []}]}'):
            with self.assertRaises(Unreadable):
                self.read(text)
        with self.assertRaises(Unreadable):
            hide(self.read('[{"spans": [{"spanID": "a"}]}]'))


if __name__ == "__main__":
    unittest.main()
