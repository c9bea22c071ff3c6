#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_places.py."""
import tempfile
import unittest
from pathlib import Path

from check_places import violations

PLACE = "std::source_location issued_at = std::source_location::current()"
ISSUE = f"""
template <class Work>
void issue(char const* name, Work&& work, {PLACE}) {{ detail::issue(name, work, issued_at); }}
"""
GOOD = f"""
namespace msstream::ops {{
Tensor relu(Tensor const& input, {PLACE}) {{
  Tensor output(input.shape());
  issue(
      "relu, issue()",  // not issue() itself
      [=](auto stream) {{ kernels::relu(stream, std::max(input.data(), 0)); }},
      issued_at);
  return output;
}}
Tensor both(Tensor const& input, {PLACE}) {{
  return relu(relu(input, issued_at), issued_at);
}}
class Sum {{
 public:
  void add_part(Tensor const& part, {PLACE}) {{ keep(relu(part, issued_at)); }}
  Tensor relu(Tensor const& part) {{ return part; }}
  void play(Node const& node) {{ node.sum.add_part(relu(node.part), node.issued_at); }}
}};
}}
"""


class CheckPlaces(unittest.TestCase):
    def found(self, header, room="ops"):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in (("tensor/issue.hpp", ISSUE), (f"{room}/header.hpp", header)):
                (root / "include/msstream" / path).parent.mkdir(parents=True, exist_ok=True)
                (root / "include/msstream" / path).write_text(text)
            return list(violations(root))

    def test_a_place_that_is_passed_on_is_fine(self):
        self.assertEqual(self.found(GOOD), [])

    def test_an_operation_without_a_place_is_told_with_its_line(self):
        header = "\nTensor relu(Tensor const& input) {\n  issue(\"relu\", [] {});\n}\n"
        self.assertEqual([line.split(" without")[0] for line in self.found(header)],
                         ["include/msstream/ops/header.hpp:3: issue()"])

    def test_so_is_a_place_that_is_taken_and_not_passed_on(self):
        self.assertEqual(len(self.found(GOOD.replace("      issued_at);", "      {});"))), 1)

    def test_so_is_a_call_within_the_arguments_of_another(self):
        found = self.found(GOOD.replace("relu(relu(input, issued_at), issued_at)", "relu(relu(input), issued_at)"))
        self.assertEqual(len(found), 1)
        self.assertIn("relu() without", found[0])
        self.assertEqual(len(self.found(GOOD.replace("relu(input, issued_at), issued_at", "relu(input, issued_at)"))), 1)

    def test_so_is_a_call_of_a_member(self):
        found = self.found(GOOD.replace(", node.issued_at", ""))
        self.assertEqual(len(found), 1)
        self.assertIn("add_part() without", found[0])

    def test_so_is_a_place_made_up(self):
        found = self.found(GOOD.replace("issue(\n", "auto const place = std::source_location::current();\n  issue(\n"))
        self.assertEqual(len(found), 1)
        self.assertIn("default of a parameter", found[0])

    def test_functions_of_others_need_none(self):
        self.assertEqual(self.found(GOOD + "inline int one() { return kernels::relu(1) + std::relu(2); }\n"), [])
        self.assertEqual(len(self.found(GOOD + "inline int one() { return ops::relu(1) + relu(2); }\n")), 2)

    def test_rooms_with_threads_of_their_own_need_none(self):
        self.assertEqual(self.found("void launch() { issue(\"copy\", [] {}); }\n", room="serve"), [])

    def test_a_tree_without_issue_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(len(list(violations(Path(folder)))), 1)


if __name__ == "__main__":
    unittest.main()
