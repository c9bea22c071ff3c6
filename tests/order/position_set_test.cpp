// SPDX-License-Identifier: Apache-2.0
#include "order/positions.hpp"

#include <msstream/order/detail/position_set.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>

namespace msstream::order {

namespace {

using testing::positions;
using ::testing::UnorderedElementsAre;

TEST(Position, says_what_it_is) {
  EXPECT_EQ(to_string(Position{3, 14}), "stream 3 @ 14");
}

TEST(PositionSet, keeps_the_newest_position_of_each_stream) {
  PositionSet set;
  EXPECT_TRUE(set.empty());
  set.add({1, 5});
  set.add({0, 2});
  set.add({1, 9});
  set.add({1, 7});
  EXPECT_THAT(positions(set), UnorderedElementsAre(Position{0, 2}, Position{1, 9}));
}

TEST(PositionSet, removes_by_predicate) {
  PositionSet set;
  for (StreamIndex stream = 0; stream < 10; ++stream) {
    set.add({stream, stream + std::uint64_t{1}});
  }
  set.remove_if([](Position const& position) { return position.stream % 3 != 0; });
  EXPECT_THAT(
      positions(set),
      UnorderedElementsAre(Position{0, 1}, Position{3, 4}, Position{6, 7}, Position{9, 10}));
  set.remove_if([](Position const&) { return true; });
  EXPECT_TRUE(set.empty());
  set.add({2, 1});
  EXPECT_EQ(set.size(), 1U);
}

TEST(PositionSet, is_a_map_from_stream_to_newest_number) {
  std::mt19937 random(5);
  PositionSet set;
  std::map<StreamIndex, std::uint64_t> expected;
  for (int step = 0; step < 10'000; ++step) {
    Position const position{static_cast<StreamIndex>(random() % 12), random() % 1000 + 1};
    set.add(position);
    auto& newest = expected[position.stream];
    newest = std::max(newest, position.number);
    if (random() % 100 == 0) {
      StreamIndex const gone = random() % 12;
      set.remove_if([&](Position const& held) { return held.stream == gone; });
      expected.erase(gone);
    }
    ASSERT_EQ(set.size(), expected.size());
    for (auto const& held : set) {
      ASSERT_EQ(held.number, expected.at(held.stream));
    }
  }
}

}  // namespace
}  // namespace msstream::order
