// SPDX-License-Identifier: Apache-2.0
#include "serve/refusals.hpp"

#include <fmt/core.h>

namespace msstream::serve {

namespace {

std::exception_ptr refused(Refused::Reason reason, char const* message) {
  return std::make_exception_ptr(Refused(reason, message));
}

}  // namespace

Refusals const& Refusals::all() {
  using Reason = Refused::Reason;
  // The exceptions are never destroyed, because futures that hold them may outlive all other
  // objects.
  static auto const* const made = new Refusals{
      .queue_full = refused(Reason::queue_full,
                            "serve: refused, as many queries are waiting as queue_capacity allows"),
      .displaced = refused(Reason::queue_full,
                           "serve: refused, its place in the full queue went to a query of higher "
                           "priority"),
      .draining = refused(Reason::draining, "serve: refused, the pool is draining"),
      .no_replica_left = refused(Reason::no_replica_left, "serve: refused, no replica is left"),
      .deadline_exceeded = std::make_exception_ptr(
          DeadlineExceeded("serve: the query's deadline passed before it could be launched"))};
  return *made;
}

std::exception_ptr no_replica_left(std::exception_ptr const& last_failure) noexcept {
  try {
    std::rethrow_exception(last_failure);
  } catch (std::exception const& error) {
    try {
      return std::make_exception_ptr(
          Refused(Refused::Reason::no_replica_left,
                  fmt::format("serve: refused, no replica is left; the last failed with: {}",
                              error.what())));
    } catch (...) {
      return Refusals::all().no_replica_left;
    }
  } catch (...) {
    return Refusals::all().no_replica_left;
  }
}

}  // namespace msstream::serve
