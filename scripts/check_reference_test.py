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


OPS = """namespace msstream::ops {
Floats add(Floats const& a, std::source_location issued_at = std::source_location::current());
Floats add_gradient(Floats const& a, std::source_location issued_at = std::source_location::current());
int count_of(Floats const& a);
}
"""
TABLE = "# Ops\n\n## Which header has what\n\n| header | operations |\n| --- | --- |\n| `sums.hpp` | `add` |\n\n## More\n"


class CheckReference(unittest.TestCase):
    def found(self, page, files=None):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {"docs/reference.md": page, "include/msstream/room/thing.hpp": HEADER,
                               "docs/ops.md": TABLE, "include/msstream/ops/sums.hpp": OPS, "docs/state.md": "# State\n",
                               **(files or {})}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(violations(root))

    def test_operations_are_in_the_row_of_their_header(self):
        page = PAGE + ROWS
        self.assertEqual(self.found(page), [])
        self.assertEqual(self.found(page, {"docs/ops.md": TABLE.replace("`add`", "`sub`")}),
                         ["docs/ops.md: the row of sums.hpp lacks `add`",
                          "docs/ops.md: the row of sums.hpp has `sub`, which it does not declare"])
        self.assertEqual(self.found(page, {"docs/ops.md": TABLE.replace("| `sums.hpp`", "| `none.hpp` | `x` |\n| `sums.hpp`")}),
                         ["docs/ops.md: there is no header none.hpp"])
        self.assertEqual(self.found(page, {"docs/ops.md": "# Ops\n"}), ["docs/ops.md: the row of sums.hpp lacks `add`"])

    def test_operations_with_a_tape_alone_are_named_on_the_page(self):
        files = {"include/msstream/step/differentiable/loss.hpp": OPS.replace("add", "mse_loss")}
        wrong = "docs/ops.md: it does not name `mse_loss` of include/msstream/step/differentiable/loss.hpp"
        self.assertEqual(self.found(PAGE + ROWS, files), [wrong])
        self.assertEqual(self.found(PAGE + ROWS, {**files, "docs/ops.md": TABLE + "`mse_loss(tape)`\n"}), [])

    def test_variables_of_threads_and_of_the_environment_are_named(self):
        files = {"src/room/thing.cpp": "// thread_local int comment;\nthread_local int depth_ = 0;\n"
                                       "static inline thread_local constinit Known seen[kSeen] = {};\n"
                                       "thread_local std::vector<int> all;\nthread_local Entry* innermost_{};\n",
                 "kernels/room/thing.cu": 'env::flag("MSSTREAM_THING", false);'}
        where = "docs/state.md: it does not name"
        self.assertEqual(self.found(PAGE + ROWS, files), [
            *(f"{where} `{name}` of src/room/thing.cpp" for name in ("all", "depth_", "innermost_", "seen")),
            f"{where} `MSSTREAM_THING` of kernels/room/thing.cu"])
        page = "`depth_`, `seen`, `all`, `A::innermost_` and `MSSTREAM_THING`\n"
        self.assertEqual(self.found(PAGE + ROWS, {**files, "docs/state.md": page}), [])

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
