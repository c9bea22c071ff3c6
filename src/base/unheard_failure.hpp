// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <exception>

namespace msstream::detail {

/// A guard for code that drops every exception it catches. A failure of work on a stream that is
/// thrown on the calling thread while the guard lives still counts as unreported: it is thrown
/// again to a later caller, or written to the log.
class UnheardFailure {
 public:
  UnheardFailure() noexcept { ++depth_; }
  ~UnheardFailure() { --depth_; }
  UnheardFailure(UnheardFailure const&) = delete;
  UnheardFailure& operator=(UnheardFailure const&) = delete;

  /// Returns whether an exception thrown on the calling thread reaches a caller.
  [[nodiscard]] static bool is_heard() noexcept { return depth_ == 0; }
  /// Writes a failure that no call has thrown to the standard error stream.
  static void log(char const* where, std::exception_ptr const& failure) noexcept {
    try {
      std::rethrow_exception(failure);
    } catch (std::exception const& error) {
      print(where, error.what());
    } catch (...) {
      print(where, "an exception that is no std::exception");
    }
  }

 private:
  static void print(char const* where, char const* what) noexcept {
    std::fprintf(stderr, "msstream: %s failed, and no call has waited for it: %s\n", where, what);
  }

  static inline constinit thread_local int depth_ = 0;
};

}  // namespace msstream::detail
