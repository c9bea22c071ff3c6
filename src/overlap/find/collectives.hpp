// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/program.hpp"

#include <span>
#include <string>
#include <vector>

namespace msstream::overlap {

/// Which activities are collectives, and how long each of them waited for other ranks.
///
/// With the recordings of several ranks, a collective waits until the last rank has begun it.
/// With one rank alone, a collective that takes longer than equal ones waited for the difference.
class Collectives {
 public:
  explicit Collectives(Program const& program);

  [[nodiscard]] bool is_one(Index activity) const { return is_one_[activity]; }
  /// Whether two collectives are of one communicator, which runs them in order.
  [[nodiscard]] bool same_group(Index first, Index second) const;
  /// Whether two collectives do one thing, such as reducing: by what the recording says of them, or
  /// by their kernels.
  [[nodiscard]] bool same_kind(Index first, Index second) const;
  /// Whether a collective has many times the bytes of another one. Without bytes, many times its
  /// time.
  [[nodiscard]] bool is_many_times(Index large, Index small) const;
  /// The time from the begin of a collective that it waited for other ranks.
  [[nodiscard]] Ns waited(Index activity) const { return waited_.empty() ? 0 : waited_[activity]; }
  /// The rank, as a place among the recordings, for which a collective waited: the last one to
  /// begin it. kNone if one recording alone tells that it waited.
  [[nodiscard]] Index waited_for(Index activity) const {
    return last_.empty() ? kNone : last_[activity];
  }
  /// Says until when a collective waited for other ranks, and for which of them, by the recordings
  /// of all of them.
  void set_waited(Index activity, Ns waited, Index rank);

 private:
  void compare_equal_ones();

  Program const& program_;
  std::vector<bool> is_one_;
  std::vector<Ns> waited_;   ///< empty without collectives
  std::vector<Index> last_;  ///< empty without the recordings of other ranks
};

/// Finds by the recordings of several ranks how long each collective waited, for all of them, and
/// returns in sentences what cannot be told.
[[nodiscard]] std::vector<std::string> align(std::span<Recording const> ranks,
                                             std::span<Collectives> collectives);

}  // namespace msstream::overlap
