// SPDX-License-Identifier: Apache-2.0
#include "shapes/case.hpp"
#include "shapes/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace benchmarks::shapes {
namespace {

using msstream::DType;

constexpr int kOperationCount = static_cast<int>(Operation::deduplicate) + 1;

std::set<Operation> operations_in(std::vector<Case> const& cases) {
  std::set<Operation> operations;
  for (auto const& what : cases) {
    operations.insert(what.operation);
  }
  return operations;
}

Case sum_of(std::int64_t width, std::int64_t length, std::int64_t segments) {
  return {Operation::segment_sum, DType::float32, 64, Skew::even, width, length, segments};
}

TEST(ShapeCases, both_sweeps_have_every_operation_once_a_shape) {
  for (bool const quick : {true, false}) {
    auto const cases = list_cases(quick, std::nullopt);
    EXPECT_EQ(operations_in(cases).size(), static_cast<std::size_t>(kOperationCount));
    std::set<std::string> lines;
    for (auto const& what : cases) {
      EXPECT_TRUE(lines.insert(line_of({what, 1, 1}, 1)).second) << line_of({what, 1, 1}, 1);
      EXPECT_LE(most_bytes_of(what), 3e9);
      EXPECT_EQ(what.segments % kTables, 0);
    }
  }
}

TEST(ShapeCases, the_quick_sweep_is_small_and_part_of_the_whole_in_sizes) {
  auto const quick = list_cases(true, std::nullopt);
  auto const whole = list_cases(false, std::nullopt);
  EXPECT_LE(quick.size(), 260U);
  EXPECT_GE(whole.size(), 10 * quick.size());
  std::set<std::int64_t> widths;
  for (auto const& what : whole) {
    widths.insert(what.width);
  }
  for (auto const& what : quick) {
    EXPECT_TRUE(widths.contains(what.width));
  }
}

TEST(ShapeCases, a_family_has_its_operations_only) {
  std::size_t all = 0;
  for (auto const family : {Family::segment, Family::gradient, Family::update, Family::unique}) {
    auto const cases = list_cases(false, family);
    EXPECT_TRUE(std::all_of(cases.begin(), cases.end(), [&](Case const& what) {
      return family_of(what.operation) == family;
    }));
    all += cases.size();
  }
  EXPECT_EQ(all, list_cases(false, std::nullopt).size());
}

TEST(ShapeCases, bytes_are_those_that_must_move) {
  EXPECT_EQ(bytes_of(sum_of(4, 3, 8), {}), (24 + 8) * 16 + 9 * 8);
  auto what = sum_of(4, 3, 8);
  what.dtype = DType::bfloat16;
  what.operation = Operation::row_gradients;
  EXPECT_EQ(bytes_of(what, {20, 80}), 24 * (8 + 16) + 80 * 4);
  what.operation = Operation::update_adam;
  EXPECT_EQ(bytes_of(what, {20, 80}), 24 * 8 + 8 * 8 + 2 * 20 * (8 + 32));
  // A batch of one sample; every second of eight tables has one column instead of four.
  what.operation = Operation::mixed_tables_gradient;
  EXPECT_EQ(bytes_of(what, {20, 50}), 24 * 8 + (4 * 4 + 4) * 2 + 50 * 4 + 20 * 8);
}

TEST(SegmentStarts, ascend_from_zero_to_all_rows) {
  for (auto const skew : {Skew::even, Skew::power_law, Skew::half}) {
    for (std::int64_t const rows : {8, 100, 8000}) {
      auto const starts = segment_starts(skew, 8, rows);
      ASSERT_EQ(starts.size(), 9U);
      EXPECT_EQ(starts.front(), 0);
      EXPECT_EQ(starts.back(), rows);
      EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
    }
  }
}

TEST(SegmentStarts, skews_decide_the_longest_segment) {
  auto const longest = [](Skew skew) {
    auto const starts = segment_starts(skew, 1000, 100'000);
    std::vector<std::int64_t> lengths(starts.size());
    std::adjacent_difference(starts.begin(), starts.end(), lengths.begin());
    return *std::max_element(lengths.begin(), lengths.end());
  };
  EXPECT_EQ(longest(Skew::even), 100);
  EXPECT_NEAR(static_cast<double>(longest(Skew::half)), 50'000, 1);
  EXPECT_GT(longest(Skew::power_law), 10'000);
  EXPECT_LT(longest(Skew::power_law), 50'000);
}

/// A line of widths whose slowness is 1, but for one width.
std::vector<Measured> line_with(std::int64_t slow_width, double slowness) {
  std::vector<Measured> all{{sum_of(1, 1, 1), 5, 1}};  // the least time of the operation
  for (std::int64_t const width : {16, 32, 33, 64}) {
    auto const what = sum_of(width, 100, 4096);
    double const bytes = bytes_of(what, {});
    double const expected_us = 5 + bytes / 4e6;
    all.push_back({what, expected_us * (width == slow_width ? slowness : 1), bytes});
  }
  return all;
}

TEST(Outliers, are_slower_than_both_neighbours) {
  auto const all = line_with(33, 1.5);
  auto const found = find_outliers(all, slowness(all, 4000));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(all[found[0].index].what.width, 33);
  EXPECT_EQ(found[0].along, "width");
  EXPECT_NEAR(found[0].ratio, 1.5, 1e-6);
}

TEST(Outliers, at_an_end_have_one_neighbour) {
  auto const all = line_with(64, 1.4);
  auto const found = find_outliers(all, slowness(all, 4000));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(all[found[0].index].what.width, 64);
}

TEST(Outliers, need_the_whole_ratio) {
  auto const all = line_with(33, 1.25);
  EXPECT_TRUE(find_outliers(all, slowness(all, 4000)).empty());
}

TEST(Outliers, of_a_slow_stretch_are_none_inside_it) {
  auto all = line_with(33, 1.5);
  all[2].us *= 1.5;  // width 32, beside 33
  EXPECT_TRUE(find_outliers(all, slowness(all, 4000)).empty());
}

TEST(Summary, names_the_outlier_and_the_median_ratio_to_cub) {
  auto all = line_with(33, 1.5);
  all[0].cub_us = 10;
  auto const text = summary_of(all, 4000);
  EXPECT_NE(text.find("1 outliers"), std::string::npos) << text;
  EXPECT_NE(text.find("1.50x along width"), std::string::npos) << text;
  EXPECT_NE(text.find("2.00\n"), std::string::npos) << text;
  auto const csv = csv_of(all, 4000);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_NE(csv.find(",width,1.50\n"), std::string::npos) << csv;
  EXPECT_NE(summary_of({}, 4000).find("no shape"), std::string::npos);
}

}  // namespace
}  // namespace benchmarks::shapes
