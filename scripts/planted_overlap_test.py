#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of planted_overlap.py: the list of programs, and how it runs, records and judges them, with a tool and programs
that only note how they were called."""
import argparse
import json
import os
import re
import select
import tempfile
import unittest
from pathlib import Path

import planted_overlap
from planted_overlap import Planted, execute, judge, markdown

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
        calls.write(json.dumps({"files": len(files), "run": recorded[0]}) + "\\n")
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

    def test_what_a_program_started_ends_with_it(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        program = self.write("hangs", f"#!/bin/sh\nsleep 45 > {pipe} &\nwait\n")
        with self.assertRaisesRegex(RuntimeError, "still ran after 1 s"):
            execute([str(program)], 1)
        try:
            left = os.read(reader, 1)
        except BlockingIOError:  # a process that was killed ends a little later
            ended = select.select([reader], [], [], 30)[0]
            self.assertTrue(ended, "a process still has the pipe open")
            left = os.read(reader, 1)
        self.assertEqual(left, b"")

    def test_a_program_that_fails_says_why(self):
        program = self.write("fails", "#!/bin/sh\necho first >&2; echo no GPU >&2; exit 3\n")
        with self.assertRaisesRegex(RuntimeError, "status 3: no GPU"):
            execute([str(program)], 60)

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
