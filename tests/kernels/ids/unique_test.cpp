// SPDX-License-Identifier: Apache-2.0
#include "ids/unique.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <limits>
#include <map>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr UniqueOrder kOrders[] = {UniqueOrder::ascending, UniqueOrder::first_occurrence};

/// The numbers of ids that one block of 512, 2048 or 4096 positions handles, or a sort by the whole
/// device.
constexpr std::int64_t kIdCounts[] = {
    0, 1, 2, 31, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 20'000};

template <class Stream>
class UniqueTest : public KernelTest<Stream> {
 protected:
  /// Compares the results of unique() with a map from each id to its number. Memory that must not
  /// be written has to stay unchanged.
  template <class T>
  void expect_unique(std::vector<T> const& ids,
                     std::int64_t below,
                     UniqueOrder order,
                     std::int64_t existing) {
    SCOPED_TRACE(fmt::format("{} ids of {} bytes below {}, {} exist, order {}",
                             ids.size(),
                             sizeof(T),
                             below,
                             existing,
                             static_cast<int>(order)));
    auto const count = static_cast<std::size_t>(
        std::clamp<std::int64_t>(existing, 0, static_cast<std::int64_t>(ids.size())));
    auto const is_left_out = [&](T id) { return below > 0 && (id < 0 || id >= below); };
    std::map<T, std::int64_t> numbers;
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_left_out(ids[i]) && numbers.emplace(ids[i], std::ssize(values)).second) {
        values.push_back(ids[i]);
      }
    }
    if (order == UniqueOrder::ascending) {
      std::sort(values.begin(), values.end());
      for (std::size_t u = 0; u < values.size(); ++u) {
        numbers[values[u]] = static_cast<std::int64_t>(u);
      }
    }
    auto const uniques = static_cast<std::int64_t>(values.size());
    Integers inverse(ids.size(), kUntouched);
    Integers counts(values.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      inverse[i] = is_left_out(ids[i]) ? -1 : numbers[ids[i]];
      if (inverse[i] >= 0) {
        ++counts[static_cast<std::size_t>(inverse[i])];
      }
    }
    values.resize(ids.size(), T{-7});
    counts.resize(ids.size(), kUntouched);

    auto const capacity = static_cast<std::int64_t>(ids.size());
    UniqueProblem const problem{capacity, sizeof(T) == 8, below, order};
    auto const input = this->upload(ids);
    auto const existing_count = this->scalar(existing);
    auto const found_values = this->upload(std::vector<T>(ids.size(), T{-7}));
    auto const found_inverse = this->upload(Integers(ids.size(), kUntouched));
    auto const found_counts = this->upload(Integers(ids.size(), kUntouched));
    auto const found_count = this->integers(1);
    auto const memory = this->workspace(unique_workspace_bytes(this->stream(), problem));
    this->replay([&](Stream stream) {
      unique(stream,
             {problem,
              input.data(),
              existing >= capacity ? nullptr : existing_count.data(),
              found_values.data(),
              found_inverse.data(),
              found_counts.data(),
              found_count.data(),
              memory.data()});
    });
    EXPECT_EQ(this->read(found_count)[0], uniques);
    // EXPECT_EQ is avoided for arrays, because it would print thousands of numbers, and a
    // difference is best described by its first position.
    EXPECT_TRUE(this->read(found_values) == values);
    EXPECT_TRUE(this->read(found_inverse) == inverse);
    EXPECT_TRUE(this->read(found_counts) == counts);
  }

  /// Tests unique() with ids of both widths and in both orders. All ids exist.
  void expect_unique(Integers const& ids, std::int64_t below) {
    for (auto const order : kOrders) {
      expect_unique(ids, below, order, static_cast<std::int64_t>(ids.size()));
      expect_unique(narrowed(ids), below, order, static_cast<std::int64_t>(ids.size()));
    }
  }
  static std::vector<std::int32_t> narrowed(Integers const& ids) {
    return {ids.begin(), ids.end()};
  }

 private:
  static constexpr std::int64_t kUntouched = -9;
};
TYPED_TEST_SUITE(UniqueTest, StreamKinds, StreamKindName);

TYPED_TEST(UniqueTest, any_number_of_ids_with_and_without_a_bound) {
  for (auto const capacity : kIdCounts) {
    this->expect_unique(this->random.integers(capacity, 0, capacity), capacity + 1);
    this->expect_unique(this->random.integers(capacity, -capacity, capacity), 0);
  }
}

TYPED_TEST(UniqueTest, millions_of_ids) {
  constexpr std::int64_t kIds = 4'300'000;  // several iterations for each tile
  auto const ids = this->random.integers(kIds, -2, 5000);
  this->expect_unique(ids, 4999, UniqueOrder::first_occurrence, kIds);
  this->expect_unique(ids, 0, UniqueOrder::ascending, kIds);
  this->expect_unique(ids, 4999, UniqueOrder::ascending, kIds - 5);
}

TYPED_TEST(UniqueTest, integers_of_all_bits_in_signed_order) {
  for (std::int64_t const capacity : {600, 5000}) {
    auto ids = this->random.integers(capacity, kLeast, kMost);
    ids[0] = kMost;
    ids[1] = kLeast;
    ids[2] = -1;
    ids[3] = 0;
    ids[4] = ids.back() = kMost;
    this->expect_unique(ids, 0);
  }
}

TYPED_TEST(UniqueTest, bounds_at_the_edges_of_digits_and_words) {
  for (auto const below : {std::int64_t{1},
                           std::int64_t{2},
                           std::int64_t{255},
                           std::int64_t{256},
                           std::int64_t{257},
                           std::int64_t{65'536},
                           (std::int64_t{1} << 32) - 1,
                           std::int64_t{1} << 32,
                           (std::int64_t{1} << 32) + 1,
                           std::int64_t{1} << 50,
                           kMost}) {
    for (std::int64_t const capacity : {600, 5000}) {
      auto ids = this->random.integers(capacity, 0, below - 1);
      ids[1] = ids[0];
      ids[2] = below - 1;
      ids[3] = below;
      ids[4] = 0;
      ids[5] = -1;
      ids[6] = kLeast;
      this->expect_unique(ids, below);
    }
  }
}

TYPED_TEST(UniqueTest, one_id_thousands_of_times_or_nothing_but_what_is_left_out) {
  for (auto const capacity : kIdCounts) {
    Integers ids(static_cast<std::size_t>(capacity), 7);
    this->expect_unique(ids, 8);
    this->expect_unique(ids, 0);
    this->expect_unique(ids, 7);
    if (!ids.empty()) {
      ids.back() = 3;
      this->expect_unique(ids, 8);
      this->expect_unique(ids, 7);
    }
  }
}

/// Long keys are sorted by the bytes in which they differ: one byte, which may be any of the eight,
/// up to four, which are packed, or more; few of them by the bits from the lowest to the highest in
/// which they differ. Ids that do not exist are ignored.
TYPED_TEST(UniqueTest, ids_that_differ_in_some_bytes_only) {
  constexpr auto kFixed = static_cast<std::uint64_t>(0x1122'3344'5566'7788);
  for (std::int64_t const count : {3, 700, 4000, 9000}) {
    for (std::uint64_t const varying : {std::uint64_t{0xFF},
                                        std::uint64_t{0xFF} << 32,
                                        std::uint64_t{0x7F} << 56,
                                        std::uint64_t{0xFF} << 56,
                                        std::uint64_t{0x0300'0001'0000'0700},
                                        std::uint64_t{0xF00F'0000'00F0'0F00},
                                        std::uint64_t{0x0101'0100'0001'0001},
                                        std::uint64_t{0x8101'0100'0101'0101}}) {
      auto ids = this->random.integers(count, kLeast, kMost);
      for (auto& id : ids) {
        id = static_cast<std::int64_t>((static_cast<std::uint64_t>(id) & varying) |
                                       (kFixed & ~varying));
      }
      for (auto const order : kOrders) {
        this->expect_unique(ids, 0, order, count);
        this->expect_unique(ids, 0, order, count / 2);
        this->expect_unique(ids, std::int64_t{1} << 62, order, count);
      }
      ids.back() = ids[0] ^ 0x0202'0202'0202'0202;  // the last id does not exist
      this->expect_unique(ids, 0, UniqueOrder::ascending, count - 1);
    }
  }
}

TYPED_TEST(UniqueTest, equal_ids_of_a_whole_device) {
  for (auto const id : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{77}, kLeast, kMost}) {
    this->expect_unique(Integers(300'000, id), 0);
    this->expect_unique(Integers(300'000, id), 100);
  }
}

TYPED_TEST(UniqueTest, ids_beyond_the_count_do_not_exist) {
  for (std::int64_t const capacity : {1, 700, 3000, 20'000}) {
    auto ids = this->random.integers(capacity, -3, 200);
    // The first id is the greatest of all, because positions that do not exist are sorted as if
    // they held the greatest id.
    ids[0] = std::numeric_limits<std::int32_t>::max();
    for (auto const existing :
         {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, capacity / 2, capacity - 1}) {
      for (std::int64_t const below : {0, 150}) {
        for (auto const order : kOrders) {
          this->expect_unique(ids, below, order, existing);
          this->expect_unique(this->narrowed(ids), below, order, existing);
        }
      }
    }
    ids[0] = kMost;
    this->expect_unique(ids, 0, UniqueOrder::ascending, capacity / 2);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
