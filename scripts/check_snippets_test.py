#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_snippets.py."""
import tempfile
import unittest
from pathlib import Path

from check_snippets import violations

NAME = "examples/sum.cpp"
SOURCE = """#include <cstdio>

int main() {
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += i;
  }
  for (int i = 4; i < 8; ++i) {
    sum -= i;
  }
  std::printf("%d\\n", sum);
}
"""
SHOWN = """int sum = 0;
for (int i = 0; i < 4; ++i) {
  sum += i;
}
"""
MESSAGES = r"""// a comment: a comment
EXPECT_EQ(text, "the sum of 4 terms "
                "is above 10: 'x'");
EXPECT_EQ(said, "say \"sum\"\n"
                "then 6");
"""


DECISIONS = """<!-- decisions: a comment -->
| question | file | name |
| --- | --- | --- |
| where are numbers added | `src/sum.cpp` | `Sum::main` |
<!-- end of decisions -->
"""


class CheckSnippets(unittest.TestCase):
    def found(self, readme, page="", guide=DECISIONS, files=None):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in {NAME: SOURCE, "src/sum.cpp": SOURCE, "README.md": readme, "docs/page.md": page,
                               "CONTRIBUTING.md": guide, **(files or {})}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return list(violations(root))

    @staticmethod
    def block(text, name=NAME):
        return f"Text\n\n```cpp {name}\n{text}```\n"

    def test_consecutive_lines_are_fine_with_another_indentation(self):
        self.assertEqual(self.found(self.block(SHOWN)), [])
        self.assertEqual(self.found(self.block("  int sum = 0;\n")), [])
        self.assertEqual(self.found(self.block(SOURCE)), [])

    def test_links_lead_to_files_and_headings(self):
        page = ("# Sums, and `more`\n\n[a](../examples/sum.cpp) [b](#sums-and-more) [c](../README.md#text) [d](#twice-1)\n"
                "## Twice\n## [Twice](../README.md)\n```text drawing\n# No heading\n[e](nowhere.md)\n```\n`[f](nowhere.md)`\n"
                "[g](https://example.com/#x)\n")
        readme = "# Text\n" + self.block(SHOWN)
        self.assertEqual(self.found(readme, page), [])
        self.assertEqual(self.found(readme, page + "[h](gone.md)\n[i](../README.md#no-heading) [j](#twice-2)\n"),
                         ["docs/page.md:12: there is no file 'gone.md'",
                          "docs/page.md:13: '../README.md' has no heading '#no-heading'",
                          "docs/page.md:13: 'docs/page.md' has no heading '#twice-2'"])

    def test_pictures_have_a_text_in_their_place(self):
        readme = self.block(SHOWN)
        self.assertEqual(self.found(readme, "![A sum\nof four numbers](../examples/sum.cpp)\n`![]()`\n```text drawing\n![]()\n```\n"), [])
        self.assertEqual(self.found(readme, "Text\n\n![A\nsum](../examples/sum.cpp)\n"),
                         ["docs/page.md:3: the text in place of the picture has fewer than 4 words: 'A sum'"])

    def test_a_block_of_text_says_where_it_is_from(self):
        readme = self.block(SHOWN)
        files = {"tools/overlap/run.cpp": '"--window"', "tests/sum_test.cpp": MESSAGES,
                 "tests/doctor/tool_test.cpp": '"```text msstream-doctor\\n"'}
        for label in ("text examples/sum.cpp --fast", "text drawing", "text sample", "text msstream-doctor",
                      "text measured msstream-overlap --window 1:2"):
            with self.subTest(label):
                self.assertEqual(self.found(readme, f"```{label}\n6\n```\n", files=files), [])
        for label, wrong in (
                ("text examples/none.cpp", "the block shows what 'examples/none.cpp' prints, and there is no such file"),
                ("text tests/none.cpp", "there is no file 'tests/none.cpp'"),
                ("text src/sum.cpp", "'src/sum.cpp' is neither a file of examples/ or tests/ nor a program with a check of its own"),
                ("text measured none", "there is no program 'none'"),
                ("text measured", "there is no program ''"),
                ("text measured msstream-overlap --windows", "'msstream-overlap' has no option --windows"),
                ("text gdb", "'tests/gdb/printers_test.py' does not look for ```text gdb"),
                ("json msstream-doctor", "'tests/doctor/tool_test.cpp' does not look for ```json msstream-doctor"),
                ("text", "the block does not say where it is from: ```text examples/…, tests/… or measured …"),
                ("json", "the block does not say where it is from: ```json examples/…, tests/… or measured …"),
                ("", "the block has no language: ```text, and where it is from")):
            with self.subTest(label):
                self.assertEqual(self.found(readme, f"```{label}\n6\n```\n", files=files), [f"docs/page.md:1: {wrong}"])

    def test_a_text_of_a_test_is_in_its_strings(self):
        readme, files = self.block(SHOWN), {"tests/sum_test.cpp": MESSAGES}
        for text in ("the sum of 4 terms is\nabove 10: 'x'", "the sum\n…\nabove 10", 'say "sum"\nthen 6',
                     "the sum of … is above"):
            with self.subTest(text):
                self.assertEqual(self.found(readme, f"```text tests/sum_test.cpp\n{text}\n```\n", files=files), [])
        for text, line in (("the sum of 5 terms", 2), ("the sum of 4\nterms are", 3), ("above 10\n…\nthe sum", 4), ("a comment", 2)):
            with self.subTest(text):
                wrong = self.found(readme, f"```text tests/sum_test.cpp\n{text}\n```\n", files=files)
                self.assertEqual([one.partition(" ")[0] for one in wrong], [f"docs/page.md:{line}:"])

    def test_a_block_is_not_marked_by_its_indentation(self):
        readme = self.block(SHOWN)
        told = "the block is marked by its indentation: put it between ```text … and ```"
        self.assertEqual(self.found(readme, "Text:\n\n    6\n"), [f"docs/page.md:3: {told}"])
        self.assertEqual(self.found(readme, "- a list\n\n  1. more\n\n     of it\n    and\nText\n    that goes on\n"), [])

    def test_code_of_a_table_occurs_in_its_file(self):
        head = f"<!-- cpp {NAME} -->\n\n| theirs | ours |\n| --- | --- |\n"
        readme = self.block(SHOWN)
        self.assertEqual(self.found(readme, head + "| `a + b` | `sum  -= i;` or `for(…)` |\n\n`none`\n| `x` | `y` |\n"), [])
        self.assertEqual(self.found(readme, head + "| `sum` | `sum += i` and `sum *= i` |\n"),
                         [f"docs/page.md:5: {NAME} does not have `sum *= i`"])
        self.assertEqual(self.found(readme, "<!-- cpp examples/none.cpp -->\n"),
                         ["docs/page.md:1: 'examples/none.cpp' is no file of examples/ or tests/"])

    def test_another_text_is_told_with_its_line(self):
        found = self.found(self.block(SHOWN.replace("sum += i", "sum += 2 * i")))
        self.assertEqual(found, [f"README.md:6: {NAME} does not have this line here: sum += 2 * i;"])
        found = self.found(self.block(SHOWN.replace("int sum", "long sum")))
        self.assertEqual(found, [f"README.md:4: {NAME} does not have this line here: long sum = 0;"])

    def test_so_is_a_line_that_is_missing(self):
        self.assertEqual(len(self.found(self.block(SHOWN.replace("  sum += i;\n", "")))), 1)

    def test_so_is_a_line_that_is_indented_unlike_the_others(self):
        found = self.found(self.block(SHOWN.replace("  sum += i", "sum += i")))
        self.assertEqual(found, [f"README.md:6: {NAME} does not have this line here: sum += i;"])

    def test_so_is_a_block_longer_than_the_file(self):
        self.assertEqual(len(self.found(self.block(SOURCE + "int more;\n"))), 1)

    def test_lines_may_be_left_out_where_the_page_says_so(self):
        self.assertEqual(self.found(self.block("int main() {\n…\n  std::printf(\"%d\\n\", sum);\n}\n")), [])
        self.assertEqual(self.found(self.block("…\nsum -= i;\n")), [])

    def test_what_follows_must_come_later_in_the_file(self):
        self.assertEqual(len(self.found(self.block("std::printf(\"%d\\n\", sum);\n…\nint sum = 0;\n"))), 1)

    def test_equal_beginnings_do_not_hide_a_later_place(self):
        self.assertEqual(self.found(self.block("}\nstd::printf(\"%d\\n\", sum);\n")), [])

    def test_a_file_must_exist_and_be_compiled_as_a_program(self):
        for name in ("examples/none.cpp", "sum.cpp", "src/sum.cpp"):
            with self.subTest(name):
                self.assertEqual(len(self.found(self.block(SHOWN, name))), 1)

    def test_every_block_names_its_file(self):
        sketch = "Text\n```cpp\nint sum = 0;\n```\n"
        named = "the block names no file that it is cut from: ```cpp examples/…"
        self.assertEqual(self.found(self.block(SHOWN) + sketch), [f"README.md:10: {named}"])
        self.assertEqual(self.found(self.block(SHOWN), sketch), [f"docs/page.md:2: {named}"])
        self.assertEqual(self.found(self.block(SHOWN), "- as in\n  " + sketch[5:].replace("\n", "\n  ") + "\n"),
                         [f"docs/page.md:2: {named}"])
        for language in ("cmake", "python", "meson"):
            with self.subTest(language):
                self.assertEqual(self.found(self.block(SHOWN), f"```{language}\na\n```\n"),
                                 [f"docs/page.md:1: the block names no file that it is cut from: ```{language} examples/…"])
        self.assertEqual(self.found(self.block(SHOWN), "```sh\ncmake .\n```\n"), [])

    def test_what_no_compiler_checks_is_run_by_a_test_or_a_script(self):
        files = {"tests/reference/run.py": "a = 1\n", "tests/ways/user/CMakeLists.txt": "project(user)\n",
                 "tests/ways/user/meson.build": "project('user')\n"}
        page = ("```python tests/reference/run.py\na = 1\n```\n"
                "```cmake tests/ways/user/CMakeLists.txt\nproject(user)\n```\n"
                "```meson tests/ways/user/meson.build\nproject('user')\n```\n")
        shown = self.block(SHOWN)
        runners = "tests/CMakeLists.txt, cmake/*.cmake, scripts/*.sh"
        self.assertEqual(sorted(self.found(shown, page, files=files)), [
            f"docs/page.md:1: no test or script runs 'tests/reference/run.py': none of {runners} names it",
            f"docs/page.md:4: no test or script runs 'tests/ways/user/CMakeLists.txt': none of {runners} names it",
            f"docs/page.md:7: no test or script runs 'tests/ways/user/meson.build': none of {runners} names it"])
        files["tests/CMakeLists.txt"] = "add_test(NAME run COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/reference/run.py)\n"
        files["scripts/check.sh"] = 'cmake -S "$root/tests/ways/user2"\n'
        self.assertEqual(len(self.found(shown, page, files=files)), 2)
        files["scripts/check.sh"] = 'cmake -S "$root/tests/ways/user"\ncp "$root/tests/ways/user/meson.build" .\n'
        self.assertEqual(self.found(shown, page, files=files), [])

    def test_a_block_that_a_script_takes_from_its_page_names_no_file(self):
        page = "## A folder\n```cmake\nproject(a)\nadd_executable(a)\n```\n"
        files = {"scripts/check_ways.sh": 'block docs/page.md "A folder" cmake >"$folder/CMakeLists.txt"\n'}
        missing = "the block names no file that it is cut from: ```cmake examples/…"
        self.assertEqual(self.found(self.block(SHOWN), page, files=files), [])
        self.assertEqual(self.found(self.block(SHOWN), page.replace("A folder", "Another"), files=files),
                         [f"docs/page.md:2: {missing}"])
        self.assertEqual(self.found(self.block(SHOWN), page + page[12:], files=files), [f"docs/page.md:6: {missing}"])

    def test_another_page_may_repeat_that_block_by_the_name_of_the_page(self):
        files = {"scripts/check_ways_of.sh": "words=$(block docs/install.md Folder cmake)\n",
                 "docs/install.md": "## Folder\n```cmake\nproject(a)\nadd_executable(a)\n```\n"}
        page = "```cmake docs/install.md\nadd_executable(a)\n```\n"
        self.assertEqual(self.found(self.block(SHOWN), page, files=files), [])
        self.assertEqual(self.found(self.block(SHOWN), page.replace("(a)", "(b)"), files=files),
                         ["docs/page.md:2: docs/install.md does not have this line here: add_executable(b)"])

    def test_commands_name_programs_and_options_that_there_are(self):
        files = {"examples/train_sum/options.cpp": '"--terms", "--terms-of-all"', "apps/cli/run.hpp": '"--report"',
                 "examples/teach/add.cpp": "", "tools/overlap/run.cpp": '"--window"', "scripts/train.sh": "--help",
                 "examples/train_wdl/main.cpp": '"--epochs"', "scripts/fuzz.sh": "--keep)",
                 "benchmarks/a/sum_benchmark.cpp": ""}
        good = ("train_sum --terms 4 \\\n  --report a.json  # --nothing\n"
                "A=1 build/host/examples/train_sum/train_sum --terms=4\n"
                "scripts/train.sh --epochs 2\nscripts/train.sh train_sum --terms 3\nscripts/fuzz.sh --keep 3\n"
                "mpirun -n 2 --bind-to core train_sum --terms 4\n$P --anything\n./mine --anything\nF=$(mktemp -d)\n"
                "msstream-overlap --window 1:2 -- train_sum --terms 4 && cmake --build build\n"
                "build/cuda/benchmarks/sum_benchmark --benchmark_filter=a\nscripts/train.sh --help\nteach_add\n")
        shown = self.block(SHOWN)
        self.assertEqual(self.found(shown, f"```sh\n{good}```\n`train_sum --terms`\n", files=files), [])
        for command, wrong in (("train_sum --term 4", "'train_sum' has no option --term"),
                               ("train_sum --terms-of 4", "'train_sum' has no option --terms-of"),
                               ("train_sum --window 4", "'train_sum' has no option --window"),
                               ("scripts/train.sh --terms 4", "'scripts/train.sh' has no option --terms"),
                               ("msstream-overlap --terms 4", "'msstream-overlap' has no option --terms"),
                               ("msstream-overlap -- train_sum --window 4", "'train_sum' has no option --window"),
                               ("scripts/fuzz.sh --kept", "'scripts/fuzz.sh' has no option --kept"),
                               ("scripts/none.sh", "there is no program 'scripts/none.sh'"),
                               ("train_none", "there is no program 'train_none'"),
                               ("mpirun -n 2 teach_none", "there is no program 'teach_none'"),
                               ("build/cuda/benchmarks/no_benchmark", "there is no program 'build/cuda/benchmarks/no_benchmark'"),
                               ("unheard-of", "there is no program 'unheard-of'")):
            with self.subTest(command):
                self.assertEqual(self.found(shown, f"Text\n```sh\ncmake .\n{command}\n```\n", files=files),
                                 [f"docs/page.md:4: {wrong}"])
        self.assertEqual(self.found(shown, "`train_sum --term 4`\n", files=files),
                         ["docs/page.md:1: 'train_sum' has no option --term"])

    def test_a_block_of_another_language_is_checked_if_it_names_a_file(self):
        shown = self.block(SHOWN)
        for language in ("cmake", "python", "meson", "sh"):
            missing = f"docs/page.md:1: the block names no file that it is cut from: ```{language} examples/…"
            unnamed = [] if language == "sh" else [missing]
            with self.subTest(language):
                self.assertEqual(self.found(shown, f"```{language} {NAME}\nint sum = 0;\n```\n"), [])
                self.assertEqual(self.found(shown, f"```{language} {NAME}\nint none = 0;\n```\n"),
                                 [f"docs/page.md:2: {NAME} does not have this line here: int none = 0;"])
                self.assertIn("'src/sum.cpp' is no file of examples/ or tests/",
                              self.found(shown, f"```{language} src/sum.cpp\nint sum = 0;\n```\n")[0])
                self.assertEqual(self.found(shown, f"```{language}\ncmake .\n```\n"), unnamed)

    def test_other_names_of_the_language_do_not_escape(self):
        for language in ("c++", "cc", "cxx", "cuda", "hpp", "C++"):
            with self.subTest(language):
                found = self.found(self.block(SHOWN), f"```{language}\nint sum = 0;\n```\n")
                self.assertEqual(found, [f"docs/page.md:1: C++ is marked as ```cpp, not ```{language}"])

    def test_pages_of_docs_are_checked_too(self):
        self.assertEqual(len(self.found("", self.block("int other;\n"))), 1)

    def test_a_block_in_a_list_is_checked_too(self):
        self.assertEqual(self.found("- as in\n  ```cpp examples/sum.cpp\n  int sum = 0;\n  ```\n"), [])
        self.assertEqual(len(self.found("- as in\n  ```cpp examples/sum.cpp\n  int none = 0;\n  ```\n")), 1)

    def test_pages_that_show_nothing_are_told(self):
        self.assertEqual(len(self.found("")), 1)

    def test_the_table_of_decisions_names_what_there_is(self):
        def found(guide):
            return self.found(self.block(SHOWN), guide=guide)

        self.assertEqual(found(DECISIONS), [])
        self.assertEqual(found(DECISIONS.replace("src/sum", "src/add")),
                         ["CONTRIBUTING.md:4: there is no file 'src/add.cpp'"])
        self.assertEqual(found(DECISIONS.replace("::main", "::add")),
                         ["CONTRIBUTING.md:4: 'src/sum.cpp' does not have 'add'"])
        self.assertEqual(found(DECISIONS.replace("`src/sum.cpp`", "src/sum.cpp")),
                         ["CONTRIBUTING.md:4: a row is '| question | `file` | `name` |'"])
        self.assertEqual(len(found("no table")), 1)


if __name__ == "__main__":
    unittest.main()
