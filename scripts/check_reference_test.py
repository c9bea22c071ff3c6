#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_reference.py."""
import tempfile
import unittest
from pathlib import Path

from check_reference import public_members, violations

HEADER = """
class Other;
struct Options {
  int number = static_cast<int>(read("NUMBER", 1));  ///< how(many)
  std::function<void(std::string const&)> log = [](std::string const& line) { print(line); };
};
/// A thing { in braces }.
template <Runtime R = DefaultRuntime>
class Thing : public Base<Thing<R>> {
 public:
  using value_type = int;
  explicit Thing(Options const& options = {})
      : options_{options}, size_(options.number) {
    if (size_ > 0) { grow(); }
  }
  template <HasStreams<R> D>
  explicit Thing(D const& device) : Thing(device.options()) {}
  Thing(Thing const&) = delete;
  Thing& operator=(Thing const&) = delete;
  ~Thing() { shrink(); }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::map<int, std::vector<int>> const& sizes() const;
  template <class Visit>
    requires(std::invocable<Visit>)
  void visit(Visit&& visit) { visit(); }
  [[nodiscard]] int& operator[](int index) const { return all_[index]; }
  friend bool operator==(Thing const&, Thing const&) = default;

 private:
  void grow();
  Options options_;
  int size_;
};
"""
PAGE = "# R\n\n## `Thing`\n\n`<msstream/room/thing.hpp>`\n\nText.\n\n| member | |\n| --- | --- |\n"
ROWS = ("| `Thing(options)`, `Thing(device)` | x |\n| `value_type` | |\n| `size()`, `sizes()` | x |\n"
        "| `visit(visit)` | |\n| `operator[](index)` | x |\n")


class CheckReference(unittest.TestCase):
    def found(self, page):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in (("docs/reference.md", page), ("include/msstream/room/thing.hpp", HEADER)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(violations(root))

    def test_members_are_those_that_are_public(self):
        self.assertEqual(public_members("Thing", HEADER),
                         {"Thing", "value_type", "size", "sizes", "visit", "operator[]"})
        self.assertEqual(public_members("Options", HEADER), {"number", "log"})
        self.assertIsNone(public_members("Other", HEADER))

    def test_a_page_with_all_of_them_is_right(self):
        self.assertEqual(self.found(PAGE + ROWS), [])

    def test_a_member_without_a_row_is_named(self):
        found = self.found(PAGE + ROWS.replace("| `visit(visit)` | |\n", ""))
        self.assertEqual(len(found), 1)
        self.assertIn("lacks `visit`", found[0])

    def test_a_row_without_a_member_is_named(self):
        found = self.found(PAGE + ROWS + "| `grow()` | |\n")
        self.assertEqual(len(found), 1)
        self.assertIn("`grow`, which is no public member", found[0])

    def test_a_page_without_classes_and_a_class_elsewhere_are_named(self):
        self.assertEqual(len(self.found("# R\n")), 1)
        self.assertIn("does not define Things", self.found(PAGE.replace("`Thing`", "`Things`") + ROWS)[0])


if __name__ == "__main__":
    unittest.main()
