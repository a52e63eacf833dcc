#!/usr/bin/env python3
"""Parses metrics with Prometheus' own parsers, and prints them as JSON.

    parse.py prometheus|openmetrics < METRICS

Prints a list of [family, type, sample, labels, value].
"""

import json
import sys


def main():
    if sys.argv[1] == "openmetrics":
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    else:
        from prometheus_client.parser import text_string_to_metric_families
    text = sys.stdin.buffer.read().decode("utf-8")
    samples = [
        [family.name, family.type, sample.name, sample.labels, sample.value]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main()
