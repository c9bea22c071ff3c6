// SPDX-License-Identifier: Apache-2.0
#include "ids/bag_offsets.hpp"

#include "kernels/ids/judged_offsets.hpp"
#include "kernels/kernel_fixture.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using ::testing::ElementsAre;

template <class Id>
[[nodiscard]] BagOffsets<Id> offsets_of(std::vector<Id> const& offsets, std::int64_t capacity) {
  return {offsets.data(), static_cast<std::int64_t>(offsets.size()) - 1, capacity};
}

[[nodiscard]] std::vector<bool> bad_bags(std::vector<std::int64_t> const& offsets,
                                         std::int64_t capacity) {
  std::vector<bool> bad;
  for (std::int64_t bag = 0; bag + 1 < static_cast<std::int64_t>(offsets.size()); ++bag) {
    bad.push_back(offsets_of(offsets, capacity).is_bad(bag));
  }
  return bad;
}

TEST(BagOffsetsTest, one_offset_outside_costs_the_two_bags_that_it_bounds) {
  for (std::int64_t const wrong : {-1L, 9L, 1L << 40}) {
    for (std::size_t at = 0; at < 9; ++at) {
      std::vector<std::int64_t> offsets{0, 1, 1, 2, 4, 5, 6, 8, 8};
      offsets[at] = wrong;
      auto const bad = bad_bags(offsets, 8);
      for (std::size_t bag = 0; bag < bad.size(); ++bag) {
        EXPECT_EQ(bad[bag], bag == at || bag + 1 == at) << "bag " << bag << ", offset " << at;
      }
    }
  }
}

TEST(BagOffsetsTest, of_bags_that_overlap_at_most_one_is_kept) {
  EXPECT_THAT(bad_bags({0, 4, 2, 5}, 5), ElementsAre(true, true, false));
  EXPECT_THAT(bad_bags({0, 4, 4, 1, 1, 5}, 5), ElementsAre(true, true, true, true, false));
  EXPECT_THAT(bad_bags({5, 0}, 5), ElementsAre(true));
  EXPECT_THAT(bad_bags({0, 6}, 5), ElementsAre(true));
  EXPECT_THAT(bad_bags({0, 5}, 5), ElementsAre(false));
  EXPECT_THAT(bad_bags({0}, 5), ElementsAre());
}

/// Returns whether the checks of the bags [first, last] that the threads of a kernel share find no
/// error.
template <class Id>
[[nodiscard]] bool look_good(BagOffsets<Id> const& offsets, std::int64_t first, std::int64_t last) {
  bool good = true;
  for (std::int64_t number = 0; first + number <= last || offsets.has_judge(number); ++number) {
    good = good && offsets.passes(first, last, number);
  }
  return good;
}

template <class Id>
void expect_that_bags_that_look_good_are(BagOffsets<Id> const& offsets) {
  for (std::int64_t const together : {1, 2, 3, 4, 8, 32}) {
    for (std::int64_t first = 0; first < offsets.bags; ++first) {
      auto const last = std::min(first + together, offsets.bags) - 1;
      bool any_bad = false;
      for (auto bag = first; bag <= last; ++bag) {
        any_bad = any_bad || offsets.is_bad(bag);
      }
      bool const good = look_good(offsets, first, last);
      ASSERT_FALSE(good && any_bad) << "bags " << first << " to " << last;
      ASSERT_TRUE(good || !offsets.looked_at().ascend) << "bags " << first << " to " << last;
    }
  }
}

/// Expects every documented property of BagOffsets for one array of offsets.
template <class Id>
void expect_promises(std::vector<std::int64_t> const& as_int64, std::int64_t capacity) {
  std::vector<Id> const array(as_int64.begin(), as_int64.end());
  auto const offsets = offsets_of(array, capacity);
  JudgedOffsets const judged(as_int64, capacity);
  std::vector<std::int64_t> owners(static_cast<std::size_t>(capacity), -1);
  for (std::int64_t bag = 0; bag < offsets.bags; ++bag) {
    ASSERT_EQ(offsets.is_bad(bag), judged.is_bad(bag)) << "bag " << bag;
    auto const places = offsets.places_of(bag);
    ASSERT_LE(places.begin, places.end);
    ASSERT_LE(offsets.ascending(bag), offsets.ascending(bag + 1));
    if (judged.is_bad(bag)) {
      ASSERT_EQ(places.end, 0);
      continue;
    }
    ASSERT_EQ(places.begin, as_int64[static_cast<std::size_t>(bag)]);
    ASSERT_EQ(places.end, as_int64[static_cast<std::size_t>(bag) + 1]);
    ASSERT_EQ(offsets.ascending(bag), places.begin);
    ASSERT_EQ(offsets.ascending(bag + 1), places.end);
    for (auto place = places.begin; place < places.end; ++place) {
      auto& owner = owners[static_cast<std::size_t>(place)];
      ASSERT_EQ(owner, -1) << "place " << place << " of bag " << bag;
      owner = bag;
    }
  }
  auto const all = offsets.all_places();
  ASSERT_EQ(all.begin, offsets.ascending(0));
  ASSERT_EQ(all.end, offsets.ascending(offsets.bags));
  std::int64_t before = 0;
  for (std::int64_t place = 0; place < capacity; ++place) {
    auto const owner = owners[static_cast<std::size_t>(place)];
    ASSERT_EQ(offsets.bag_of(place), owner) << "place " << place;
    ASSERT_TRUE(owner < 0 || (place >= all.begin && place < all.end));
    auto const candidate = offsets.candidate_for(place);
    ASSERT_GE(candidate, before);
    before = candidate;
    if (place >= all.begin && place < all.end) {
      ASSERT_LT(candidate, offsets.bags);
      ASSERT_LE(offsets.ascending(candidate), place);
      ASSERT_GT(offsets.ascending(candidate + 1), place);
    }
  }
  ASSERT_TRUE(!offsets.looked_at().ascend || judged.bad_bags() == 0);
  expect_that_bags_that_look_good_are(offsets);
}

TEST(BagOffsetsTest, bags_share_no_place_whatever_the_offsets_are) {
  Random random;
  SCOPED_TRACE(::testing::Message() << "MSSTREAM_TEST_SEED=" << random.seed());
  for (int round = 0; round < 4000; ++round) {
    auto const capacity = random.integer(0, 40);
    auto const offsets = random_bad_offsets(random, random.integer(0, 40), capacity);
    expect_promises<std::int64_t>(offsets, capacity);
    expect_promises<std::int32_t>(offsets, capacity);
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

TEST(BagOffsetsTest, ascending_offsets_have_no_bad_bag) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    auto const capacity = random.integer(0, 60);
    auto offsets = random.integers(random.integer(1, 70), 0, capacity);
    std::sort(offsets.begin(), offsets.end());
    EXPECT_TRUE(offsets_of(offsets, capacity).looked_at().ascend);
    EXPECT_THAT(bad_bags(offsets, capacity), ::testing::Each(false));
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
