#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of overlap_programs.py, with a tool and programs that only note how they were called."""
import argparse
import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import overlap_programs
from overlap_programs import Program, command_of, rates_table, record_all, time_all

TOOL = """#!/bin/sh
if [ "$1" = run ]; then
  shift
  while [ "$1" != -- ]; do [ "$1" = --output ] && target=$2; shift; done
  shift
  echo "$@" > "$target"
  case "$*" in *broken*) echo "error: it broke" >&2; exit 3;; esac
else
  echo "report of $(basename "$1")"; echo; echo "its end"
fi
"""
# Reports 1,000 rows a second for the first call, and 1,000 more for each later one.
PROGRAM = """#!/bin/sh
here=$(dirname "$0")
echo call >> "$here/calls"
while [ "$1" != --report ]; do shift; done
echo "{\\"epochs\\": [{\\"rows_per_s\\": 1}, {\\"rows_per_s\\": $(wc -l < "$here/calls")000}]}" > "$2"
"""


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class OverlapProgramsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        write_program(self.folder / "tool", TOOL)
        write_program(self.folder / "build" / "examples" / "train" / "train", PROGRAM)
        self.options = argparse.Namespace(
            build=self.folder / "build", tool=self.folder / "tool", out=self.folder, only="", program_timeout=20,
            rounds=3, seconds=60)

    def run_with(self, call, **lists):
        with contextlib.ExitStack() as stack:
            for name, value in lists.items():
                stack.enter_context(mock.patch.object(overlap_programs, name, value))
            stack.enter_context(mock.patch.object(overlap_programs, "device_name", lambda: "a device"))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            return call(self.options)

    def test_a_command_has_enough_epochs_for_its_steps(self):
        command = command_of(Program("a", "A", ("train", "--capture"), 1300), Path("/build"))
        self.assertEqual(command, ["/build/examples/train/train", "--capture", "--quiet", "--steps", "1300", "--epochs", "3",
                                   "--holdout", "0"])
        script = command_of(Program("b", "B", ("benchmarks/baselines/torch_census_step.py", "--in-range", "10")), Path("/"))
        self.assertTrue(Path(script[1]).is_file(), script)
        self.assertEqual(script[2:], ["--in-range", "10"])

    def test_reports_are_kept_beside_their_recordings(self):
        programs = [Program("one", "The first", ("train",), 10), Program("two", "The second", ("train", "broken"))]
        self.assertEqual(self.run_with(record_all, RECORDED=programs), 1)
        text = (self.folder / "programs.md").read_text()
        self.assertIn("## The first\n\n`msstream-overlap run --skip 1.2 --duration 0.03 -- train --quiet --steps 10 "
                      "--epochs 1 --holdout 0`\n\n```text measured msstream-overlap one.json.gz\nreport of one.json.gz\n\nits end\n"
                      "```\n", text)
        self.assertIn("Not recorded:\n\n- two: status 3: error: it broke\n", text)
        self.assertNotIn("The second", text)
        self.assertIn("--steps 10", (self.folder / "one.json.gz").read_text())
        self.assertEqual(self.run_with(record_all, RECORDED=programs[:1]), 0)

    def test_each_round_times_each_way_once(self):
        self.assertEqual(self.run_with(time_all, TIMED=[("train", ("--a",)), ("train", ("--b",))]), 0)
        text = (self.folder / "rates.md").read_text()
        # Calls 1 to 6 are a b, b a, a b.
        self.assertIn("rounds: 3", text)
        self.assertIn("| `train --a` | 4,000 | 1,000 and 5,000 | 3 |", text)
        self.assertIn("| `train --b` | 3,000 | 2,000 and 6,000 | 3 |", text)

    def test_only_chooses_ways_by_their_arguments_too(self):
        self.options.only = "train --b"
        self.run_with(time_all, TIMED=[("train", ("--a", "--b")), ("train", ("--b", "--c"))])
        text = (self.folder / "rates.md").read_text()
        self.assertIn("| `train --b --c` | 2,000 |", text)
        self.assertNotIn("--a", text)

    def test_a_program_that_fails_is_said(self):
        self.assertEqual(self.run_with(time_all, TIMED=[("train", ("--a",)), ("missing", ())]), 1)
        text = (self.folder / "rates.md").read_text()
        self.assertIn("| `missing` | not measured | | 0 |", text)
        self.assertIn("| `train --a` |", text)

    def test_time_ends_the_rounds(self):
        self.options.seconds = 0
        self.run_with(time_all, TIMED=[("train", ())])
        self.assertIn("rounds: 1", (self.folder / "rates.md").read_text())

    def test_the_table_has_the_median(self):
        self.assertIn("| `way` | 2,000 | 1,000 and 9,000 | 3 |", rates_table({"way": [9000, 1000, 2000]}))

    def test_the_lists_name_programs_that_exist(self):
        sources = overlap_programs.ROOT
        for program in overlap_programs.RECORDED:
            first = program.command[0]
            self.assertTrue((sources / first).is_file() or (sources / "examples" / first).is_dir(), first)
        self.assertEqual(len({program.name for program in overlap_programs.RECORDED}), len(overlap_programs.RECORDED))
        for first, _ in overlap_programs.TIMED:
            self.assertTrue((sources / "examples" / first).is_dir(), first)


if __name__ == "__main__":
    os.environ.pop("MSSTREAM_OVERLAP_WITHOUT", None)
    unittest.main()
