#!/usr/bin/env python3
"""The comparison must recognise right, wrong, missing and certain links."""

import unittest

import compare
import truth


def call(made, serving, service, kind="http"):
    return truth.Call(made, serving, service, kind, "x", 1, 2)


def span(span_id, capture, made, parent, confidence=1.0, evidence="thread"):
    key, value = ("db.query.text", f"SELECT ? /*call:{made}*/") if made == "c" else ("url.query", f"call={made}")
    return {"span_id": span_id, "capture": capture, "parent": parent, "confidence": confidence, "evidence": evidence,
            "attributes": [{"key": key, "type": "string", "value": value}]}


CALLS = {"a": call("a", None, "loadgen"), "b": call("b", "a", "nginx"), "c": call("c", "b", "catalog", "postgresql")}


def trace(**parents):
    """The right tree, except for the given parents. ac is the client's span of a."""
    right = {"ac": None, "as": "ac", "bc": "as", "bs": "bc", "cc": "bs", "cs": "cc"} | parents
    return {"trace_id": "t", "spans": [
        span(name, "client-process" if name[1] == "c" else "server-process", name[0], parent)
        for name, parent in right.items() if parent != "gone"]}


def judged(*traces):
    return compare.judge(CALLS, truth.of_customers(CALLS), compare.Spans(traces))


class Judged(unittest.TestCase):
    def test_right(self):
        inside, hops = judged(trace())
        self.assertEqual((inside["nginx"].right, inside["nginx"].certain_right, inside["nginx"].wrong), (1, 1, 0))
        self.assertEqual((hops["http"].right, hops["postgresql"].right), (2, 1))
        self.assertEqual(compare.whole(CALLS, truth.of_customers(CALLS), compare.Spans([trace()])), (1, 1))

    def test_wrong_inside(self):
        inside, _ = judged(trace(cc="as"))
        self.assertEqual((inside["python-threads"].wrong, inside["python-threads"].certain_wrong), (1, 1))

    def test_wrong_hop(self):
        _, hops = judged(trace(cs="bc"))
        self.assertEqual((hops["postgresql"].wrong, hops["postgresql"].certain_wrong), (1, 1))

    def test_missing(self):
        inside, hops = judged(trace(cc=None, bs=None))
        self.assertEqual((inside["python-threads"].missing, inside["python-threads"].wrong), (1, 0))
        self.assertEqual((hops["http"].missing, hops["http"].right), (1, 1))

    def test_span_not_seen(self):
        inside, hops = judged(trace(cc="gone", cs=None))
        self.assertEqual((inside["python-threads"].missing, hops["postgresql"].missing), (1, 1))

    def test_sdk_spans_between(self):
        tree = trace(cc="app")
        tree["spans"].append({"span_id": "app", "capture": "app", "parent": "bs", "confidence": 0.9, "attributes": []})
        inside, _ = judged(tree)
        self.assertEqual((inside["python-threads"].right, inside["python-threads"].certain_right), (1, 0))

    def test_two_traces(self):
        parts = trace()
        apart = {"trace_id": "u", "spans": [each for each in parts["spans"] if each["span_id"][0] == "c"]}
        parts["spans"] = [each for each in parts["spans"] if each["span_id"][0] != "c"]
        self.assertEqual(compare.whole(CALLS, truth.of_customers(CALLS), compare.Spans([parts, apart])), (0, 1))


if __name__ == "__main__":
    unittest.main()
