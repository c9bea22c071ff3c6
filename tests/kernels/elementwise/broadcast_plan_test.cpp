// SPDX-License-Identifier: Apache-2.0
#include "elementwise/broadcast_plan.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using Places = std::vector<std::int64_t>;

Shape shape_of(Places const& extents) {
  return Shape(std::span<std::int64_t const>(extents));
}

/// Returns all shapes up to rank 4 with extents of 1, 2 and 3.
std::vector<Shape> small_shapes() {
  std::vector<Places> all{{}};
  for (std::size_t first = 0, rank = 1; rank <= Shape::kMaxRank; ++rank) {
    auto const last = all.size();
    for (; first < last; ++first) {
      for (std::int64_t const extent : {1, 2, 3}) {
        all.push_back(all[first]);
        all.back().push_back(extent);
      }
    }
  }
  std::vector<Shape> shapes;
  for (auto const& extents : all) {
    shapes.push_back(shape_of(extents));
  }
  return shapes;
}

/// Returns the index of the element of `operand` that NumPy broadcasts to element
/// `place` of `result`.
std::int64_t place_in(Shape const& operand, Shape const& result, std::int64_t place) {
  std::int64_t at = 0;
  std::int64_t stride = 1;
  for (std::size_t back = 0; back < result.rank(); ++back) {
    auto const extent = result[result.rank() - 1 - back];
    auto const index = place % extent;
    place /= extent;
    if (back < operand.rank()) {
      auto const own = operand[operand.rank() - 1 - back];
      at += own == 1 ? 0 : index * stride;
      stride *= own;
    }
  }
  return at;
}

Places walked(BroadcastPlan const& plan, std::int64_t const* strides) {
  Places places;
  for (std::int64_t place = 0; place < plan.count; ++place) {
    auto rest = place;
    std::int64_t at = 0;
    for (int d = plan.rank - 1; d >= 0; --d) {
      at += rest % plan.extents[d] * strides[d];
      rest /= plan.extents[d];
    }
    places.push_back(at);
  }
  return places;
}

TEST(BroadcastPlan, walks_any_two_shapes_as_numpy_does) {
  auto const shapes = small_shapes();
  int broadcast = 0;
  for (auto const& left : shapes) {
    for (auto const& right : shapes) {
      auto const result = broadcast_shape(left, right);
      if (!result) {
        continue;
      }
      ++broadcast;
      auto const plan = plan_broadcast(left, right);
      SCOPED_TRACE(fmt::format("{} and {}", left, right));
      ASSERT_EQ(plan.count, result->count());
      Places lefts;
      Places rights;
      for (std::int64_t place = 0; place < plan.count; ++place) {
        lefts.push_back(place_in(left, *result, place));
        rights.push_back(place_in(right, *result, place));
      }
      ASSERT_EQ(walked(plan, plan.left_strides), lefts);
      ASSERT_EQ(walked(plan, plan.right_strides), rights);
      // The kernels require that both operands have an innermost stride of 0 or 1, and that at
      // least one of these strides is 1.
      auto const inner_left = plan.left_strides[plan.rank - 1];
      auto const inner_right = plan.right_strides[plan.rank - 1];
      ASSERT_TRUE((inner_left | inner_right) == 1) << inner_left << ", " << inner_right;
    }
  }
  EXPECT_GT(broadcast, 1000);
}

TEST(BroadcastPlan, has_as_few_dimensions_as_the_operands_allow) {
  EXPECT_EQ(plan_broadcast({2, 3, 4, 5}, {2, 3, 4, 5}), (BroadcastPlan{1, 120, {120}, {1}, {1}}));
  EXPECT_EQ(plan_broadcast({}, {}), (BroadcastPlan{1, 1, {1}, {1}, {1}}));
  EXPECT_EQ(plan_broadcast({1, 1}, {1}), (BroadcastPlan{1, 1, {1}, {1}, {1}}));
  EXPECT_EQ(plan_broadcast({2, 3}, {}), (BroadcastPlan{1, 6, {6}, {1}, {0}}));
  EXPECT_EQ(plan_broadcast({1, 1, 1}, {2, 3}), (BroadcastPlan{1, 6, {6}, {0}, {1}}));
  // Plans for a row vector, for a column vector, and for a row with a column, which is an outer
  // sum.
  EXPECT_EQ(plan_broadcast({5, 2, 3}, {2, 3}), (BroadcastPlan{2, 30, {5, 6}, {6, 1}, {0, 1}}));
  EXPECT_EQ(plan_broadcast({5, 2, 3}, {5, 1, 1}), (BroadcastPlan{2, 30, {5, 6}, {6, 1}, {1, 0}}));
  EXPECT_EQ(plan_broadcast({5, 1}, {1, 7}), (BroadcastPlan{2, 35, {5, 7}, {1, 0}, {0, 1}}));
  EXPECT_EQ(plan_broadcast({5, 1, 2, 3}, {4, 1, 1}),
            (BroadcastPlan{3, 120, {5, 4, 6}, {6, 0, 1}, {0, 1, 0}}));
}

TEST(BroadcastPlan, of_an_empty_shape_has_no_elements) {
  EXPECT_EQ(plan_broadcast({0, 3}, {1, 3}).count, 0);
  EXPECT_EQ(plan_broadcast({2, 0}, {}).count, 0);
  EXPECT_EQ(broadcast_shape({0, 3}, {1, 3}), (Shape{0, 3}));
}

TEST(BroadcastShape, refuses_extents_that_differ) {
  EXPECT_FALSE(broadcast_shape({2, 3}, {3, 2}).has_value());
  EXPECT_FALSE(broadcast_shape({2, 3}, {2}).has_value());
  EXPECT_FALSE(broadcast_shape({0}, {2}).has_value());
  EXPECT_EQ(broadcast_shape({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
}

/// Returns the sums of the values over the middle axis of a view.
Places summed(Places const& values, AxisView const& view) {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), view.count());
  Places sums(static_cast<std::size_t>(view.outputs()), 0);
  for (std::size_t place = 0; place < values.size(); ++place) {
    auto const at = static_cast<std::int64_t>(place);
    auto const outer = at / (view.axis * view.inner);
    sums.at(static_cast<std::size_t>(outer * view.inner + at % view.inner)) += values[place];
  }
  return sums;
}

TEST(SumToPlan, undoes_every_broadcast_in_at_most_two_reductions) {
  auto const shapes = small_shapes();
  int most = 0;
  for (auto const& from : shapes) {
    for (auto const& to : shapes) {
      if (broadcast_shape(to, from) != from) {
        continue;
      }
      SCOPED_TRACE(fmt::format("{} to {}", from, to));
      Places values(static_cast<std::size_t>(from.count()));
      std::iota(values.begin(), values.end(), 1);
      Places expected(static_cast<std::size_t>(to.count()), 0);
      for (std::int64_t place = 0; place < from.count(); ++place) {
        expected.at(static_cast<std::size_t>(place_in(to, from, place))) += place + 1;
      }
      auto const plan = plan_sum_to(from, to);
      ASSERT_LE(plan.count, 2);
      most = std::max(most, plan.count);
      for (int step = 0; step < plan.count; ++step) {
        values = summed(values, plan.steps[step]);
      }
      ASSERT_EQ(values, expected);
    }
  }
  EXPECT_EQ(most, 2);
}

TEST(SumToPlan, merges_dimensions_and_leaves_out_what_is_not_summed) {
  EXPECT_EQ(plan_sum_to({2, 3}, {2, 3}), SumToPlan{});
  EXPECT_EQ(plan_sum_to({1, 2, 3}, {2, 3}), SumToPlan{});
  EXPECT_EQ(plan_sum_to({2, 3, 4}, {4}), (SumToPlan{1, {{1, 6, 4}}}));
  EXPECT_EQ(plan_sum_to({2, 3, 4}, {2, 1, 1}), (SumToPlan{1, {{2, 12, 1}}}));
  EXPECT_EQ(plan_sum_to({2, 3, 4}, {}), (SumToPlan{1, {{1, 24, 1}}}));
  EXPECT_EQ(plan_sum_to({2, 3, 4, 5}, {3, 1, 5}), (SumToPlan{2, {{6, 4, 5}, {1, 2, 15}}}));
  EXPECT_EQ(plan_sum_to({0, 3}, {1, 3}), (SumToPlan{1, {{1, 0, 3}}}));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
