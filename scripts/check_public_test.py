#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_public.py."""
import tempfile
import unittest
from pathlib import Path

import check_public
from check_public import public_types, violations

HEADER = """
#pragma once
#define UNUSED class Macro {
namespace msstream {
class Later;
enum class Kind : std::uint8_t { one, two };
using Alias = std::vector<Later>;
template <class T>
concept Small = requires(T value) { value.size(); };
/// class Comment { };
struct [[nodiscard]] Options {
  struct Nested {
    int count = 0;
  };
  std::function<void()> log = [] { struct Local {}; };
};
template <class T, class U = std::pair<T, Later>>
class Box final : public Base<T>, private std::vector<U> {
  enum Inner { a };
};
template <>
class Box<int> {
};
inline int function(struct Options const& options) { return options.count; }
union Either {
  int whole;
};
constexpr char kOpen = '{';
namespace detail {
struct Hidden {};
}  // namespace detail
}  // namespace msstream
namespace msstream::ops {
struct Kind {
};
}
namespace msstream::ops::detail {
class Other {};
}
"""


class CheckPublic(unittest.TestCase):
    def found(self, headers):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in headers.items():
                file = Path(folder, "include/msstream", name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return list(violations(folder))

    def test_types_are_those_that_namespaces_of_users_define(self):
        self.assertEqual(public_types(HEADER), {"msstream::Kind", "msstream::Options", "msstream::Box", "msstream::Either",
                                                "msstream::ops::Kind"})

    def test_types_have_a_budget(self):
        types = [f"struct Type{k} {{}};\n" for k in range(check_public.MOST_TYPES)]
        sound = {"a.hpp": "namespace msstream {\n" + "".join(types[1:]) + "}\n", "b.cuh": "namespace msstream { class Last {}; }\n",
                 "base/detail/c.hpp": "struct More {};\n"}
        self.assertEqual(self.found(sound), [])
        problems = self.found({**sound, "base/d.hpp": "enum Another {};\n"})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(f"{check_public.MOST_TYPES + 1} public types; at most {check_public.MOST_TYPES}. The headers with the most: a.hpp ({check_public.MOST_TYPES - 1})", problems[0])

    def test_headers_have_a_budget(self):
        headers = {f"base/h{k}.hpp": "" for k in range(check_public.MOST_HEADERS)}
        self.assertEqual(self.found({**headers, "base/detail/h.hpp": "", "base/page.md": ""}), [])
        self.assertEqual(self.found({**headers, "base/h.cuh": ""}), [f"include/msstream: {check_public.MOST_HEADERS + 1} public headers; at most {check_public.MOST_HEADERS}"])

    def test_rooms_of_trainers_have_a_budget_of_their_own(self):
        headers = {f"metrics/h{k}.hpp": "" for k in range(check_public.MOST_TRAINER_HEADERS)}
        headers |= {f"base/h{k}.hpp": "" for k in range(check_public.MOST_HEADERS)}
        self.assertEqual(self.found(headers), [])
        problems = self.found({**headers, "data/h.hpp": ""})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("41 public headers; at most 40", problems[0])

    def test_rooms_of_trainers_have_a_budget_of_their_own(self):
        headers = {f"metrics/h{k}.hpp": "" for k in range(check_public.MOST_TRAINER_HEADERS)}
        headers |= {f"base/h{k}.hpp": "" for k in range(check_public.MOST_HEADERS)}
        self.assertEqual(self.found(headers), [])
        problems = self.found({**headers, "data/h.hpp": ""})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("41 public headers; at most 40", problems[0])

    def test_no_headers_are_no_success(self):
        self.assertEqual(len(self.found({})), 1)


if __name__ == "__main__":
    unittest.main()
