// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>

#include <exception>

namespace msstream::serve {

/// What queries get that are not run. Made once, and shared by all who get it: nothing is allocated
/// when there is no memory, or no time. Thread-safe.
struct Refusals {
  std::exception_ptr queue_full;
  std::exception_ptr displaced;
  std::exception_ptr draining;
  std::exception_ptr no_replica_left;
  std::exception_ptr deadline_exceeded;

  /// They last as long as the program. The first call allocates.
  [[nodiscard]] static Refusals const& all();
};

/// Refused, with what the last replica failed with; without that, where there is no memory for it.
[[nodiscard]] std::exception_ptr no_replica_left(std::exception_ptr const& last_failure) noexcept;

}  // namespace msstream::serve
