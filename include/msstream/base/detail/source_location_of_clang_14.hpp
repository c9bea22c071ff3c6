// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Lets clang 14 and 15 compile programs that use msstream: they lack the builtin from which the
/// header of g++ makes std::source_location. Included before everything else (-include) with those
/// compilers, by the CMake target msstream::msstream; empty with all others.
///
/// The class has the binary interface of g++'s, since the library may have been compiled by g++: it
/// is one pointer to a constant. The constants are made at the first call from each place in a
/// source, and kept until the process ends. A later call takes a lock and a look-up.

#include <source_location>

#if defined(__clang__) && !defined(__cpp_lib_source_location) && !defined(MSSTREAM_SOURCE_LOCATION)
#define MSSTREAM_SOURCE_LOCATION 1

#include <map>
#include <mutex>
#include <tuple>

namespace std {

class source_location {
 public:
  static source_location current(char const* file = __builtin_FILE(),
                                 char const* function = __builtin_FUNCTION(),
                                 unsigned line = __builtin_LINE(),
                                 unsigned column = __builtin_COLUMN()) {
    using Key = tuple<char const*, char const*, unsigned, unsigned>;
    // The map is never destroyed, since locations are used until the end of the process.
    static auto& places = *new map<Key, Place>();
    static mutex& guard = *new mutex();
    lock_guard const lock(guard);
    auto const [found, is_new] = places.try_emplace(Key{file, function, line, column});
    if (is_new) {
      found->second = {file, function, line, column};
    }
    source_location location;
    location.place_ = &found->second;
    return location;
  }

  constexpr source_location() noexcept = default;

  [[nodiscard]] unsigned line() const noexcept { return place_ == nullptr ? 0 : place_->line; }
  [[nodiscard]] unsigned column() const noexcept { return place_ == nullptr ? 0 : place_->column; }
  [[nodiscard]] char const* file_name() const noexcept {
    return place_ == nullptr ? "" : place_->file;
  }
  [[nodiscard]] char const* function_name() const noexcept {
    return place_ == nullptr ? "" : place_->function;
  }

 private:
  /// Has the members of g++'s std::source_location::__impl, in their order.
  struct Place {
    char const* file;
    char const* function;
    unsigned line;
    unsigned column;
  };

  Place const* place_ = nullptr;
};

}  // namespace std
#endif
