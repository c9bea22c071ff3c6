#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_memory_table.py."""
import tempfile
import unittest
from pathlib import Path

import check_memory_table as checked

SOURCE = """
      SearchStep{.number = 1,
           .phase = "no wait",
           .name = "ready",
           .memory = "a free block",
           .small_memory = "a small one",
           .condition = "up to 1.5 × need "
                        "and no more",
           .who_waits = "nobody",
           .large = &LargeAllocator::take_ready,
           .small = &BlockPool::take_ready},
      SearchStep{
           .number = 2,
           .phase = "at the limit",
           .name = "callback",
           .memory = "memory of `others`",
           .small_memory = "",
           .condition = "",
           .who_waits = "the host",
           .both = &BlockPool::call},
"""
PAGE = """# Memory

<!-- steps: written by scripts/check_memory_table.py --fix -->
```text drawing
an allocation
   no wait        1 ready
   at the limit   2 callback > OutOfMemory
```
<!-- end of steps -->

<!-- search: written by scripts/check_memory_table.py --fix -->
| | for a large block, or a slab | for a small block | condition | who waits |
| --- | --- | --- | --- | --- |
| 1 | a free block | a small one | up to 1.5 × need and no more | nobody |
| 2 | memory of `others` | | | the host |
<!-- end of search -->

More text.
"""


class CheckMemoryTable(unittest.TestCase):
    def run_on(self, source, page, fixes=False):
        """Returns the findings, and the page afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in ((checked.SOURCE, source), (checked.PAGE, page)):
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            if fixes:
                checked.write_page(folder)
            return checked.violations(folder), Path(folder, checked.PAGE).read_text(encoding="utf-8")

    def assert_finds(self, source, page, part):
        found, _ = self.run_on(source, page)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_a_page_with_the_rows_of_the_source_is_fine(self):
        self.assertEqual(self.run_on(SOURCE, PAGE), ([], PAGE))

    def test_another_text_in_either_is_told_and_fixed(self):
        for source, page in ((SOURCE, PAGE.replace("a free block", "any block")),
                             (SOURCE, PAGE.replace("1 ready", "1 fresh")),
                             (SOURCE.replace('"the host"', '"nobody"'), PAGE)):
            self.assert_finds(source, page, "--fix writes it")
            self.assertEqual(self.run_on(source, page, fixes=True)[0], [])
        self.assertEqual(self.run_on(SOURCE, PAGE.replace("1 ready", "1 fresh"), fixes=True)[1], PAGE)

    def test_rows_in_another_order_are_told(self):
        first, second = SOURCE.split("      SearchStep")[1:]
        swapped = "\n      SearchStep" + second + "      SearchStep" + first
        found, _ = self.run_on(swapped, PAGE)
        self.assertEqual(len(found), 2, found)
        self.assertIn("row 1 has the number 2", found[0])
        renumbered = swapped.replace(".number = 2", ".number = 0").replace(".number = 1", ".number = 2")
        self.assert_finds(renumbered.replace(".number = 0", ".number = 1"), PAGE, "--fix writes it")

    def test_a_row_without_a_text_or_a_function_is_told(self):
        self.assert_finds(SOURCE.replace('.who_waits = "the host",', ""), PAGE, "row 2 has no who_waits")
        self.assert_finds(SOURCE.replace(".both = &BlockPool::call", ""), PAGE, "row 2 has no function")
        self.assert_finds(SOURCE.replace('"a small one"', '""'), PAGE, "row 1 does not say")

    def test_a_source_without_rows_is_told(self):
        self.assert_finds("", PAGE, "no rows")

    def test_a_page_without_marks_is_told_and_left_alone(self):
        page = PAGE.replace("<!-- end of steps -->", "")
        self.assert_finds(SOURCE, page, "no part 'steps'")
        self.assertEqual(self.run_on(SOURCE, page, fixes=True)[1], page)


if __name__ == "__main__":
    unittest.main()
