#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of shapes_table.py."""
import gzip
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from shapes_table import BEGIN, END, read_shapes, rewritten, table_of

ROOT = Path(__file__).resolve().parent.parent
CSV = """operation,type,id_bits,skew,width,length,segments,us,bytes,gb_s,of_copy,slowness,cub_us,cub_ratio,outlier_along,\
outlier_ratio
segment_sum,float32,64,even,1,2,1024,5.000,9000,1.8,0.0004,1.000,4.00,0.80,,
segment_sum,float32,64,even,128,30,16384,50.000,260000000,5200.0,0.9012,1.100,,,,
segment_sum,float16,64,power,33,30,16384,99.000,64000000,646.0,0.1400,3.100,,,width,2.50
segment_sum,float32,64,half,1,30,16384,20.000,2000000,100.0,0.0210,2.000,60.00,3.00,width,1.40
unique,float32,32,even,1,1,65536,40.000,1000000,25.0,0.0060,1.000,30.00,0.75,,
""".replace("\\\n", "")


class ShapesTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "shapes.csv"
        self.path.write_text(CSV)

    def test_an_operation_has_a_line_with_medians_the_least_and_outliers(self):
        lines = table_of(read_shapes(self.path)).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({line.count("|") for line in lines}, {11})
        # The median of an even number of values is the mean of the middle ones.
        self.assertEqual(
            lines[2], "| `segment_sum` | 4 | 0.08 | 0.52 | 0.14 | 33, 30, 16,384, power, float16, int64 | 2 | 2.50 along width: "
            "33, 30, 16,384, power, float16, int64 | 1.90 | 0.80 |")
        self.assertEqual(lines[3], "| `unique` | 1 | 0.01 | | | | 0 | | 0.75 | 0.75 |")

    def test_a_compressed_file_is_read_alike(self):
        packed = self.folder / "shapes.csv.gz"
        packed.write_bytes(gzip.compress(CSV.encode()))
        self.assertEqual(read_shapes(packed), read_shapes(self.path))

    def test_other_files_are_refused(self):
        for text in ("", "a,b\n1,2\n", CSV.splitlines()[0] + "\n"):
            self.path.write_text(text)
            with self.assertRaisesRegex(ValueError, "expected the results of shapes_sweep --csv"):
                read_shapes(self.path)

    def test_a_second_run_replaces_the_table_of_the_first(self):
        rows = read_shapes(self.path)
        page = f"Before.\n\n{BEGIN}\n{END}\n\nAfter.\n"
        once = rewritten(page, rows)
        self.assertIn(f"Before.\n\n{BEGIN}\n5 shapes, written as", once)
        self.assertTrue(once.endswith(f"{table_of(rows)}{END}\n\nAfter.\n"))
        self.assertEqual(rewritten(once, rows), once)
        self.assertIn("1 shapes", rewritten(once, rows[:1]))
        self.assertNotIn("`unique`", rewritten(once, rows[:1]))
        for broken in (page.replace(BEGIN, ""), page.replace(END, "")):
            with self.assertRaisesRegex(ValueError, "the page has no lines"):
                rewritten(broken, rows)

    def test_the_program_writes_the_page_of_this_project(self):
        page = self.folder / "benchmarks.md"
        page.write_text((ROOT / "docs/benchmarks.md").read_text())
        program = [sys.executable, "-B", ROOT / "scripts/shapes_table.py", self.path]
        printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
        self.assertEqual(printed, table_of(read_shapes(self.path)))
        subprocess.run([*program, page], check=True)
        self.assertIn(printed, page.read_text())


if __name__ == "__main__":
    unittest.main()
