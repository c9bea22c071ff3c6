// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <cstdint>
#include <string>

namespace msstream {

/// The numbers of waits of operations for work on other streams. needed: waits that the hazards
/// require; issued: waits passed to the runtime; elided: waits whose order is known to hold
/// already. needed = issued + elided.
struct WaitCounts {
  std::uint64_t needed = 0;  ///< issued + elided
  std::uint64_t issued = 0;  ///< passed to the runtime
  std::uint64_t elided = 0;  ///< known to hold already

  /// Adds each count of `other`.
  WaitCounts& operator+=(WaitCounts const& other) {
    needed += other.needed;
    issued += other.issued;
    elided += other.elided;
    return *this;
  }
  friend bool operator==(WaitCounts const&, WaitCounts const&) = default;
};

/// Returns all counts in a line.
[[nodiscard]] std::string to_string(WaitCounts const& counts);

}  // namespace msstream
