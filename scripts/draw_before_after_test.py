#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of draw_before_after.py, with a tool that only notes how it was called."""
import gzip
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from draw_before_after import replays

SCRIPT = Path(__file__).with_name("draw_before_after.py")
TOOL = '#!/bin/sh\nfor file in "$@"; do :; done\necho "$*" >"$file"\n'


def recording(step_us, steps, nodes=8):
    """Returns the events of replays, each launched 5 µs before its nodes, which begin within 1 µs."""
    events = [{"ph": "M", "name": "process_name", "ts": 0}]
    for step in range(steps):
        begin = 1000 + step * step_us
        events.append({"ph": "X", "cat": "cuda_runtime", "ts": begin - 5, "dur": 2, "args": {"correlation": step}})
        events += [{"ph": "X", "cat": "kernel", "ts": begin + (nodes - node) / 8, "dur": 3, "args": {"correlation": step}}
                   for node in range(1, nodes + 1)]
        events.append({"ph": "X", "cat": "kernel", "ts": begin + 3, "dur": 1, "args": {"correlation": 1000 + step}})
    return events


class DrawBeforeAfter(unittest.TestCase):
    def test_replays_begin_with_their_first_node(self):
        self.assertEqual(replays(recording(300, 4)), [5, 305, 605, 905])

    def test_a_recording_without_nodes_of_graphs_is_refused(self):
        with self.assertRaisesRegex(ValueError, "found 0: record with --graph-nodes"):
            replays(recording(300, 4, nodes=1))

    def test_both_pictures_show_as_much_time(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "tool").write_text(TOOL)
            (folder / "tool").chmod(0o755)
            for file, step in (("one", 300), ("seven", 120)):
                with gzip.open(folder / f"{file}.json.gz", "wt") as out:
                    json.dump({"traceEvents": recording(step, 5)}, out)
            done = subprocess.run([sys.executable, "-B", SCRIPT, folder / "tool", folder / "one.json.gz",
                                   folder / "seven.json.gz", folder / "pictures"], capture_output=True, text=True, check=True)
            self.assertIn("--window 605.000us:905.000us --quiet --svg-timeline", (folder / "pictures/before.svg").read_text())
            self.assertIn("--window 245.000us:545.000us --quiet", (folder / "pictures/after.svg").read_text())
            self.assertIn("before.svg: 300 µs, 1.0 steps of 300 µs\n", done.stdout)
            self.assertIn("after.svg: 300 µs, 2.5 steps of 120 µs\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
