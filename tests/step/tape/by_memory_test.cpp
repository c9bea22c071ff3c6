// SPDX-License-Identifier: Apache-2.0
#include "step/by_memory.hpp"

#include "kernels/kernel_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using detail::ByMemory;
using detail::MemoryRange;

/// Returns the values of the map's entries that overlap `range`, in the order of the map.
std::vector<int> overlaps_of(ByMemory<int> const& map, MemoryRange const& range) {
  std::vector<int> values;
  map.for_each_overlap(range, [&](auto const& entry) { values.push_back(entry.value); });
  return values;
}

TEST(ByMemory, bytes_that_several_ranges_have_count_once) {
  EXPECT_EQ(detail::bytes_of_union({}), 0U);
  EXPECT_EQ(detail::bytes_of_union({{4, 8}, {0, 2}, {6, 9}, {7, 8}, {9, 9}}), 7U);
}

TEST(ByMemory, finds_the_very_range_alone) {
  ByMemory<int> map;
  map.emplace({10, 20}, 1);
  map.emplace({10, 15}, 2);
  EXPECT_EQ(*map.find({10, 20}), 1);
  EXPECT_EQ(*map.find({10, 15}), 2);
  EXPECT_EQ(map.find({15, 20}), nullptr);
  map.clear();
  EXPECT_EQ(map.find({10, 20}), nullptr);
}

TEST(ByMemory, keeps_the_order_of_ranges_that_overlap) {
  ByMemory<int> map;
  map.emplace({10, 20}, 1);
  map.emplace({30, 40}, 2);
  map.emplace({15, 35}, 3);
  map.emplace({20, 30}, 4);
  EXPECT_EQ(overlaps_of(map, {0, 100}), (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(overlaps_of(map, {20, 30}), (std::vector{3, 4}));
  EXPECT_EQ(overlaps_of(map, {40, 100}), std::vector<int>{});
}

TEST(ByMemory, a_range_without_elements_overlaps_itself_alone) {
  ByMemory<int> map;
  map.emplace({10, 20}, 1);
  map.emplace({15, 15}, 2);
  map.emplace({20, 20}, 3);
  EXPECT_EQ(overlaps_of(map, {10, 20}), std::vector{1});
  EXPECT_EQ(overlaps_of(map, {15, 15}), std::vector{2});
  EXPECT_EQ(*map.find({20, 20}), 3);
}

TEST(ByMemory, agrees_with_a_list_on_random_ranges) {
  ops::kernels::testing::Random random;
  ByMemory<int> map;
  std::vector<ByMemory<int>::Entry> entries;
  for (int round = 0; round < 200; ++round) {
    map.clear();
    std::vector<std::pair<MemoryRange, int>> list;
    auto const any_range = [&] {
      auto const begin = static_cast<std::uintptr_t>(random.integer(0, 40));
      return MemoryRange{begin, begin + static_cast<std::uintptr_t>(random.integer(1, 8))};
    };
    for (int i = 0; i < 40; ++i) {
      auto const range = any_range();
      switch (random.integer(0, 3)) {
        case 0: {
          map.take_within(range, entries);
          std::vector<int> taken;
          for (auto const& entry : entries) {
            taken.push_back(entry.value);
          }
          std::vector<int> expected;
          std::erase_if(list, [&](auto const& item) {
            bool const is_within = range.contains(item.first);
            if (is_within) {
              expected.push_back(item.second);
            }
            return is_within;
          });
          std::ranges::sort(taken);  // entries that do not overlap come in any order
          EXPECT_EQ(taken, expected);
          break;
        }
        default:
          if (map.find(range) == nullptr) {
            map.emplace(range, i);
            list.emplace_back(range, i);
          }
      }
      auto const query = any_range();
      bool contains = false;
      std::vector<int> expected;
      for (auto const& [held, value] : list) {
        if (held.overlaps(query) || held == query) {
          expected.push_back(value);
        }
        contains = contains || held.contains(query);
      }
      auto found = overlaps_of(map, query);
      std::ranges::sort(found);
      EXPECT_EQ(found, expected);
      EXPECT_EQ(map.overlaps(query), !expected.empty());
      EXPECT_EQ(map.contains(query), contains);
    }
  }
}

}  // namespace
}  // namespace msstream::testing
