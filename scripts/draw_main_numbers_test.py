#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of draw_main_numbers.py."""

import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from draw_main_numbers import BadTable, drawing, rows_of, times_better  # noqa: E402

PAGE = """# Benchmarks

## The main numbers

On an H200:

| | msstream | baseline |
| --- | --- | --- |
| `issue()` | 0.10 µs | |
| a wait | 20 ns | 1.0 µs for `a<b>` |

## Other

| | msstream | baseline |
| other | 1 s | 2 s |
"""


class MainNumbers(unittest.TestCase):
    def test_reads_the_table_of_its_heading_alone(self):
        self.assertEqual(rows_of(PAGE), [["`issue()`", "0.10 µs", ""], ["a wait", "20 ns", "1.0 µs for `a<b>`"]])
        for page in ("# Benchmarks\n", "## The main numbers\n\nNone.\n\n## Other\n| a | 1 s | 2 s |\n"):
            self.assertRaises(BadTable, rows_of, page)

    def test_compares_times_rates_and_ratios(self):
        for ours, theirs, times in (
            ("53 ns", "37 µs", 698.1),
            ("0.70 ms", "4.0 ms in eager PyTorch", 5.714),
            ("177,000 a second, with tf32", "10,800, PyTorch with a CUDA graph", 16.39),
            ("1.07", "2.16 to 2.32", 2.019),
            ("2 s", "1 s", 0.5),
        ):
            self.assertAlmostEqual(times_better(ours, theirs), times, delta=times / 1000)

    def test_refuses_what_cannot_be_compared(self):
        for ours, theirs in (("fast", "1 s"), ("1 ms", "2"), ("3", "2 ms"), ("5 a second", "2 ms")):
            self.assertRaises(BadTable, times_better, ours, theirs)

    def test_draws_a_bar_for_each_row_with_a_baseline(self):
        root = ElementTree.fromstring(drawing(rows_of(PAGE)))
        titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles, ["20 ns; baseline 1.0 µs for a<b>"])
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("50", texts)
        self.assertNotIn("issue()", texts)


if __name__ == "__main__":
    unittest.main()
