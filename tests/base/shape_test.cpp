// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/shape.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

namespace msstream {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

TEST(Shape, of_no_extents_is_a_scalar) {
  Shape const scalar;
  EXPECT_EQ(scalar.rank(), 0U);
  EXPECT_EQ(scalar.count(), 1);
  EXPECT_EQ(to_string(scalar), "[]");
  EXPECT_EQ(scalar, Shape({}));
}

TEST(Shape, has_its_extents_and_their_product) {
  Shape const shape{2, 3, 5, 7};
  EXPECT_EQ(shape.rank(), 4U);
  EXPECT_EQ(shape.count(), 210);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[3], 7);
  EXPECT_EQ(to_string(shape), "[2, 3, 5, 7]");
}

TEST(Shape, can_be_made_of_extents_that_are_counted_at_run_time) {
  std::int64_t const extents[] = {2, 3, 5, 7, 11};
  EXPECT_EQ(Shape(std::span(extents).first(3)), Shape({2, 3, 5}));
  EXPECT_EQ(Shape(std::span(extents).first(0)), Shape());
  EXPECT_THROW(Shape{std::span(extents)}, std::invalid_argument);
}

TEST(Shape, differs_by_rank_and_by_extent) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({0}), Shape({0, 0}));
}

TEST(Shape, may_be_empty_in_any_dimension) {
  EXPECT_EQ(Shape({0, 8}).count(), 0);
  EXPECT_EQ(Shape({0, kHuge, kHuge, kHuge}).count(), 0);
}

TEST(Shape, changes_its_first_extent_alone) {
  EXPECT_EQ(Shape({2, 3, 5}).with_first(9), Shape({9, 3, 5}));
  EXPECT_EQ(Shape({0, 3}).with_first(4).count(), 12);
  EXPECT_THROW((void)Shape().with_first(1), std::invalid_argument);
  EXPECT_THROW((void)Shape({1, 2}).with_first(-1), std::invalid_argument);
  EXPECT_THROW((void)Shape({0, kHuge, kHuge >> 2}).with_first(4), std::invalid_argument);
}

TEST(Shape, refuses_what_it_cannot_hold) {
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), std::invalid_argument);
  EXPECT_THROW((Shape{2, -1}), std::invalid_argument);
  EXPECT_THROW((Shape{kHuge, kHuge}), std::invalid_argument);
  EXPECT_EQ(Shape({std::numeric_limits<std::int64_t>::max()}).count(),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Shape, names_the_dimension_that_it_does_not_have) {
  Shape const shape{2, 3};
  try {
    (void)shape[2];
    FAIL() << "did not throw";
  } catch (std::invalid_argument const& error) {
    EXPECT_STREQ(error.what(), "shape [2, 3] has no dimension 2");
  }
}

}  // namespace
}  // namespace msstream
