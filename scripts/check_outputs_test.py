#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_outputs.py."""
import tempfile
import unittest
from pathlib import Path

from check_outputs import violations

SCRIPT = """#!/bin/sh
echo "begin $1"
echo "3 operations in 12.5 ms"
echo "sum 7"
"""


class CheckOutputs(unittest.TestCase):
    def found(self, shown, name="examples/teach/sum.cpp", script=SCRIPT):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            program = root / "build/examples/teach/teach_sum"
            program.parent.mkdir(parents=True)
            program.write_text(script)
            program.chmod(0o755)
            (root / "README.md").write_text(f"Text\n\n```text {name}\n{shown}```\n")
            return [line.partition("\n")[0].replace(f"{root}/", "") for line in violations(root / "build", root)]

    def test_equal_lines_are_fine(self):
        self.assertEqual(self.found("begin \n3 operations in 12.5 ms\nsum 7\n"), [])
        self.assertEqual(self.found("begin 5\n…\n", "examples/teach/sum.cpp 5"), [])

    def test_lines_may_be_left_out_where_the_page_says_so(self):
        self.assertEqual(self.found("…\nsum 7\n"), [])
        self.assertEqual(self.found("begin\n…\nsum 7\n"), [])
        self.assertEqual(self.found("begin\nsum 7\n"),
                         ["README.md:5: examples/teach/sum.cpp does not print this line here: sum 7"])

    def test_marked_numbers_differ(self):
        self.assertEqual(self.found("…\n3 operations in ~99 us\n"), [])
        self.assertEqual(len(self.found("…\n3 operations in 99 us\n")), 1)
        self.assertEqual(len(self.found("…\n~3 operations in ~99 bytes\n")), 1)
        self.assertEqual(len(self.found("…\nsum ~seven\n")), 1)

    def test_order_counts(self):
        self.assertEqual(len(self.found("sum 7\n…\nbegin\n")), 1)

    def test_a_program_that_fails_or_is_missing_is_told(self):
        self.assertEqual(self.found("begin\n", script="#!/bin/sh\necho begin\nexit 3\n"),
                         ["README.md:3: examples/teach/sum.cpp ended with status 3: "])
        self.assertEqual(self.found("begin\n", "examples/teach/none.cpp")[0],
                         "README.md:3: build has no program of examples/teach/none.cpp")


if __name__ == "__main__":
    unittest.main()
