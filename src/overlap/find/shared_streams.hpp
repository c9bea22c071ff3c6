// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/host.hpp"
#include "overlap/find/program.hpp"

#include <set>
#include <tuple>

namespace msstream::overlap {

/// Finds the streams into which two threads issue work of their own, such as those of a pool that
/// hands out one stream twice.
class SharedStreams {
 public:
  SharedStreams(Program const& program, Host const& host);

  /// Whether there is any such stream.
  [[nodiscard]] bool any() const noexcept { return !apart_.empty(); }
  /// Returns whether two activities of one stream are of threads that need nothing of each other:
  /// each goes on with its own calls, or waits for its own work, while the other one issues. A
  /// thread that hands work over makes no calls meanwhile.
  [[nodiscard]] bool are_apart(Index first, Index second) const;

 private:
  Program const& program_;
  std::set<std::tuple<Index, Index, Index>> apart_;  ///< streams, with the threads in order
};

}  // namespace msstream::overlap
