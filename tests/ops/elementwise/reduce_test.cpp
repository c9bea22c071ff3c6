// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/reduce.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace msstream::testing {
namespace {

using Combine = std::function<double(double, double)>;

/// Reduces a tensor along `dimension` in double, one element after the other.
Doubles reduced_along(Floats const& values,
                      Shape const& shape,
                      std::size_t dimension,
                      Combine combine) {
  std::size_t inner = 1;
  for (std::size_t d = dimension + 1; d < shape.rank(); ++d) {
    inner *= static_cast<std::size_t>(shape[d]);
  }
  auto const axis = static_cast<std::size_t>(shape[dimension]);
  Doubles out;
  for (std::size_t outer = 0; outer * axis * inner < values.size(); ++outer) {
    for (std::size_t i = 0; i < inner; ++i) {
      double total = values[outer * axis * inner + i];
      for (std::size_t a = 1; a < axis; ++a) {
        total = combine(total, values[(outer * axis + a) * inner + i]);
      }
      out.push_back(total);
    }
  }
  return out;
}

template <class R>
class ReduceTest : public OpsTest<R> {};
TYPED_TEST_SUITE(ReduceTest, Runtimes, RuntimeNames);

TYPED_TEST(ReduceTest, every_axis_of_every_rank_agrees_with_double) {
  for (auto const& shape : {Shape{7}, Shape{3, 50}, Shape{4, 5, 6}, Shape{2, 3, 4, 5}}) {
    auto const values = this->random.reals(shape.count());
    auto const x = this->put(values, shape);
    auto const rank = static_cast<std::int64_t>(shape.rank());
    for (std::int64_t axis = -rank; axis < rank; ++axis) {
      auto const dimension = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
      SCOPED_TRACE(fmt::format("{} along {}", shape, axis));
      auto const sums = reduced_along(values, shape, dimension, std::plus());
      expect_near(to_host(ops::sum(x, axis)), sums);
      auto means = sums;
      for (auto& mean : means) {
        mean /= static_cast<double>(shape[dimension]);
      }
      expect_near(to_host(ops::mean(x, axis)), means);
      expect_near(to_host(ops::max(x, axis)),
                  reduced_along(
                      values, shape, dimension, [](double a, double b) { return std::max(a, b); }),
                  0);
      expect_near(to_host(ops::min(x, axis)),
                  reduced_along(
                      values, shape, dimension, [](double a, double b) { return std::min(a, b); }),
                  0);
    }
  }
}

TYPED_TEST(ReduceTest, the_dimension_goes_or_stays_with_extent_one) {
  auto const x = this->random_tensor({2, 3, 4});
  ops::ReduceOptions const kept{.keep_dimension = true};
  EXPECT_EQ(ops::sum(x, 0).shape(), (Shape{3, 4}));
  EXPECT_EQ(ops::mean(x, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(ops::max(x, -1).shape(), (Shape{2, 3}));
  EXPECT_EQ(ops::min(this->random_tensor({5}), 0).shape(), Shape());
  EXPECT_EQ(ops::sum(x, 0, kept).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(ops::mean(x, -2, kept).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(ops::max(x, 2, kept).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(to_host(ops::min(x, 1, kept)), to_host(ops::min(x, 1)));
}

TYPED_TEST(ReduceTest, a_sum_over_nothing_is_zero) {
  EXPECT_EQ(to_host(ops::sum(this->any({2, 0, 3}), 1)), Floats(6, 0.0F));
  EXPECT_EQ(to_host(ops::sum(this->any({2, 0}), 1)), Floats(2, 0.0F));
  EXPECT_TRUE(to_host(ops::max(this->any({0, 3}), 1)).empty());
}

TYPED_TEST(ReduceTest, sum_to_adds_up_what_a_broadcast_has_repeated) {
  Shape const from{2, 3, 4, 5};
  auto const values = this->random.reals(from.count());
  auto const x = this->put(values, from);
  for (auto const& to : {Shape{},
                         Shape{5},
                         Shape{4, 1},
                         Shape{1, 1, 5},
                         Shape{3, 1, 5},
                         Shape{2, 1, 4, 1},
                         Shape{2, 3, 1, 1},
                         Shape{1, 3, 1, 1}}) {
    SCOPED_TRACE(fmt::format("to {}", to));
    Doubles expected(static_cast<std::size_t>(to.count()), 0.0);
    for (std::size_t place = 0; place < values.size(); ++place) {
      std::size_t rest = place;
      std::size_t at = 0;
      std::size_t stride = 1;
      for (std::size_t back = 0; back < from.rank(); ++back) {
        auto const extent = static_cast<std::size_t>(from[from.rank() - 1 - back]);
        if (back < to.rank() && to[to.rank() - 1 - back] != 1) {
          at += rest % extent * stride;
          stride *= extent;
        }
        rest /= extent;
      }
      expected[at] += -0.5 * values[place];
    }
    auto const sums = ops::sum_to(x, to, -0.5F);
    EXPECT_EQ(sums.shape(), to);
    expect_near(to_host(sums), expected, 5e-6);
  }
}

TYPED_TEST(ReduceTest, sum_to_the_same_extents_is_the_tensor_or_a_multiple) {
  auto const x = this->random_tensor({1, 2, 3});
  EXPECT_EQ(ops::sum_to(x, x.shape()).identity(), x.identity());
  EXPECT_EQ(ops::sum_to(x, {2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(to_host(ops::sum_to(x, {2, 3}, 2.0F)), to_host(ops::scale(x, 2.0F)));
}

TYPED_TEST(ReduceTest, equal_elements_share_the_gradient_of_an_extremum) {
  auto const x = this->put(Floats{1, 3, 3, 2, 2, 2, 0, 5, 1}, {3, 3});
  auto const gradient = this->put(Floats{6, 6, 6});
  EXPECT_EQ(to_host(ops::extremum_gradient(x, ops::max(x, 1), gradient, 1)),
            (Floats{0, 3, 3, 2, 2, 2, 0, 6, 0}));
  EXPECT_EQ(to_host(ops::extremum_gradient(x, ops::min(x, 0), gradient, 0)),
            (Floats{0, 0, 0, 0, 6, 0, 6, 0, 6}));
}

TYPED_TEST(ReduceTest, refuses_axes_and_shapes_that_do_not_fit) {
  auto const x = this->any({2, 3});
  expect_refused([&] { (void)ops::sum(x, 2); }, "sum", "axis 2", "[2, 3]");
  expect_refused([&] { (void)ops::max(x, -3); }, "max", "axis -3", "[2, 3]");
  expect_refused([&] { (void)ops::sum(this->any({}), 0); }, "sum", "axis 0", "[]");
  expect_refused([&] { (void)ops::mean(this->any({2, 0}), 1); }, "mean", "axis 1", "[2, 0]");
  expect_refused([&] { (void)ops::max(this->any({0, 2}), 0); }, "max", "[0, 2]");
  expect_refused([&] { (void)ops::min(this->any({0, 2}), 0); }, "min", "[0, 2]");
  expect_refused([&] { (void)ops::sum_gradient(x, {2, 3, 4}, 1); }, "sum_gradient", "[2, 3, 4]");
  expect_refused(
      [&] { (void)ops::extremum_gradient(x, this->any({3}), x, 1); }, "extremum_gradient", "[3]");
  expect_refused([&] { (void)ops::sum_to(x, {3, 3}); }, "sum_to", "[2, 3]", "[3, 3]");
  expect_refused([&] { (void)ops::sum_to(x, {1, 2, 3}); }, "sum_to", "[1, 2, 3]");
}

}  // namespace
}  // namespace msstream::testing
