#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of ops_table.py."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ops_table import ROWS, median_of, rewritten
from summarise_benchmarks import read_suite

ROOT = Path(__file__).resolve().parent.parent
CASES = sorted({case for row in ROWS.values() for numbers in row.numbers for case in numbers.cases})


def benchmark(case, **numbers):
    name = f"ops_table/cuda/{case}/iterations:1/manual_time"
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": 12_340.0, "time_unit": "ns",
            "of_copy": 0.876, "TFLOPs": 654.3} | numbers


def page_of(cells):
    """Returns a page with a row for each of ROWS, whose last cell says *not yet* unless `cells` has another."""
    lines = [f"| {start}, and more | any | same | {cells.get(start, '*not yet*')} |" for start in ROWS]
    return "\n".join(["| operation | types | bits | measured |", "| --- | --- | --- | --- |", *lines, "", "After it.", ""])


class OpsTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, benchmarks):
        path = self.folder / "results.json"
        path.write_text(json.dumps({"context": {}, "benchmarks": benchmarks}))
        return path

    def rows(self, benchmarks):
        self.write(benchmarks)
        return read_suite(self.folder, "results")[1]

    def all_rows(self):
        return self.rows([benchmark(case) for case in CASES])

    def test_cells_have_the_medians_in_their_units(self):
        rows = self.rows([benchmark(case) for case in CASES] +
                         [benchmark("cast_ids/int32_to_int64", of_copy=value) for value in (0.5, 0.25)])
        page = rewritten(page_of({}), rows)
        self.assertIn("| `cast_ids`, and more | any | same | to int32 / int64: 0.88 / 0.50 of a copy's rate |\n", page)
        self.assertIn("batch 2,048 / 8,192: 12.3 / 12.3 µs |", page)
        self.assertIn("its gradients: float32 654 / 654 / 654, cuBLASLt alone 654 / 654 / 654, bfloat16", page)

    def test_numbers_of_other_suites_stay_in_front_of_the_last_semicolon(self):
        page = rewritten(page_of({"`layer_norm`": "forward 3,538 GB/s; bfloat16 3,056; gradients *not yet*"}), self.all_rows())
        self.assertIn("| forward 3,538 GB/s; bfloat16 3,056; gradients 0.88 / 0.88 / 0.88 / 0.88, bfloat16", page)

    def test_numbers_of_other_suites_without_a_semicolon_stay_in_front(self):
        page = rewritten(page_of({"`dense`, `_gradient`": "in a step: 740 TFLOP/s"}), self.all_rows())
        self.assertIn("| in a step: 740 TFLOP/s; warm, the same sizes, forward / all gradients: bfloat16 relu 654 / 654, ", page)

    def test_a_second_run_replaces_the_first(self):
        cells = {start: "1 GB/s; others *not yet*" for start, row in ROWS.items() if row.adds}
        once = rewritten(page_of(cells), self.all_rows())
        self.assertEqual(rewritten(once, self.all_rows()), once)
        faster = rewritten(once, self.rows([benchmark(case, of_copy=0.95) for case in CASES]))
        self.assertNotIn("0.88", faster)
        self.assertIn("1 GB/s; of 8,192", faster)

    def test_rows_of_other_operations_stay_as_they_are(self):
        other = "| `gather_rows`, and more | any | same | *not yet* |\n"
        page = rewritten(page_of({}).replace("\nAfter it.", f"{other}\nAfter it."), self.all_rows())
        self.assertIn(other, page)

    def test_rows_of_other_tables_stay_as_they_are(self):
        other = "| operation | key |\n| --- | --- |\n| `fill_uniform` | a seed |\n"
        page = rewritten(f"{page_of({})}{other}", self.all_rows())
        self.assertTrue(page.endswith(f"\nAfter it.\n{other}"))

    def test_the_page_has_every_row_and_no_cell_without_a_number_is_left(self):
        page = rewritten((ROOT / "docs/ops.md").read_text(), self.all_rows())
        self.assertEqual([line for line in page.splitlines() if line.startswith("|") and "not yet" in line], [])

    def test_a_missing_row_is_told(self):
        page = page_of({}).replace("| losses", "| costs")
        with self.assertRaisesRegex(ValueError, "begin with losses"):
            rewritten(page, self.all_rows())

    def test_a_missing_benchmark_is_told(self):
        with self.assertRaisesRegex(ValueError, "no benchmark mse_loss; run the whole suite"):
            median_of(self.rows([benchmark("add")]), "mse_loss", "of_copy")

    def test_the_program_writes_the_page(self):
        results = self.write([benchmark(case) for case in CASES])
        page = self.folder / "ops.md"
        page.write_text(page_of({}))
        subprocess.run([sys.executable, "-B", ROOT / "scripts/ops_table.py", results, page], check=True)
        self.assertEqual(page.read_text(), rewritten(page_of({}), self.all_rows()))


if __name__ == "__main__":
    unittest.main()
