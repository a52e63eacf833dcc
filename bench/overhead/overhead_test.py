#!/usr/bin/env python3
"""Tests of what the overhead suites compute themselves."""

import unittest
import xml.etree.ElementTree

import jmh
import messages
import picture


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a protobuf message: number and content."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 2:
            length, at = varint(data, at)
        elif tag & 7 == 1:
            length = 8
        else:
            _, end = varint(data, at)
            length = end - at
        found.append((tag >> 3, bytes(data[at:at + length])))
        at += length
    return found


def measured(tracer, round_, score):
    return {"scenario": "Jdbc", "mode": "thrpt", "tracer": tracer, "round": round_, "record": {"primaryMetric": {"score": score}}}


class Messages(unittest.TestCase):
    def test_spans_have_their_size_and_ids_stand_where_they_are_written(self):
        for size in (100, 112, 150, 200, 250):
            request, places, (trace, own, start) = messages.batch(size)
            self.assertEqual({later - earlier for earlier, later in zip(places, places[1:])}, {size})
            self.assertEqual(places[-1] + size, len(request))
            request[places[1] + trace:places[1] + trace + 16] = b"T" * 16
            request[places[1] + own:places[1] + own + 8] = b"S" * 8
            request[places[1] + start:places[1] + start + 8] = (7).to_bytes(8, "little")
            (_, resource_spans), = fields(request)
            (_, _), (_, scope) = fields(resource_spans)
            spans = fields(scope)
            self.assertEqual(len(spans), messages.BATCH)
            content = dict(fields(spans[1][1]))
            self.assertEqual((content[1], content[2], content[7]), (b"T" * 16, b"S" * 8, (7).to_bytes(8, "little")))


class Results(unittest.TestCase):
    def test_rounds_become_one_record(self):
        metric = {"rawData": [[1.0, 2.0]]}
        jmh.merge(metric, [{"rawData": [[1.0, 2.0]]}, {"rawData": [[3.0, 6.0]]}])
        self.assertEqual(metric["rawData"], [[1.0, 2.0], [3.0, 6.0]])
        self.assertEqual(metric["score"], 3.0)
        # Student's t of three degrees of freedom, times the standard error.
        self.assertAlmostEqual(metric["scoreError"], 12.92 * (14 / 3 / 4) ** 0.5)
        self.assertEqual(metric["scorePercentiles"]["50.0"], 2.0)

    def test_samples_are_weighed_by_how_often_they_occur(self):
        metric = {"rawDataHistogram": []}
        jmh.merge(metric, [{"rawDataHistogram": [[[[1.0, 98], [9.0, 1]]]]}, {"rawDataHistogram": [[[[101.0, 1]]]]}])
        self.assertAlmostEqual(metric["score"], 2.08)
        self.assertEqual(metric["scorePercentiles"]["99.0"], 9.0)

    def test_ratios_are_of_one_round(self):
        runs = [measured("none", 0, 10.0), measured("brave", 0, 8.0), measured("none", 1, 2.0), measured("brave", 1, 1.0),
                measured("brave", 2, 5.0)]
        self.assertEqual(jmh.ratios(runs, "Jdbc", "brave", "thrpt", jmh.score), [0.8, 0.5])


class Pictures(unittest.TestCase):
    def test_a_missing_column_says_why(self):
        drawn = picture.bars("A <title>", [[("panel", [("none", "none", 4.0, 1.0, "4"), ("spanwise", "Spanwise", None, 0, "not built")])]])
        root = xml.etree.ElementTree.fromstring(drawn)
        self.assertIn("not built", [each.text for each in root])

    def test_points_keep_their_order_on_both_axes(self):
        drawn = picture.lines("t", [("p", "x", "y", {"none": [(1, 1.0), (10, 10.0), (100, 5.0)]})], log_x=True, log_y=True)
        line = next(each for each in xml.etree.ElementTree.fromstring(drawn) if each.tag.endswith("polyline"))
        (x1, y1), (x2, y2), (x3, y3) = (map(float, point.split(",")) for point in line.get("points").split())
        self.assertTrue(x1 < x2 < x3 and y2 < y3 < y1)
        self.assertAlmostEqual(x2 - x1, x3 - x2, places=0)


if __name__ == "__main__":
    unittest.main()
