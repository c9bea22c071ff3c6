// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>

#include <exception>

namespace msstream::serve {

/// The exceptions for queries that are not run. They are made once and shared by all such queries,
/// so nothing is allocated when there is no memory, or no time. Thread-safe.
struct Refusals {
  std::exception_ptr queue_full;
  std::exception_ptr displaced;
  std::exception_ptr draining;
  std::exception_ptr no_replica_left;
  std::exception_ptr deadline_exceeded;

  /// Returns the exceptions, which live as long as the program. The first call allocates.
  [[nodiscard]] static Refusals const& all();
};

/// Returns a Refused that includes the message of the last replica's failure, or one without it if
/// there is no memory.
[[nodiscard]] std::exception_ptr no_replica_left(std::exception_ptr const& last_failure) noexcept;

}  // namespace msstream::serve
