// SPDX-License-Identifier: Apache-2.0
#include "runtime/checker/interval_map.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>

namespace msstream::detail {
namespace {

/// A fixture with an IntervalMap and a reference: one value per address, 0 if the map has none.
class IntervalMapTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kAddresses = 24;

  void expect_same(int step) {
    std::array<int, kAddresses> held{};
    map_.for_each([&](Interval place, int value) {
      ASSERT_LT(place.begin, place.end);
      for (auto at = place.begin; at < place.end; ++at) {
        ASSERT_EQ(held.at(at), 0) << "held twice at " << at << " after step " << step;
        held.at(at) = value;
      }
    });
    ASSERT_EQ(held, values_) << "after step " << step;
  }
  /// Expects that for_each_overlap() visits each interval that overlaps `range` once, and no other
  /// interval.
  void expect_overlaps(Interval range, int step) {
    std::array<int, kAddresses> seen{};
    map_.for_each_overlap(range, [&](Interval place, int value) {
      EXPECT_TRUE(place.begin < range.end && range.begin < place.end);
      for (auto at = place.begin; at < place.end; ++at) {
        seen.at(at) += value;
      }
    });
    for (auto at = range.begin; at < range.end; ++at) {
      ASSERT_EQ(seen.at(at), values_.at(at)) << "at " << at << " of step " << step;
    }
  }
  template <class Change>
  void change(Interval range, Change&& change_one) {
    for (auto at = range.begin; at < range.end; ++at) {
      change_one(values_.at(at));
    }
  }

  IntervalMap<int> map_;
  std::array<int, kAddresses> values_{};
};

TEST_F(IntervalMapTest, holds_what_an_array_of_addresses_would) {
  std::mt19937 random(20240229);
  for (int step = 1; step <= 20'000; ++step) {
    auto const begin = random() % kAddresses;
    Interval const range{begin, begin + 1 + random() % (kAddresses - begin)};
    switch (random() % 4) {
      case 0:
        map_.assign(range, step);
        change(range, [&](int& value) { value = step; });
        break;
      case 1:
        map_.erase(range);
        change(range, [](int& value) { value = 0; });
        break;
      case 2:
        map_.cut(range);
        map_.fill_gaps(range, step);
        change(range, [&](int& value) { value = value == 0 ? step : value; });
        break;
      default:
        map_.cut(range);
        map_.for_each_overlap(range, [](Interval, int& value) { ++value; });
        change(range, [](int& value) { value += value == 0 ? 0 : 1; });
    }
    expect_same(step);
    expect_overlaps(range, step);
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_F(IntervalMapTest, knows_a_range_that_it_holds_as_one) {
  map_.assign({4, 8}, 1);
  ASSERT_NE(map_.exact({4, 8}), nullptr);
  EXPECT_EQ(*map_.exact({4, 8}), 1);
  EXPECT_EQ(map_.exact({4, 7}), nullptr);
  EXPECT_EQ(map_.exact({5, 8}), nullptr);
  EXPECT_EQ(map_.exact({3, 8}), nullptr);
  map_.cut({5, 6});
  EXPECT_EQ(map_.exact({4, 8}), nullptr);
  EXPECT_EQ(map_.count(), 3U);
}

TEST_F(IntervalMapTest, an_empty_range_holds_nothing) {
  map_.assign({4, 4}, 1);
  map_.fill_gaps({4, 4}, 1);
  EXPECT_EQ(map_.count(), 0U);
  map_.assign({2, 6}, 1);
  map_.erase({4, 4});
  values_ = {0, 0, 1, 1, 1, 1};
  expect_same(0);
}

}  // namespace
}  // namespace msstream::detail
