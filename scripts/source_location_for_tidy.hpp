// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#ifndef __cpp_lib_source_location
/// Stands in where clang-tidy 14 reads the <source_location> of g++ 12, which is empty for it. Only
/// linted against, never compiled into anything.
namespace std {
struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  [[nodiscard]] constexpr unsigned line() const noexcept { return 0; }
  [[nodiscard]] constexpr unsigned column() const noexcept { return 0; }
  [[nodiscard]] constexpr char const* file_name() const noexcept { return ""; }
  [[nodiscard]] constexpr char const* function_name() const noexcept { return ""; }
};
}  // namespace std
#endif
