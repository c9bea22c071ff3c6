#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of planted_overlap.py: the list of programs, and how it runs, records and judges them, with a tool and programs
that only note how they were called."""
import argparse
import gzip
import json
import os
import re
import select
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import planted_overlap
from planted_overlap import Planted, blocks_of_collectives, error_line, execute, judge, markdown, status_of, within

# Writes what it was told as the recordings of two ranks, and reports what it finds in the files of NAME.reports.
TOOL = """#!/usr/bin/env python3
import json, pathlib, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
if arguments[0] == "run":
    target = arguments[arguments.index("--output") + 1]
    for part in ("", ".2"):
        pathlib.Path(target.replace(".json.gz", part + ".json.gz")).write_text(json.dumps(arguments))
else:
    files = arguments[:arguments.index("--json")]
    recorded = [json.loads(pathlib.Path(file).read_text()) for file in files]
    with open(here / "calls", "a") as calls:
        calls.write(json.dumps({"files": len(files), "run": recorded[0], "all": arguments}) + "\\n")
    fixed = "_fixed" in files[0]
    reports = [{"rank": rank, "together": None, "window": {"begin_ns": 0, "end_ns": 2000 if fixed else 8000},
                "findings": [] if fixed else [{"cause": cause, "prediction": None}]}
               for rank, cause in ((1, "launch-bound"), (0, "peer-skew"))]
    pathlib.Path(arguments[arguments.index("--json") + 1]).write_text(json.dumps({"reports": reports}))
"""
PROGRAM = """#!/bin/sh
echo '{"program": "p", "step_us": '$([ "$2" = --fixed ] && echo 5 || echo 7)'}'
"""


class PlantedOverlap(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.options = argparse.Namespace(
            build=self.folder, tool=self.write("tool", TOOL), recorder="msstream", program_timeout=60, keep=None
        )
        self.write("examples/teach/overlap/overlap_planted", PROGRAM)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def judged(self, entry):
        row = judge(entry, self.options, self.folder)
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return row, calls

    def test_the_report_of_rank_0_is_judged(self):
        row, calls = self.judged(Planted("planted", "mode", "peer-skew"))
        self.assertEqual([call["files"] for call in calls], [2, 2])
        self.assertEqual((row["found"], row["left"]), (["peer-skew"], []))
        self.assertEqual((row["planted_us"], row["fixed_us"]), (7, 5))

    def test_a_twin_may_be_recorded_in_another_way(self):
        _, calls = self.judged(Planted("planted", "mode", "peer-skew", twin_options=("--graph-nodes",)))
        own = [call["run"][: call["run"].index("--")] for call in calls]
        self.assertEqual(["--graph-nodes" in options for options in own], [False, True])

    def test_a_cause_of_the_recording_has_the_times_of_the_recording(self):
        row, _ = self.judged(Planted("planted", "mode", "peer-skew", in_recording=True))
        self.assertEqual((row["planted_us"], row["fixed_us"]), (8, 2))
        self.assertIn("| mode (times of the recorded window) |", markdown([row], [], [], "a GPU", "msstream"))

    def test_recordings_that_were_kept_before_are_not_read_again(self):
        self.write("mode_planted.4711.json.gz", "[]")
        self.options.keep = self.folder
        _, calls = self.judged(Planted("planted", "mode", "peer-skew"))
        self.assertEqual(calls[0]["files"], 2)

    def assert_ended_after(self, event, error, message):
        """All processes that a program started have ended after an event: those that run hold a pipe open."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        program = self.write("hangs", f"#!/bin/sh\nexec 3> {pipe}\nsleep 45 &\necho >&3\nwait\n")

        def next_byte():
            self.assertTrue(select.select([reader], [], [], 30)[0], "a process still has the pipe open")
            return os.read(reader, 1)

        def communicate(*_, **__):
            self.assertEqual(next_byte(), b"\n")  # all processes run
            raise event

        with mock.patch.object(subprocess.Popen, "communicate", communicate):
            with self.assertRaisesRegex(error, message):
                execute([str(program)], 60)
        self.assertEqual(next_byte(), b"")

    def test_what_a_program_started_ends_with_it(self):
        self.assert_ended_after(subprocess.TimeoutExpired("hangs", 60), RuntimeError, "still ran after 60 s")

    def test_an_interrupt_ends_what_a_program_started(self):
        self.assert_ended_after(KeyboardInterrupt(), KeyboardInterrupt, "")

    def test_a_program_that_fails_says_why(self):
        program = self.write("fails", "#!/bin/sh\necho first >&2; echo no GPU >&2; exit 3\n")
        with self.assertRaisesRegex(RuntimeError, "status 3: no GPU"):
            execute([str(program)], 60)

    def test_the_error_of_the_program_comes_before_notes(self):
        note = "msstream-overlap: wrote a.json.gz"
        self.assertEqual(error_line(f"RuntimeError: no GPU\n[W] a warning\n{note}\n"), "RuntimeError: no GPU")
        self.assertEqual(error_line(f"error: cudaMalloc(): no memory\n{note}\n"), "error: cudaMalloc(): no memory")
        self.assertEqual(error_line(f"it ended\n{note}\n\n"), "it ended")
        self.assertEqual((error_line(note), error_line("")), (note, "no message"))

    def test_a_part_of_the_recording_may_be_judged(self):
        _, calls = self.judged(Planted("planted", "mode", "peer-skew", window="judged"))
        self.assertEqual([call["all"][-2:] for call in calls], [["--window", "judged"]] * 2)

    def test_the_blocks_of_collectives_are_those_of_the_recording(self):
        events = [{"name": name, "args": {"grid": [grid, 1, 1]}} for name, grid in (("ncclDevKernel_A", 24), ("k", 99))]
        file = self.folder / "r.json.gz"
        file.write_bytes(gzip.compress(json.dumps({"traceEvents": [{"ph": "M"}, *events]}).encode()))
        self.assertEqual(blocks_of_collectives([file]), 24)

    def test_a_range_is_judged_only_where_the_recording_leaves_the_gain_open(self):
        row = {"planted_us": 100, "fixed_us": 60, "predicted": 4, "range": [1, 4], "by_range": False, "part": 1}
        self.assertFalse(within(row))
        self.assertTrue(within({**row, "by_range": True}))
        self.assertFalse(within({**row, "by_range": True, "fixed_us": 5, "range": [1, 1.5], "predicted": 1.5}))
        self.assertTrue(within({**row, "part": 0.5}))

    def test_the_status_counts_neither_known_nor_forgives_skipped_programs(self):
        right = {"found": ["a"], "expected": "a", "not_found": ""}
        known = {"found": ["b"], "expected": "a", "not_found": "no recording tells"}
        self.assertEqual(status_of([right, known], [], []), 0)
        self.assertEqual(status_of([known], [], []), 0)
        self.assertEqual(status_of([right, {**known, "not_found": ""}], [], []), 1)
        self.assertEqual(status_of([right], [], ["late"]), 1)
        self.assertEqual(status_of([right], [("bad", "why")], []), 1)
        self.assertEqual(status_of([], [], []), 1)

    def test_each_cause_is_planted(self):
        source = planted_overlap.SOURCE.parents[2] / "src" / "overlap" / "find" / "cause.cpp"
        causes = set(re.findall(r'\{Cause::\w+, "([\w-]+)"', source.read_text()))
        entries = planted_overlap.CUDA + planted_overlap.PYTORCH + planted_overlap.TWO_GPUS
        self.assertGreater(len(causes), 20)
        self.assertEqual({entry.cause for entry in entries}, causes)

    def test_programs_and_modes_exist_and_no_mode_is_left_out(self):
        entries = planted_overlap.CUDA + planted_overlap.PYTORCH + planted_overlap.TWO_GPUS
        self.assertEqual(len({(entry.program, entry.mode) for entry in entries}), len(entries))
        listed = {}
        for entry in entries:
            listed.setdefault(entry.program, set()).add(entry.mode)
        for program, modes in listed.items():
            path = planted_overlap.SOURCE / (program if program.endswith(".py") else f"{program}.cu")
            text = path.read_text()
            if program.endswith(".py"):
                known = re.search(r"^MODES = \[([\w,\s]+)\]", text, re.MULTILINE)
                names = set(re.findall(r"\w+", known[1])) if known else {""}
            else:
                names = set(re.findall(r'^    \{"(\w+)", \w+\},', text, re.MULTILINE)) or {""}
            self.assertEqual(modes, names, program)


if __name__ == "__main__":
    unittest.main()
