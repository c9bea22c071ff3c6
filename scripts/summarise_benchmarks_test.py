#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of summarise_benchmarks.py."""
import gzip
import json
import tempfile
import unittest
from pathlib import Path

from summarise_benchmarks import read_json, stored, summary

CONTEXT = {"device": "a GPU", "driver": "580", "cuda": "CUDA 13.0", "num_cpus": 16, "cpu": "a processor",
           "commit": "abc", "date": "2026-11-21T09:54:27+00:00"}


def suite(name, **context):
    numbers = {"bare_ns": 10.0, "ours_ns": 30.0, "extra_ns": 20.0, "real_time": 1.0, "time_unit": "ns"}
    return {"context": CONTEXT | context,
            "benchmarks": [{"name": name, "run_name": f"{name}/cuda/own/threads:1", "run_type": "iteration"} | numbers] * 3}


class SummariseBenchmarks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, document, compressed=True):
        text = json.dumps(document).encode()
        path = self.folder / f"{name}.json{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(text) if compressed else text)

    def headings(self):
        return [line for line in summary(self.folder).splitlines() if line.startswith(("#", "driver"))]

    def test_compressed_files_are_read_like_others(self):
        self.write("issue", suite("issue"), compressed=False)
        plain = summary(self.folder)
        (self.folder / "issue.json").unlink()
        self.write("issue", suite("issue"))
        self.assertEqual(summary(self.folder), plain)
        self.assertIn("| own, threads 1 | 10.0 | 30.0 | 20.0 |", plain)

    def test_a_file_that_is_missing_is_empty(self):
        self.assertIsNone(stored(self.folder, "issue"))
        self.assertEqual(read_json(self.folder, "issue"), {})

    def test_suites_of_one_run_have_one_heading(self):
        self.write("issue", suite("issue"))
        self.write("event", suite("event", date="2026-11-21T10:00:00+00:00"))
        self.assertEqual(self.headings(), [
            "## Issuing and waits: a GPU", "driver 580, CUDA 13.0, 16 × a processor, commit abc, 2026-11-21, 3 repetitions.",
            "### What `issue()` costs", "### Events and waits"])

    def test_each_run_has_a_heading_and_the_newest_is_first(self):
        self.write("issue", suite("issue"))
        self.write("event", suite("event", commit="def", date="2026-11-23T10:00:00+00:00"))
        found = self.headings()
        self.assertEqual([line for line in found if line.startswith("#")],
                         ["## Issuing and waits: a GPU", "### Events and waits",
                          "## Issuing and waits: a GPU", "### What `issue()` costs"])
        self.assertIn("commit def, 2026-11-23", found[1])
        self.assertIn("commit abc, 2026-11-21", found[4])

    def test_workloads_join_the_run_of_their_commit(self):
        workloads = {"device": "a GPU", "version": "CUDA 13.0", "commit": "abc", "traces": [], "makespans": []}
        self.write("memory_workloads", workloads)
        self.assertEqual(self.headings(), ["## Memory: a GPU", "### Memory under work on several streams"])
        self.write("issue", suite("issue"))
        self.write("event", suite("event", commit="def", date="2026-11-23T10:00:00+00:00"))
        self.assertEqual([line for line in self.headings() if line.startswith("#")],
                         ["## Issuing and waits: a GPU", "### Events and waits", "## Issuing and waits, memory: a GPU",
                          "### What `issue()` costs", "### Memory under work on several streams"])

    def test_serving_has_its_picture_if_it_is_drawn(self):
        self.write("serve", {"context": CONTEXT, "rows": {"not in the table": [{}]}})
        self.assertEqual(self.headings()[0], "## Serving: a GPU")
        self.assertNotIn("serve_sweep.svg", summary(self.folder))
        (self.folder / "serve_sweep.svg").touch()
        self.assertIn(f"(../benchmarks/results/{self.folder.name}/serve_sweep.svg)", summary(self.folder))

    def test_a_failed_benchmark_is_told_with_its_file(self):
        document = suite("issue")
        document["benchmarks"][0] |= {"error_occurred": True, "error_message": "no device"}
        self.write("issue", document)
        with self.assertRaisesRegex(ValueError, r"issue\.json\.gz: issue: no device"):
            summary(self.folder)

    def test_a_folder_without_results_is_told(self):
        with self.assertRaisesRegex(ValueError, "no results"):
            summary(self.folder)


if __name__ == "__main__":
    unittest.main()
