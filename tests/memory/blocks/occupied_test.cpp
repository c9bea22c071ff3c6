// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/occupied.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>

namespace msstream::memory {
namespace {

/// Tests sets of integers, kept as bits, that fill less than one word, one word, and several words,
/// of which the last is full or not.
template <class Places>
class OccupiedTest : public ::testing::Test {};
using Counts =
    ::testing::Types<Occupied<1>, Occupied<63>, Occupied<64>, Occupied<97>, Occupied<1280>>;
TYPED_TEST_SUITE(OccupiedTest, Counts);

TYPED_TEST(OccupiedTest, holds_nothing_at_first) {
  TypeParam const places;
  EXPECT_EQ(places.next(0), TypeParam::kNone);
  EXPECT_EQ(places.last(), TypeParam::kNone);
}

TYPED_TEST(OccupiedTest, has_no_place_beyond_all) {
  TypeParam places;
  for (std::size_t place = 0; place < TypeParam::kNone; ++place) {
    places.insert(place);
  }
  EXPECT_EQ(places.next(TypeParam::kNone - 1), TypeParam::kNone - 1);
  for (std::size_t beyond = 0; beyond < 200; ++beyond) {
    EXPECT_EQ(places.next(TypeParam::kNone + beyond), TypeParam::kNone);
  }
  EXPECT_EQ(places.last(), TypeParam::kNone - 1);
}

TYPED_TEST(OccupiedTest, is_like_a_set) {
  TypeParam places;
  std::set<std::size_t> held;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::size_t const place = random() % TypeParam::kNone;
    // Phases of filling and of emptying the set alternate, so that both long gaps and close
    // elements occur.
    if (random() % 8 < (i / 500 % 2 == 0 ? 6U : 1U)) {
      places.insert(place);
      held.insert(place);
    } else {
      places.erase(place);
      held.erase(place);
    }
    std::size_t const from = random() % (TypeParam::kNone + 1);
    auto const expected = held.lower_bound(from);
    ASSERT_EQ(places.next(from), expected == held.end() ? TypeParam::kNone : *expected);
    ASSERT_EQ(places.last(), held.empty() ? TypeParam::kNone : *held.rbegin());
  }
}

}  // namespace
}  // namespace msstream::memory
