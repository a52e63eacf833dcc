"""The judge must reject wrong spans."""

import unittest

from judge import Op, Seen, in_order, joined, judge

OPS = [Op("GET /0", code=200), Op("GET /1", failed=True, code=503), Op("GET /2", code=200)]


def seen(number, name, failed=False, code=200, side="client", start=None, seq=None, parent=None):
    return Seen(f"{side}{number}", parent, side, "http", name, failed, code, (number if start is None else start) * 10_000,
                4000, number * 10 if seq is None else seq, None)


def right(side="client"):
    return [seen(0, "GET /0", side=side), seen(1, "GET /1", True, 503, side), seen(2, "GET /2", side=side)]


class Judge(unittest.TestCase):
    def test_what_was_done_passes(self):
        for ordered in (True, False):
            self.assertTrue(judge(OPS, right() + right("server"), "client", ordered).passes)

    def test_what_is_missing_twice_or_crossed_fails(self):
        first, second, third = right()
        for spans in ([], [first, second], [first, second, second, third], [first, second, third, third],
                      [first, seen(1, "GET /1"), seen(2, "GET /2", True, 503)], right("server")):
            for ordered in (True, False):
                self.assertFalse(judge(OPS, spans, "client", ordered).passes, spans)

    def test_another_order_fails_where_there_is_one(self):
        first, second, third = right()
        spans = [first, seen(1, "GET /2"), seen(2, "GET /1", True, 503)]
        self.assertFalse(judge(OPS, spans, "client", True).passes)
        self.assertTrue(judge(OPS, spans, "client", False).passes)

    def test_a_client_that_did_nothing_fails(self):
        self.assertFalse(judge([], [], "client", True).passes)

    def test_messages_of_one_call_are_in_the_order_of_their_numbers(self):
        spans = [seen(2, "c", start=5, seq=3), seen(1, "b", start=5, seq=2**32 - 2), seen(0, "a", start=4, seq=2**32 - 9)]
        self.assertEqual([span.name for span in in_order(spans)], ["a", "b", "c"])

    def test_hops_are_counted_either_way(self):
        client = seen(0, "GET /0")
        self.assertEqual(joined(OPS, [client, seen(0, "GET /0", side="server", parent="client0")]), (1, 1))
        self.assertEqual(joined(OPS, [client, seen(0, "GET /0", side="server")]), (0, 1))
        delivered = seen(0, "GET /0", parent="server0")
        self.assertEqual(joined(OPS, [delivered, seen(0, "GET /0", side="server")]), (1, 1))


if __name__ == "__main__":
    unittest.main()
