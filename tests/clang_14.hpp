// SPDX-License-Identifier: Apache-2.0
#pragma once

// This header is included before everything else when clang 14 compiles. It supplies features of
// g++ 12 that clang 14 spells differently.
#include <source_location>

#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif

// Clang 14 lacks the builtin from which the header of g++ makes std::source_location, but has
// builtins for its parts.
#ifndef __cpp_lib_source_location
#define MSSTREAM_SOURCE_LOCATION 1
namespace std {
struct source_location {
  static constexpr source_location current(char const* file = __builtin_FILE(),
                                           char const* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE(),
                                           unsigned column = __builtin_COLUMN()) noexcept {
    return {file, function, line, column};
  }
  [[nodiscard]] constexpr unsigned line() const noexcept { return line_; }
  [[nodiscard]] constexpr unsigned column() const noexcept { return column_; }
  [[nodiscard]] constexpr char const* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr char const* function_name() const noexcept { return function_; }

  char const* file_ = "";
  char const* function_ = "";
  unsigned line_ = 0;
  unsigned column_ = 0;
};
}  // namespace std
#endif
