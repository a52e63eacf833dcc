"""The score must count missing, wrong and ambiguous links as such."""

import unittest
from pathlib import Path

from score import CLIENT, SERVER, Score, Span, read, read_notes, score, token

RECORDED = Path(__file__).resolve().parent / "recorded"


def request(name, parent=None):
    return Span(f"request-{name}", parent, SERVER, name, "tcp_sequence", 1.0)


def call(name, parent=None, evidence=None, confidence=None, number="", start=0):
    return Span(f"call-{name}{number}", parent, CLIENT, name, evidence, confidence, start)


def linked(name, to, confidence=1.0, evidence="thread"):
    return call(name, f"request-{to}", evidence, confidence)


class Scores(unittest.TestCase):
    # Two requests, a and b, with two calls each.
    truth = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}

    def test_all_right(self):
        found = score(self.truth, [request("a"), request("b"), linked("a1", "a"), linked("a2", "a"), linked("b1", "b"),
                                   linked("b2", "b", 0.9, "sole_request")])
        self.assertEqual((found.recall, found.links.precision, found.certain.precision), (1, 1, 1))
        self.assertEqual((found.links.made, found.certain.made, found.guesses.made), (4, 3, 1))
        self.assertEqual(found.by_evidence["sole_request"].right, 1)
        self.assertEqual((found.requests, found.missing_calls, found.missing_requests, found.wrong), (2, 0, 0, []))

    def test_crossed_links_are_wrong(self):
        found = score(self.truth, [request("a"), request("b"), linked("a1", "b"), linked("a2", "a"), linked("b1", "a", 0.9),
                                   linked("b2", "b")])
        self.assertEqual((found.recall, found.links.precision), (0.5, 0.5))
        self.assertEqual((found.certain.made, found.certain.right, found.guesses.made, found.guesses.right), (3, 2, 1, 0))
        self.assertEqual([(wrong["call"], wrong["is_for"], wrong["led_to"]) for wrong in found.wrong],
                         [("a1", "a", "b"), ("b1", "b", "a")])

    def test_what_is_not_linked_is_no_mistake_and_not_found(self):
        found = score(self.truth, [request("a"), call("a1", evidence="ambiguous"), call("a2"), linked("b1", "b")])
        # The request b has no span, so it is unknown where its call leads.
        self.assertEqual((found.recall, found.links.made, found.links.right), (0, 1, 0))
        self.assertEqual((found.ambiguous, found.alone, found.missing_calls, found.missing_requests), (1, 1, 1, 1))

    def test_without_links_there_is_no_precision(self):
        found = score(self.truth, [])
        self.assertEqual((found.recall, found.links.precision, found.certain.precision), (0, None, None))
        self.assertEqual((found.missing_calls, found.missing_requests), (4, 2))

    def test_links_lead_through_other_calls_and_are_as_sure_as_the_weakest(self):
        between = Span("between", "request-a", CLIENT, None, "enclosing", 0.7)
        found = score({"a1": "a"}, [request("a"), between, call("a1", "between", "span_context", 1.0)])
        self.assertEqual((found.links.right, found.certain.made, found.by_evidence["enclosing"].right), (1, 0, 1))

    def test_calls_of_nobody_that_are_given_to_a_request_are_counted(self):
        found = score({"a1": "a"}, [request("a"), linked("a1", "a"), linked("timer", "a", 0.7), call("job")],
                      ["timer", "job", "unseen"])
        self.assertEqual((found.nobodys, found.given, found.links.made, found.links.right), (3, 1, 2, 1))

    def test_circles_and_links_to_nowhere_are_wrong(self):
        circle = [call("a1", "call-a2", "thread", 1.0), call("a2", "call-a1", "thread", 1.0)]
        found = score(self.truth, [request("a"), *circle, call("b1", "gone", "timing", 0.5)])
        self.assertEqual((found.links.made, found.links.right, found.certain.made), (3, 0, 2))

    def test_of_two_spans_of_a_call_the_first_counts(self):
        found = score({"a1": "a"}, [request("a"), request("b"), call("a1", "request-b", "thread", 1.0, "again", start=2),
                                    call("a1", "request-a", "thread", 1.0, start=1)])
        self.assertEqual((found.twice, found.links.made, found.links.right), (1, 1, 1))

    def test_spans_that_nobody_noted_do_not_count(self):
        found = score({"a1": "a"}, [request("a"), linked("a1", "a"), linked("x1", "a"), request("warm-up")])
        self.assertEqual((found.true_links, found.links.made), (1, 1))

    def test_calls_of_no_request_are_right_without_a_link(self):
        spans = [request("a"), linked("a1", "a"), linked("x1", "a", 0.8), call("x2")]
        found = score({"a1": "a"}, spans, {"x1", "x2"})
        self.assertEqual((found.true_links, found.recall, found.links.made, found.links.right), (1, 1, 2, 1))
        self.assertEqual((found.certain.made, found.missing_calls, found.alone), (1, 0, 0))

    def test_links_are_compared_with_what_they_say(self):
        spans = [request("a"), request("b"), linked("a1", "a", 0.91), linked("a2", "b", 0.93), linked("a3", "a", 0.97),
                 linked("b1", "b", 1.0)]
        found = score({"a1": "a", "a2": "a", "a3": "a", "b1": "b"}, spans)
        self.assertEqual({key: (links.made, links.right) for key, links in found.by_confidence.items()},
                         {("thread", 18): (2, 1), ("thread", 19): (1, 1), ("thread", 20): (1, 1)})
        self.assertAlmostEqual(found.by_confidence["thread", 18].off, 0.42)
        twice = Score()
        twice.add(found)
        twice.add(found)
        self.assertEqual((twice.by_confidence["thread", 18].made, twice.by_confidence["thread", 18].right), (4, 2))

    def test_tokens(self):
        self.assertEqual([token(path) for path in ("/r/12ab", "r/12ab", "/leaf/9", "", None)],
                         ["12ab", "12ab", "9", None, None])


class Recorded(unittest.TestCase):
    """Rows of a gevent run with two sequential requests and four concurrent ones, checked
    manually: two calls had several open requests around them.
    """

    def setUp(self):
        self.text = (RECORDED / "gevent.csv").read_text()
        notes = read_notes((RECORDED / "gevent.truth").read_text())
        self.truth = {call: request for request, calls in notes for call in calls}

    def test_score(self):
        found = score(self.truth, read(self.text, 8080))
        self.assertEqual((found.true_links, found.requests, found.links.made, found.links.right), (12, 6, 10, 10))
        self.assertEqual((found.ambiguous, found.alone, found.missing_calls, found.missing_requests), (2, 0, 0, 0))
        self.assertEqual({name: links.made for name, links in found.by_evidence.items()}, {"thread": 4, "sole_request": 6})
        self.assertEqual((found.certain.made, found.connections), (0, 5))

    def test_another_truth_is_not_what_was_seen(self):
        requests = sorted(set(self.truth.values()))
        another = dict(zip(requests, requests[1:] + requests[:1]))
        found = score({call: another[request] for call, request in self.truth.items()}, read(self.text, 8080))
        self.assertEqual((found.links.made, found.links.right, len(found.wrong)), (10, 0, 5))

    def test_requests_at_another_port_are_not_the_programs(self):
        found = score(self.truth, read(self.text, 9000))
        self.assertEqual((found.links.made, found.links.right, found.missing_requests), (10, 0, 6))


if __name__ == "__main__":
    unittest.main()
