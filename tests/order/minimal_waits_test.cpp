// SPDX-License-Identifier: Apache-2.0
#include "order/minimal_waits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace msstream::order {
namespace {

using ::testing::ElementsAre;

/// The positions {i, 1} of streams i = 0, 1, …. The vector clock of each position covers the
/// position itself and the positions of the streams in `covers[i]`.
struct Case {
  std::vector<Position> needed;
  std::vector<VectorClock> brought;

  explicit Case(std::vector<std::vector<StreamIndex>> const& covers) {
    for (StreamIndex i = 0; i < covers.size(); ++i) {
      needed.push_back({i, 1});
      brought.emplace_back().raise({i, 1});
      for (StreamIndex const other : covers[i]) {
        brought.back().raise({other, 1});
      }
    }
  }

  [[nodiscard]] std::vector<StreamIndex> order() const {
    auto sorted = needed;
    put_uncovered_first(sorted, brought);
    std::vector<StreamIndex> streams;
    for (auto const& position : sorted) {
      streams.push_back(position.stream);
    }
    return streams;
  }
  /// Returns the streams that are waited for when the positions are visited front to back and every
  /// position that earlier waits cover is skipped.
  [[nodiscard]] std::vector<StreamIndex> waits() const {
    VectorClock clock;
    std::vector<StreamIndex> issued;
    for (StreamIndex const stream : order()) {
      if (!clock.covers({stream, 1})) {
        issued.push_back(stream);
        clock.merge(brought[stream]);
      }
    }
    return issued;
  }
  /// Returns the smallest number of waits that covers all positions, found by trying every subset.
  [[nodiscard]] std::size_t fewest_waits() const {
    std::size_t fewest = needed.size();
    for (std::uint32_t subset = 0; subset < (1U << needed.size()); ++subset) {
      VectorClock clock;
      for (std::size_t i = 0; i < needed.size(); ++i) {
        if (((subset >> i) & 1U) != 0) {
          clock.merge(brought[i]);
        }
      }
      bool const enough = std::all_of(needed.begin(), needed.end(), [&](auto const& position) {
        return clock.covers(position);
      });
      if (enough) {
        fewest = std::min(fewest, static_cast<std::size_t>(std::popcount(subset)));
      }
    }
    return fewest;
  }
};

TEST(MinimalWaits, keeps_the_order_when_nothing_is_covered) {
  EXPECT_THAT(Case({}).order(), ElementsAre());
  EXPECT_THAT(Case({{}, {}, {}}).order(), ElementsAre(0, 1, 2));
}

TEST(MinimalWaits, puts_the_end_of_a_chain_first) {
  Case const chain({{}, {0}, {0, 1}});
  EXPECT_THAT(chain.waits(), ElementsAre(2));
}

TEST(MinimalWaits, waits_for_both_tips_of_a_fork) {
  Case const fork({{}, {0}, {0}});
  EXPECT_THAT(fork.waits(), ElementsAre(1, 2));
}

TEST(MinimalWaits, keeps_one_of_two_late_events_that_cover_each_other) {
  EXPECT_EQ(Case({{1}, {0}}).waits().size(), 1U);
  EXPECT_EQ(Case({{1, 2}, {0, 2}, {0, 1}}).waits().size(), 1U);
}

TEST(MinimalWaits, are_the_fewest_whenever_events_are_as_early_as_their_positions) {
  // Draws cases in which coverage is a partial order: a clock that covers a position covers
  // everything that the clock of that position covers.
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::size_t const count = random() % 9 + 1;
    std::vector<std::vector<StreamIndex>> covers(count);
    std::vector<StreamIndex> places(count);
    for (StreamIndex i = 0; i < count; ++i) {
      places[i] = i;
    }
    std::shuffle(places.begin(), places.end(), random);
    for (std::size_t later = 0; later < count; ++later) {
      auto& mine = covers[places[later]];
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (random() % 4 == 0) {
          auto const& its = covers[places[earlier]];
          mine.push_back(places[earlier]);
          mine.insert(mine.end(), its.begin(), its.end());
        }
      }
    }
    Case const partial_order(covers);
    ASSERT_EQ(partial_order.waits().size(), partial_order.fewest_waits()) << "round " << round;
  }
}

TEST(MinimalWaits, keep_every_position_whatever_covers_what) {
  std::mt19937 random(12);
  for (int round = 0; round < 3000; ++round) {
    std::size_t const count = random() % 24 + 1;
    std::vector<std::vector<StreamIndex>> covers(count);
    for (auto& mine : covers) {
      for (StreamIndex other = 0; other < count; ++other) {
        if (random() % count == 0) {
          mine.push_back(other);
        }
      }
    }
    auto order = Case(covers).order();
    std::sort(order.begin(), order.end());
    for (StreamIndex i = 0; i < count; ++i) {
      ASSERT_EQ(order[i], i);
    }
  }
}

}  // namespace
}  // namespace msstream::order
