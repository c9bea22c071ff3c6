#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of msstream-memory."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TOOL = pathlib.Path(__file__).with_name("msstream-memory")

STATISTICS = {
    "live_bytes": 512, "peak_live_bytes": 1024, "reserved_bytes": 4096, "peak_reserved_bytes": 4096,
    "limit_bytes": 8192, "allocations": 2, "growths": 1, "reuses": 1, "steals": 0, "waiting_reuses": 0,
}  # fmt: skip
SNAPSHOT = {
    "version": 1,
    "statistics": STATISTICS,
    "streams": [
        {"stream": "group 0", "live_bytes": 512, "allocations": 1234, "reuses": 56, "steals": 7, "waiting_reuses": 8},
        {"stream": "never used", "live_bytes": 0, "allocations": 0, "reuses": 0, "steals": 0, "waiting_reuses": 0},
    ],
    "ranges": [
        {"address": 4096, "bytes": 512, "state": "in use", "scope": "tower <1>", "stream": "group 0"},
        {"address": 4608, "bytes": 512, "state": "cached", "stream": "group 0"},
        {"address": 5120, "bytes": 3072, "state": "free"},
    ],
    "events": [
        {"ns": 0, "event": "grow", "address": 4096, "bytes": 4096},
        {"ns": 10, "event": "take", "address": 4096, "bytes": 512, "stream": "group 0", "scope": "tower <1>", "waits": True},
        {"ns": 20, "event": "take", "address": 4608, "bytes": 512, "stream": "group 0"},
        {"ns": 30, "event": "give back", "address": 4608, "bytes": 512, "stream": "group 0"},
    ],
}


class MsstreamMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "snapshot.json"

    def run_on(self, content, *arguments):
        self.path.write_text(content if isinstance(content, str) else json.dumps(content))
        return subprocess.run(
            [sys.executable, TOOL, self.path, *arguments], capture_output=True, text=True, check=False
        )

    def texts_of(self, *arguments):
        result = self.run_on(SNAPSHOT, "--out", "-", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        root = ElementTree.fromstring(result.stdout)
        return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_draws_scopes_and_figures(self):
        texts = self.texts_of()
        self.assertIn("tower <1> (1 allocations, 1 that wait)", texts)
        self.assertIn("outside all scopes (1 allocations, 0 that wait)", texts)
        self.assertIn("4 KiB", texts)
        self.assertTrue(texts[0].startswith("in use 512 B (at most 1 KiB), reserved 4 KiB"))

    def test_draws_streams(self):
        texts = self.texts_of("--by", "stream")
        self.assertIn("group 0 (2 allocations, 1 that wait)", texts)
        self.assertFalse([text for text in texts if "tower" in text])

    def test_counts_by_stream(self):
        texts = self.texts_of()
        at = texts.index("group 0")
        self.assertEqual(texts[at : at + 6], ["group 0", "1234", "56", "7", "8", "512 B"])
        self.assertNotIn("never used", texts)
        at = texts.index("all")
        self.assertEqual(texts[at : at + 6], ["all", "2", "1", "0", "0", "512 B"])

    def test_draws_events_in_equal_steps(self):
        self.assertIn("4 events", self.texts_of("--over", "events"))

    def test_writes_beside_the_snapshot(self):
        self.assertEqual(self.run_on(SNAPSHOT).returncode, 0)
        self.assertEqual([path.suffix for path in sorted(self.path.parent.iterdir())], [".json", ".svg"])

    def test_says_that_there_is_no_history(self):
        result = self.run_on({**SNAPSHOT, "events": []}, "--out", "-")
        self.assertIn("MSSTREAM_MEMORY_HISTORY", result.stdout)

    def test_refuses_what_is_no_snapshot(self):
        for content, words in (
            ("{", "not JSON"),
            ("[]", "not a snapshot"),
            ({"version": 2}, "not a snapshot of version 1"),
            ({"version": 1, "statistics": STATISTICS}, "missing"),
        ):
            result = self.run_on(content)
            self.assertEqual(result.returncode, 1, content)
            self.assertIn(words, result.stderr)
            self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main()
