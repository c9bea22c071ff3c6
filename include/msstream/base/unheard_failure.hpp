// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <exception>

namespace msstream {

/// While the guard lives, what the calling thread catches is dropped: a failure that is thrown
/// meanwhile has not been heard, and is thrown to a later caller or written to the log.
class UnheardFailure {
 public:
  UnheardFailure() noexcept { ++depth_; }
  ~UnheardFailure() { --depth_; }
  UnheardFailure(UnheardFailure const&) = delete;
  UnheardFailure& operator=(UnheardFailure const&) = delete;

  /// Whether what is thrown on the calling thread reaches a caller.
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

}  // namespace msstream
