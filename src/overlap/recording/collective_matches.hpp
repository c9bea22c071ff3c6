// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace msstream::overlap {

/// The part of one rank in a collective.
struct CollectivePart {
  std::size_t rank = 0;  ///< a place among the recordings
  Index activity = kNone;
};

/// One collective of a communicator, with its parts by rank: two or more.
struct MatchedCollective {
  std::vector<CollectivePart> parts;
  bool by_order = false;  ///< without sequence numbers
};

struct CollectiveMatches {
  std::vector<MatchedCollective> collectives;
  std::vector<std::string> doubts;  ///< why those of a communicator have no match: sentences
};

/// Finds which collectives of several ranks' recordings are one.
///
/// A communicator is the process group that the library names, with its members where they are
/// recorded; without a name, the first stream with such collectives of each rank, the second one,
/// and so on. Collectives with sequence numbers match by number. Others match by their order on the
/// communicator, if all ranks have the same kinds with the same bytes in the same order; otherwise
/// those of the communicator stay without a match, and a doubt says so.
[[nodiscard]] CollectiveMatches match_collectives(std::span<Recording const> ranks);

}  // namespace msstream::overlap
