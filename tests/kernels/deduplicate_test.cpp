// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#include <msstream/ops/kernels/embedding.hpp>

#include <map>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;

template <class Stream>
class DeduplicateTest : public KernelTest<Stream> {
 protected:
  /// Compares with a map from each id to its places; what must not be touched has to stay poisoned.
  /// Places [begin, end) of `ids` exist, as `bags` tells the kernel.
  void expect_groups(Integers const& ids,
                     BagLayout const& bags,
                     std::int64_t begin,
                     std::int64_t end,
                     std::int64_t rows) {
    std::map<std::int64_t, Integers> groups;
    for (auto place = begin; place < end; ++place) {
      if (auto const id = ids[static_cast<std::size_t>(place)]; id >= 0 && id < rows) {
        groups[id].push_back(place);
      }
    }
    Integers unique_ids(ids.size(), -1);
    Numbers starts(ids.size() + 1, -1);
    Numbers positions(ids.size(), -1);
    Numbers ranks(ids.size(), -1);
    std::size_t unique = 0;
    std::size_t next = 0;
    for (auto const& [id, places] : groups) {
      unique_ids[unique] = id;
      starts[unique] = static_cast<std::int32_t>(next);
      for (auto const place : places) {
        ranks[next] = static_cast<std::int32_t>(unique);
        positions[next++] = static_cast<std::int32_t>(place);
      }
      ++unique;
    }
    starts[unique] = static_cast<std::int32_t>(next);

    auto const input = this->upload(ids);
    auto const found_ids = this->integers(bags.capacity);
    auto const found_starts = this->upload(Numbers(starts.size(), -1));
    auto const found_positions = this->upload(Numbers(ids.size(), -1));
    auto const found_ranks = this->upload(Numbers(ids.size(), -7));
    auto const found_count = this->integers(1);
    auto const memory = this->workspace(deduplicate_workspace_bytes(this->stream(), bags.capacity));
    this->replay([&](Stream stream) {
      deduplicate(stream,
                  {input.data(),
                   bags,
                   rows,
                   found_ids.data(),
                   found_starts.data(),
                   found_positions.data(),
                   found_ranks.data(),
                   found_count.data(),
                   memory.data()});
    });
    EXPECT_EQ(this->read(found_count)[0], static_cast<std::int64_t>(unique));
    // Not EXPECT_EQ: a difference in thousands of numbers is best said by its first place.
    EXPECT_TRUE(this->read(found_ids) == unique_ids);
    EXPECT_TRUE(this->read(found_starts) == starts);
    EXPECT_TRUE(this->read(found_positions) == positions);
    EXPECT_TRUE(this->read(found_ranks) == ranks);
  }

  void expect_groups(Integers const& ids, std::int64_t rows) {
    auto const count = static_cast<std::int64_t>(ids.size());
    SCOPED_TRACE(text(count, " ids, ", rows, " rows"));
    expect_groups(ids, {count, count, 1, nullptr, nullptr}, 0, count, rows);
  }
};
TYPED_TEST_SUITE(DeduplicateTest, StreamKinds, StreamKindName);

// One block of 512, 2048 or 4096 places, or the sort of the whole device.
constexpr std::int64_t kCapacities[] = {
    1, 2, 31, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 20'000};

TYPED_TEST(DeduplicateTest, GroupsEqualIdsOfAnyNumberOfPlaces) {
  for (auto const capacity : kCapacities) {
    this->expect_groups(this->random.integers(capacity, 0, capacity), capacity + 1);
  }
}

TYPED_TEST(DeduplicateTest, MillionsOfPlaces) {
  constexpr std::int64_t kPlaces = 4'300'000;
  this->expect_groups(this->random.integers(kPlaces, -2, 5000), 5000);
}

TYPED_TEST(DeduplicateTest, LeavesOutWhatIsNoRow) {
  for (auto const capacity : kCapacities) {
    auto ids = this->random.integers(capacity, -2, 12);
    ids.front() = std::int64_t{1} << 40;
    ids.back() = 10;
    this->expect_groups(ids, 10);
    this->expect_groups(Integers(static_cast<std::size_t>(capacity), -1), 10);
  }
}

TYPED_TEST(DeduplicateTest, OneIdThousandsOfTimes) {
  for (auto const capacity : kCapacities) {
    Integers ids(static_cast<std::size_t>(capacity), 7);
    this->expect_groups(ids, 8);
    ids.back() = 3;
    this->expect_groups(ids, 8);
  }
}

TYPED_TEST(DeduplicateTest, RowCountsAtTheEdgesOfDigitsAndWords) {
  for (auto const rows : {std::int64_t{0},
                          std::int64_t{1},
                          std::int64_t{2},
                          std::int64_t{255},
                          std::int64_t{256},
                          std::int64_t{257},
                          std::int64_t{65'536},
                          (std::int64_t{1} << 32) - 1,
                          std::int64_t{1} << 32,
                          (std::int64_t{1} << 32) + 1,
                          std::int64_t{1} << 50}) {
    for (std::int64_t const capacity : {600, 5000}) {
      auto ids = this->random.integers(capacity, 0, std::max<std::int64_t>(rows - 1, 0));
      ids[1] = ids[0];
      ids[2] = rows - 1;
      ids[3] = rows;
      ids[4] = 0;
      this->expect_groups(ids, rows);
    }
  }
}

TYPED_TEST(DeduplicateTest, PlacesBeyondTheBagCountDoNotExist) {
  constexpr std::int64_t kHotness = 3;
  for (std::int64_t const bags : {100, 3000}) {
    auto const capacity = bags * kHotness;
    auto const ids = this->random.integers(capacity, 0, 50);
    for (std::int64_t const count : {std::int64_t{0}, std::int64_t{1}, bags / 2, bags}) {
      SCOPED_TRACE(text(count, " of ", bags, " bags"));
      auto const bag_count = this->scalar(count);
      this->expect_groups(
          ids, {bags, capacity, kHotness, nullptr, bag_count.data()}, 0, count * kHotness, 51);
    }
  }
}

TYPED_TEST(DeduplicateTest, OffsetsTellWhichPlacesExist) {
  for (std::int64_t const capacity : {700, 7000}) {
    auto const ids = this->random.integers(capacity, 0, 50);
    Integers const offsets{0, 0, 5, 5, capacity / 2, capacity - 10};
    auto const uploaded = this->upload(offsets);
    auto const bags = static_cast<std::int64_t>(offsets.size()) - 1;
    for (std::int64_t count = 0; count <= bags; ++count) {
      auto const bag_count = this->scalar(count);
      auto const end = offsets[static_cast<std::size_t>(count)];
      this->expect_groups(ids, {bags, capacity, 0, uploaded.data(), bag_count.data()}, 0, end, 51);
    }
    this->expect_groups(ids, {bags, capacity, 0, uploaded.data(), nullptr}, 0, offsets.back(), 51);
  }
}

TYPED_TEST(DeduplicateTest, NoPlacesAtAll) {
  this->expect_groups({}, 10);
}

TYPED_TEST(DeduplicateTest, RefusesMorePlacesThanPositionsCanName) {
  DeduplicateArgs args{};
  args.bags.capacity = std::int64_t{1} << 31;
  EXPECT_THROW(deduplicate(this->stream(), args), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
