#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of compile_benchmark.py."""
import contextlib
import io
import sys
import unittest

from compile_benchmark import (HEADERS, MOST_LINES, ROOT, ROWS, YARDSTICK, Row, Use, compile_command, compiler_name,
                               findings, measure, parse_arguments, summary_of, table)

ROW = Row("user.cpp", "-O3", 0.9, 450)
YARDSTICK_USE = Use(2.0, 270)


def found(use, lines=MOST_LINES):
    return list(findings({ROW: use}, YARDSTICK_USE, lines))


class Budgets(unittest.TestCase):
    def test_a_number_may_equal_its_budget(self):
        self.assertEqual(found(Use(1.8, 450)), [])

    def test_a_row_above_its_budget_of_time_is_named_with_the_budget(self):
        [sentence] = found(Use(1.9, 450))
        for part in ("user.cpp -O3", "0.95", "budget of 0.90"):
            self.assertIn(part, sentence)

    def test_a_row_above_its_budget_of_memory_is_named_with_the_budget(self):
        [sentence] = found(Use(1.8, 451))
        for part in ("user.cpp -O3", "451 MB", "budget of 450 MB"):
            self.assertIn(part, sentence)

    def test_too_many_lines_are_named_with_the_budget(self):
        [sentence] = found(Use(1.8, 450), MOST_LINES + 1)
        self.assertIn(f"{MOST_LINES + 1:,} lines", sentence)
        self.assertIn(f"budget of {MOST_LINES:,}", sentence)

    def test_each_exceeded_budget_has_a_sentence_of_its_own(self):
        self.assertEqual(len(found(Use(4, 900), MOST_LINES + 1)), 3)

    def test_a_faster_machine_changes_no_ratio(self):
        slow = list(findings({ROW: Use(19, 450)}, Use(20, 270), 1))
        self.assertEqual(len(slow), 1)
        self.assertIn("0.95", slow[0])


class Measurements(unittest.TestCase):
    def test_seconds_are_the_median_and_megabytes_the_most(self):
        self.assertEqual(summary_of([Use(3, 10), Use(1, 30), Use(2, 20)]), Use(2, 30))

    def test_processes_of_the_command_count(self):
        child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(200 << 20)'])"
        used = measure([sys.executable, "-c", child])
        self.assertGreater(used.megabytes, 200)
        self.assertGreater(used.seconds, 0)

    def test_a_command_that_fails_is_told_with_its_messages(self):
        with self.assertRaisesRegex(ValueError, "(?s)failed with status 3:.*why"):
            measure([sys.executable, "-c", "import sys; print('why'); sys.exit(3)"])


class Table(unittest.TestCase):
    def test_numbers_stand_beside_their_budgets(self):
        text = table({ROW: Use(1.5, 320)}, YARDSTICK_USE, 43_900)
        for part in ("user.cpp -O3", "1.50", "0.75 (at most 0.90)", "320 (450)", f"43,900 ({MOST_LINES:,})"):
            self.assertIn(part, text)
        self.assertEqual({line.count("|") for line in text.splitlines()}, {6})


class Compilers(unittest.TestCase):
    def test_a_compiler_is_known_by_its_macros(self):
        self.assertEqual(compiler_name("#define __GNUC__ 12\n#define __GNUC_MINOR__ 2\n"), "g++ 12")
        self.assertEqual(compiler_name("#define __GNUC__ 4\n#define __clang_major__ 14\n"), "clang 14")
        self.assertEqual(compiler_name(""), "an unknown compiler")

    def test_the_suffix_chooses_the_compiler(self):
        self.assertEqual(compile_command("user.cu", "-O3", "g++", "nvcc", "out")[0], "nvcc")
        self.assertEqual(compile_command("user.cpp", "-O3", "g++", "nvcc", "out")[0], "g++")
        self.assertIn("-DMSSTREAM_CUDA=0", compile_command("user.cpp", "-O3", "g++", "nvcc", "out"))

    def test_all_files_exist(self):
        for path in (YARDSTICK, *(row.source for row in ROWS), *(f"include/{header}" for header in HEADERS)):
            self.assertTrue((ROOT / path).is_file(), path)


class Arguments(unittest.TestCase):
    def test_runs_are_a_number_above_zero(self):
        self.assertEqual(parse_arguments([]).runs, 3)
        self.assertEqual(parse_arguments(["--runs", "5"]).runs, 5)
        for text in ("0", "-1", "many"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as errors:
                parse_arguments(["--runs", text])
            self.assertIn("--runs", errors.getvalue())

    def test_help_tells_what_to_do_when_a_budget_is_exceeded(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as text:
            parse_arguments(["--help"])
        self.assertIn("What to do then", text.getvalue())


if __name__ == "__main__":
    unittest.main()
