// SPDX-License-Identifier: Apache-2.0
#include "ids/deduplicate.hpp"

#include "kernels/ids/judged_offsets.hpp"

#include <fmt/core.h>

#include <map>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;

template <class Id, class From>
std::vector<Id> cast_to(std::vector<From> const& values) {
  std::vector<Id> out;
  for (auto const value : values) {
    out.push_back(static_cast<Id>(value));
  }
  return out;
}

/// The bags of a deduplication test on the host; by default, each bag has one id.
struct SomeBags {
  std::int64_t bags = -1;  ///< -1: as many bags as ids
  std::int64_t hotness = 1;
  Integers offsets = {};        ///< empty if the hotness is fixed
  std::int64_t bag_count = -1;  ///< -1: all bags exist, and the kernel gets no count
  std::int64_t default_id = -1;
  bool pools = true;
};

template <class Stream>
class DeduplicateTest : public KernelTest<Stream> {
 protected:
  /// Compares the groups of deduplicate() with a map from each id to its positions. Memory that
  /// must not be written has to stay poisoned.
  template <class Id>
  void expect_groups_of(std::vector<Id> const& ids, std::int64_t rows, SomeBags const& some) {
    expect_groups_of(ids, rows, some, some);
  }
  /// Expects deduplicate() to group the ids of the bags `given` as those of the bags `some`.
  template <class Id>
  void expect_groups_of(std::vector<Id> const& ids,
                        std::int64_t rows,
                        SomeBags const& given,
                        SomeBags const& some) {
    auto const capacity = static_cast<std::int64_t>(ids.size());
    auto const bags = some.bags < 0 ? capacity : some.bags;
    auto const existing = some.bag_count < 0 ? bags : some.bag_count;
    std::map<std::int64_t, Integers> groups;
    Integers defaults;
    bool const is_jagged = !some.offsets.empty();
    JudgedOffsets const judged(
        is_jagged ? Integers(some.offsets.begin(), some.offsets.begin() + existing + 1)
                  : Integers{0},
        capacity);
    for (std::int64_t bag = 0; bag < existing; ++bag) {
      auto const [begin, end] =
          is_jagged ? judged.places(bag) : std::pair{bag * some.hotness, (bag + 1) * some.hotness};
      bool has_id = false;
      for (auto place = begin; place < end; ++place) {
        std::int64_t const id = ids[static_cast<std::size_t>(place)];
        if (id >= 0 && id < rows) {
          groups[id].push_back(place);
          has_id = true;
        }
      }
      if (!has_id && some.default_id >= 0) {
        defaults.push_back(capacity + bag);
      }
    }
    if (!defaults.empty() && some.default_id < rows) {
      auto& group = groups[some.default_id];
      group.insert(group.end(), defaults.begin(), defaults.end());
    }
    auto const places = static_cast<std::size_t>(capacity + (some.default_id >= 0 ? bags : 0));
    Integers unique_ids(places, -1);
    Numbers starts(places + 1, -1);
    Numbers positions(places, -1);
    Numbers ranks(places, -1);
    std::size_t unique = 0;
    std::size_t next = 0;
    for (auto const& [id, group] : groups) {
      unique_ids[unique] = id;
      starts[unique] = static_cast<std::int32_t>(next);
      for (auto const place : group) {
        ranks[next] = static_cast<std::int32_t>(unique);
        positions[next++] = static_cast<std::int32_t>(place);
      }
      ++unique;
    }
    starts[unique] = static_cast<std::int32_t>(next);

    auto const input = this->upload(ids);
    auto const offsets = this->upload(cast_to<Id>(given.offsets));
    auto const bag_count = this->scalar(existing);
    auto const found_ids = this->integers(static_cast<std::int64_t>(places));
    auto const found_starts = this->upload(Numbers(places + 1, -1));
    auto const found_positions = this->upload(Numbers(places, -1));
    auto const found_ranks = this->upload(Numbers(places, -7));
    auto const found_count = this->integers(1);
    auto const memory = this->workspace(
        deduplicate_workspace_bytes(this->stream(), static_cast<std::int64_t>(places)));
    DeduplicateArgs const args{
        .bags = {.ids = input.data(),
                 .id_dtype = dtype_of<Id>,
                 .bags = given.bags < 0 ? capacity : given.bags,
                 .capacity = capacity,
                 .hotness = given.hotness,
                 .offsets = given.offsets.empty() ? nullptr : offsets.data(),
                 .bag_count = some.bag_count < 0 ? nullptr : bag_count.data(),
                 .default_id = some.default_id},
        .rows = rows,
        .unique_ids = found_ids.data(),
        .starts = found_starts.data(),
        .positions = found_positions.data(),
        .ranks = found_ranks.data(),
        .unique_count = found_count.data(),
        .workspace = memory.data(),
        .pools = given.pools};
    this->replay([&](Stream stream) { deduplicate(stream, args); });
    EXPECT_EQ(this->read(found_count)[0], static_cast<std::int64_t>(unique));
    // EXPECT_EQ is avoided for arrays, because it would print thousands of numbers, and a
    // difference is best described by its first position.
    EXPECT_TRUE(this->read(found_ids) == unique_ids);
    EXPECT_TRUE(this->read(found_starts) == starts);
    EXPECT_TRUE(this->read(found_positions) == positions);
    EXPECT_TRUE(this->read(found_ranks) == ranks);
  }

  /// Tests deduplicate() with 64-bit ids, and with 32-bit ids if the numbers fit.
  void expect_groups(Integers const& ids, std::int64_t rows, SomeBags const& bags = {}) {
    SCOPED_TRACE(fmt::format("{} ids, {} rows", ids.size(), rows));
    expect_groups_of(ids, rows, bags);
    auto const narrow = cast_to<std::int32_t>(ids);
    if (cast_to<std::int64_t>(narrow) == ids) {
      SCOPED_TRACE("32 bits");
      expect_groups_of(narrow, rows, bags);
    }
  }
};
TYPED_TEST_SUITE(DeduplicateTest, StreamKinds, StreamKindName);

// The numbers of positions that one block of 512, 2048 or 4096 positions handles, or a sort by the
// whole device.
constexpr std::int64_t kCapacities[] = {
    1, 2, 31, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 20'000};

TYPED_TEST(DeduplicateTest, groups_equal_ids_of_any_number_of_places) {
  for (auto const capacity : kCapacities) {
    this->expect_groups(this->random.integers(capacity, 0, capacity), capacity + 1);
  }
}

TYPED_TEST(DeduplicateTest, millions_of_places) {
  // The numbers of positions take sort tiles of either size, and more tiles than one look-back step
  // reads.
  for (std::int64_t const places : {200'000, 300'000, 4'300'000}) {
    this->expect_groups(this->random.integers(places, -2, 5000), 5000);
  }
}

TYPED_TEST(DeduplicateTest, leaves_out_what_is_no_row) {
  for (auto const capacity : kCapacities) {
    auto ids = this->random.integers(capacity, -2, 12);
    ids.front() = std::int64_t{1} << 40;
    ids.back() = 10;
    this->expect_groups(ids, 10);
    this->expect_groups(Integers(static_cast<std::size_t>(capacity), -1), 10);
  }
}

TYPED_TEST(DeduplicateTest, one_id_thousands_of_times) {
  for (auto const capacity : kCapacities) {
    Integers ids(static_cast<std::size_t>(capacity), 7);
    this->expect_groups(ids, 8);
    ids.back() = 3;
    this->expect_groups(ids, 8);
  }
}

TYPED_TEST(DeduplicateTest, row_counts_at_the_edges_of_digits_and_words) {
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

TYPED_TEST(DeduplicateTest, places_beyond_the_bag_count_do_not_exist) {
  constexpr std::int64_t kHotness = 3;
  for (std::int64_t const bags : {100, 3000}) {
    auto const ids = this->random.integers(bags * kHotness, 0, 50);
    for (std::int64_t const count : {std::int64_t{0}, std::int64_t{1}, bags / 2, bags}) {
      SCOPED_TRACE(fmt::format("{} of {} bags", count, bags));
      this->expect_groups(ids, 51, {.bags = bags, .hotness = kHotness, .bag_count = count});
    }
  }
}

TYPED_TEST(DeduplicateTest, offsets_tell_which_places_exist) {
  for (std::int64_t const capacity : {700, 7000}) {
    auto const ids = this->random.integers(capacity, 0, 50);
    SomeBags bags{.bags = 5, .offsets = {0, 0, 5, 5, capacity / 2, capacity - 10}};
    this->expect_groups(ids, 51, bags);
    for (bags.bag_count = 0; bags.bag_count <= bags.bags; ++bags.bag_count) {
      this->expect_groups(ids, 51, bags);
    }
  }
}

TYPED_TEST(DeduplicateTest, leaves_out_the_ids_of_bad_bags) {
  auto const expect_for = [&](std::int64_t bags, std::int64_t capacity) {
    SCOPED_TRACE(fmt::format("{} bags", bags));
    for (int round = 0; round < 6; ++round) {
      this->expect_groups(this->random.integers(capacity, -1, capacity),
                          capacity,
                          {.bags = bags,
                           .offsets = random_bad_offsets(this->random, bags, capacity),
                           .bag_count = round % 2 == 0 ? -1 : this->random.integer(1, bags),
                           .default_id = round % 3 == 0 ? 4 : -1});
    }
  };
  for (std::int64_t const capacity : {300, 3000, 4097}) {
    for (std::int64_t const bags : {1, 3, 40, 700}) {
      expect_for(bags, capacity);
    }
  }
  expect_for(9000, 500);  // more bags than one block checks
  expect_for(2000, 20'000);
}

TYPED_TEST(DeduplicateTest, without_pooling_has_the_ids_of_bad_bags) {
  for (std::int64_t const capacity : {7, 5000}) {
    Integers ids(static_cast<std::size_t>(capacity), -1);
    ids[0] = 3;
    ids[1] = 1;
    ids[4] = 3;
    // All ids are between the first and the last offset, and are grouped like those of a single
    // bag.
    SomeBags const one{.bags = 1, .offsets = {1, capacity}};
    this->expect_groups(ids, 5, one);
    SomeBags const bad{.bags = 3, .offsets = {1, 4, 2, capacity}, .pools = false};
    this->template expect_groups_of<std::int64_t>(ids, 5, bad, one);
  }
}

TYPED_TEST(DeduplicateTest, bags_without_an_id_have_the_place_of_their_default_id) {
  for (std::int64_t const bags : {50, 3000}) {
    // One in three ids is valid, so that many bags of few ids have no valid id.
    auto const ids = [&](std::int64_t count) { return this->random.integers(count, -4, 11); };
    for (std::int64_t const hotness : {1, 2, 4, 5, 6}) {
      for (std::int64_t const count : {std::int64_t{-1}, std::int64_t{0}, bags / 3}) {
        for (std::int64_t const default_id : {0, 3, 4, 5, 1000}) {
          this->expect_groups(
              ids(bags * hotness),
              5,
              {.bags = bags, .hotness = hotness, .bag_count = count, .default_id = default_id});
        }
      }
    }
    Integers offsets{0};
    for (auto const length : this->random.integers(bags, 0, 6)) {
      offsets.push_back(offsets.back() + length);
    }
    for (std::int64_t const count : {std::int64_t{-1}, bags - 7}) {
      this->expect_groups(ids(offsets.back() + 5),
                          5,
                          {.bags = bags, .offsets = offsets, .bag_count = count, .default_id = 2});
    }
  }
}

// Several threads search a long bag, and its only valid id may be anywhere in it.
TYPED_TEST(DeduplicateTest, long_bags_are_searched_for_an_id_to_their_end) {
  constexpr std::int64_t kLength = 1000;
  Integers ids;
  Integers offsets{0};
  for (std::int64_t bag = 0; bag < 40; ++bag) {
    auto const length = bag % 4 == 3 ? 2 : kLength;
    Integers one(static_cast<std::size_t>(length), -1);
    if (bag % 2 == 0) {
      one[static_cast<std::size_t>(this->random.integer(0, length - 1))] = bag;
    }
    ids.insert(ids.end(), one.begin(), one.end());
    offsets.push_back(static_cast<std::int64_t>(ids.size()));
  }
  this->expect_groups(ids, 50, {.bags = 40, .offsets = offsets, .default_id = 49});
}

TYPED_TEST(DeduplicateTest, no_places_at_all) {
  this->expect_groups({}, 10);
  this->expect_groups({}, 10, {.bags = 3, .offsets = {0, 0, 0, 0}, .default_id = 4});
}

TYPED_TEST(DeduplicateTest, refuses_more_places_than_positions_can_name) {
  DeduplicateArgs args{};
  args.bags.default_id = -1;
  args.bags.capacity = std::int64_t{1} << 31;
  EXPECT_THROW(deduplicate(this->stream(), args), std::invalid_argument);
  args.bags.capacity = args.bags.bags = std::int64_t{1} << 30;
  args.bags.default_id = 0;
  EXPECT_THROW(deduplicate(this->stream(), args), std::invalid_argument);
}

TYPED_TEST(DeduplicateTest, refuses_ids_that_are_no_integers) {
  DeduplicateArgs args{};
  args.bags.id_dtype = DType::float32;
  EXPECT_THROW(deduplicate(this->stream(), args), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
