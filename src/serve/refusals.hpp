// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>

#include <exception>

namespace msstream::serve {

/// The exceptions for queries that are refused. Each is created once and shared by all refused
/// queries, so that a refusal allocates no memory. Thread-safe.
struct Refusals {
  std::exception_ptr queue_full;
  std::exception_ptr displaced;
  std::exception_ptr draining;
  std::exception_ptr no_replica_left;
  std::exception_ptr deadline_exceeded;

  /// Returns the exceptions, which live as long as the program. The first call allocates them.
  [[nodiscard]] static Refusals const& all();
};

/// Returns a Refused exception for a pool without sound replicas. Its message includes the last
/// failure of a replica, unless there is no memory for that.
[[nodiscard]] std::exception_ptr no_replica_left(std::exception_ptr const& last_failure) noexcept;

}  // namespace msstream::serve
