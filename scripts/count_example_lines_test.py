#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of count_example_lines.py."""
import unittest

from count_example_lines import PYTHON, count, cpp_rules, other_than_data

PROGRAM = """// A comment.
#include <cstdio>
namespace ms = msstream;

int main() {
  ms::report::ProgressLine line("training", 10);
  auto const progress = train();  // of this name, and no reporter
  line.update(progress);
  std::printf("%d\\n", progress);
  if (progress > 1) { std::printf("more"); }
  lines.update(1);
  auto rows = clicks::batches(1);
  auto rows = clicks::others(1);
}
"""


class CountExampleLines(unittest.TestCase):
    def test_lines_are_left_out_by_rule(self):
        counted, left_out = count(PROGRAM, cpp_rules(PROGRAM))
        self.assertEqual(
            left_out, {"blank": 1, "comments": 1, "includes": 1, "aliases": 1, "prints": 1, "reads": 1, "reports": 2}
        )
        self.assertEqual(counted, 6)

    def test_a_program_without_a_reporter(self):
        counted, left_out = count("progress.update(1);\n", cpp_rules("progress.update(1);\n"))
        self.assertEqual((counted, sum(left_out.values())), (1, 0))

    def test_a_file_with_data_has_nothing_else(self):
        text = "ms::data::Reader r;\nms::serve::Query q;\n"
        self.assertEqual(list(other_than_data("clicks.hpp", text)),
                         ["examples/models/clicks.hpp:2: 'serve::' in a file whose lines are not counted"])

    def test_a_counterpart(self):
        counted, left_out = count("import x\nfrom y import z\n# c\n\nprint(1)\nprinted(1)\nimported = 2\n", PYTHON)
        self.assertEqual((counted, left_out["imports"]), (2, 2))


if __name__ == "__main__":
    unittest.main()
