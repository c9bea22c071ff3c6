// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#ifndef __cpp_lib_source_location
#define MSSTREAM_SOURCE_LOCATION 1
/// A replacement for std::source_location, since clang-tidy 14 finds nothing in the
/// <source_location> of g++ 12. Used for linting only, and never compiled into a program.
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
