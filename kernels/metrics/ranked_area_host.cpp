// SPDX-License-Identifier: Apache-2.0
#include "metrics/ranked_area.hpp"
#include "metrics/ranked_area_math.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace msstream::ops::kernels {
namespace {

__extension__ using Wide = unsigned __int128;

/// The pairs of examples of one group, whose examples are at [begin, end) of the order.
struct AreaOfGroup {
  Wide twice_won = 0;
  ClassWeights weights{0, 0};
};

AreaOfGroup area_of_group(RankedAreaArgs const& args,
                          unsigned const* places,
                          std::int64_t begin,
                          std::int64_t end) {
  AreaOfGroup area;
  for (auto tied = begin; tied < end;) {
    auto const bits = ordered_bits(args.scores[places[tied]]);
    ClassWeights of_ties{0, 0};
    for (; tied < end && ordered_bits(args.scores[places[tied]]) == bits; ++tied) {
      auto& sum = args.labels[places[tied]] != 0 ? of_ties.positive : of_ties.negative;
      sum += counted_weight(args, places[tied]);
    }
    area.twice_won += Wide{of_ties.positive} * (2 * area.weights.negative + of_ties.negative);
    area.weights.positive += of_ties.positive;
    area.weights.negative += of_ties.negative;
  }
  return area;
}

}  // namespace

std::size_t ranked_area_workspace_bytes(std::int64_t count, bool has_groups) {
  return RankedAreaWorkspace(nullptr, count, has_groups).bytes;
}

void ranked_area(HostStream stream, RankedAreaArgs const& args) {
  stream.run([args] {
    auto* const places =
        RankedAreaWorkspace(args.workspace, args.count, args.groups != nullptr).places[0];
    for (std::int64_t i = 0; i < args.count; ++i) {
      places[i] = static_cast<unsigned>(i);
    }
    auto const group_of = [&](unsigned place) {
      return args.groups != nullptr ? args.groups[place] : 0;
    };
    std::sort(places, places + args.count, [&](unsigned a, unsigned b) {
      return std::pair(group_of(a), ordered_bits(args.scores[a])) <
             std::pair(group_of(b), ordered_bits(args.scores[b]));
    });
    std::fill_n(args.result, static_cast<int>(kRankedAreaWords), 0);
    for (std::int64_t begin = 0; begin < args.count;) {
      auto end = begin + 1;
      while (end < args.count && group_of(places[end]) == group_of(places[begin])) {
        ++end;
      }
      auto const area = area_of_group(args, places, begin, end);
      if (args.groups == nullptr) {
        for (int d = 0; d < 4; ++d) {
          args.result[kTwiceWon + d] =
              static_cast<std::uint64_t>(area.twice_won >> (32U * static_cast<unsigned>(d))) &
              0xFFFFFFFFU;
        }
        args.result[kPositiveWeight] = area.weights.positive;
        args.result[kNegativeWeight] = area.weights.negative;
      } else if (area.weights.positive > 0 && area.weights.negative > 0) {
        FixedSum term;
        term.add(group_term(static_cast<std::uint64_t>(area.twice_won), area.weights));
        for (int d = 0; d < 3; ++d) {
          args.result[kGroupAreas + d] += term.digits[d];
        }
        args.result[kGroupExamples] += area.weights.positive + area.weights.negative;
        ++args.result[kGroupsCounted];
      }
      begin = end;
    }
  });
}

}  // namespace msstream::ops::kernels
