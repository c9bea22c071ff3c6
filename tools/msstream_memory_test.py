#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of msstream-memory."""

import json
import os
import pathlib
import re
import resource
import signal
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

    def test_has_the_version_of_the_library(self):
        header = (TOOL.parent.parent / "include/msstream/base/version.hpp").read_text()
        version = ".".join(re.findall(r"#define MSSTREAM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
        result = subprocess.run([sys.executable, TOOL, "--version"], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, f"msstream-memory {version}\n", ""))

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
            ("[" * 100_000, "nested too deeply"),
            ("[]", "not a snapshot"),
            ({"version": 2}, "not a snapshot of version 1"),
            ({"version": 1, "statistics": STATISTICS}, "the field 'streams' is missing"),
            ({**SNAPSHOT, "events": [1]}, "events[0]: expected an object, found 1"),
            ({**SNAPSHOT, "events": 5}, "events: expected a list, found 5"),
            ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "bytes": "x"}]}, "ranges[0]: bytes: expected a whole"),
            ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "scope": 1}]}, "ranges[0]: scope: expected a text"),
            ({**SNAPSHOT, "streams": [{"stream": "s"}]}, "streams[0]: the field 'allocations' is missing"),
            ({**SNAPSHOT, "statistics": {**STATISTICS, "growths": None}}, "growths: expected a whole number"),
            (json.dumps(SNAPSHOT).replace("3072", "1e999"), "bytes: expected a whole number"),
            (json.dumps(SNAPSHOT).replace("3072", "9" * 400), "bytes: expected a whole number"),
            (json.dumps(SNAPSHOT).replace("3072", "9" * 5000), "not JSON"),
        ):
            self.assert_refused(self.run_on(content), words)
        self.path.write_bytes(b"\xff\xfe")
        self.assert_refused(self.run_tool(self.path), "not JSON")
        self.assert_refused(self.run_tool("/dev/zero", "--out", "-"), "goes on after")
        self.assert_refused(self.run_tool(self.path.parent / "absent"), "No such file")

    def test_bad_options_are_told_with_status_2(self):
        for arguments in (["--width", "x"], ["--width", "299"], ["--top", "-1"], ["--by", "size"], ["--out", ""]):
            result = self.run_on(SNAPSHOT, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotIn("Traceback", result.stderr)

    def test_does_not_write_over_the_snapshot(self):
        svg = self.path.with_suffix(".svg")
        content = json.dumps(SNAPSHOT)
        self.path.write_text(content)
        link, hard = self.path.with_name("link"), self.path.with_name("hard")
        link.symlink_to(self.path)
        hard.hardlink_to(self.path)
        for out in (self.path, f"{self.path.parent}/./snapshot.json", link, hard, os.path.relpath(self.path)):
            self.assert_refused(self.run_tool(self.path, "--out", out), "is the snapshot")
        with open(self.path, encoding="utf-8") as file:
            self.assert_refused(self.run_tool("-", "--out", self.path, stdin=file), "is the snapshot")
        svg.write_text(content)
        self.assert_refused(self.run_tool(svg), "is the snapshot")
        self.assertEqual(self.path.read_text(), content)
        self.assertEqual(svg.read_text(), content)

    def test_replaces_regular_files_and_keeps_what_they_were(self):
        self.path.write_text(json.dumps(SNAPSHOT))
        target, link = self.path.with_name("target"), self.path.with_name("link")
        target.write_text("old")
        target.chmod(0o640)
        link.symlink_to("target")
        stale = self.path.with_name(".target.0123456789abcdef.tmp")
        stale.write_text("left by a process that was killed")
        self.assertEqual(self.run_tool(self.path, "--out", link).returncode, 0)
        self.assertIn("<svg", target.read_text())
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.stat().st_mode & 0o7777, 0o640)
        self.assertEqual(self.names(), ["link", "snapshot.json", "target"])

    def test_streams_to_devices_and_fifos(self):
        self.path.write_text(json.dumps(SNAPSHOT))
        fifo = self.path.with_name("fifo")
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
            self.assertEqual(self.run_tool(self.path, "--out", fifo).returncode, 0)
            self.assertIn("<svg", reader.communicate()[0])
        self.assertTrue(fifo.is_fifo())
        self.assertEqual(self.run_tool(self.path, "--out", "/dev/null").returncode, 0)
        self.assert_refused(self.run_tool(self.path, "--out", "/dev/full"), "/dev/full: No space left")
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        result = self.run_tool(self.path, "--out", "/dev/stdout")
        self.assertIn("<svg", result.stdout)
        self.assertEqual(self.names(), ["fifo", "snapshot.json"])

    def test_a_standard_output_that_fails_is_an_error(self):
        self.path.write_text(json.dumps(SNAPSHOT))
        for arguments in (["--out", "-"], ["--out", self.path.with_name("picture")]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = self.run_tool(self.path, *arguments, stdout=full)
            self.assert_refused(result, "No space left")
        self.assertIn("<svg", self.path.with_name("picture").read_text())
        for arguments in (["--out", "-"], []):
            result = self.run_tool(self.path, *arguments, preexec_fn=lambda: os.close(1))
            self.assert_refused(result, "the standard output: Bad file descriptor")
        self.assertIn("<svg", self.path.with_suffix(".svg").read_text())

    def test_a_signal_ends_it_and_leaves_nothing(self):
        self.path.write_text(json.dumps(SNAPSHOT))
        fifo = self.path.with_name("fifo")
        os.mkfifo(fifo)
        # The snapshot comes from a FIFO: after opening it, the tool waits for its end.
        with subprocess.Popen([sys.executable, TOOL, fifo, "--out", self.path.with_name("p")], stderr=subprocess.PIPE) as tool:
            with open(fifo, "w", encoding="utf-8"):
                tool.send_signal(signal.SIGTERM)
                self.assertEqual(tool.wait(), -signal.SIGTERM)
            self.assertEqual(tool.stderr.read(), b"")
        self.assertEqual(self.names(), ["fifo", "snapshot.json"])

    def test_a_full_disk_leaves_the_old_picture(self):
        self.path.write_text(json.dumps(SNAPSHOT))
        picture = self.path.with_suffix(".svg")
        picture.write_text("old")

        def bound():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        self.assert_refused(self.run_tool(self.path, preexec_fn=bound), "File too large")
        self.assertEqual(picture.read_text(), "old")
        self.assertEqual(self.names(), ["snapshot.json", "snapshot.svg"])

    def test_what_cannot_be_written_is_told_before_the_snapshot_is_read(self):
        absent = self.path.with_name("absent")
        for out, words in (
            (absent / "picture", "there is no folder"),
            (self.path.parent, "is a folder"),
            ("/proc/picture", "cannot create a file"),
        ):
            self.assert_refused(self.run_tool(absent, "--out", out), words)

    def names(self):
        return sorted(path.name for path in self.path.parent.iterdir())

    def run_tool(self, *arguments, stdout=subprocess.PIPE, **more):
        return subprocess.run(
            [sys.executable, TOOL, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, **more
        )

    def assert_refused(self, result, words):
        """Checks that the tool ended with status 1 and one line on standard error."""
        self.assertEqual(result.returncode, 1, words)
        self.assertIn(words, result.stderr)
        self.assertRegex(result.stderr, r"\Amsstream-memory: [^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
