// SPDX-License-Identifier: Apache-2.0
// Tests the division of bags into those that an update does not touch and the others, and the
// messages with the pooled rows of both.
#include "embedding/pooled_ahead.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kUnwrittenColumn = -2;

[[nodiscard]] std::vector<std::uint32_t> bits_of_rows(std::vector<float> const& floats) {
  std::vector<std::uint32_t> bits;
  for (float const value : floats) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

/// The ids of bags, by slot, rank and bag, of which each may have any number.
struct BagsByPlace {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> offsets{0};

  void add(std::vector<std::int64_t> const& of_bag) {
    ids.push_back(of_bag);
    places.insert(places.end(), of_bag.begin(), of_bag.end());
    offsets.push_back(std::ssize(places));
  }
};

struct BlocksCase {
  std::vector<std::int32_t> widths;
  std::int64_t ranks;
  std::int64_t most_bags;
  std::int64_t padding = 0;  ///< floats behind the rows of the largest message

  [[nodiscard]] std::int64_t slots() const { return std::ssize(widths); }
  [[nodiscard]] std::int64_t width() const {
    std::int64_t sum = 0;
    for (auto const width : widths) {
      sum += width;
    }
    return sum;
  }
  [[nodiscard]] std::int64_t bags() const { return slots() * ranks * most_bags; }
};

/// Returns the columns of the rows of bags, by rank, slot and bag: of early ones, of late ones, or
/// 0 of both.
[[nodiscard]] std::vector<SplitCounts> random_counts(BlocksCase const& of, Random& random) {
  std::vector<SplitCounts> counts;
  for (std::int64_t i = 0; i < of.bags(); ++i) {
    auto const slot = static_cast<std::size_t>(i / of.most_bags % of.slots());
    auto const kind = random.integer(0, 4);
    counts.push_back({kind < 2 ? of.widths[slot] : 0, kind > 2 ? of.widths[slot] : 0});
  }
  return counts;
}

template <class Stream>
class PooledAheadTest : public KernelTest<Stream> {
 protected:
  Buffer<TableDescriptor> descriptors(BlocksCase const& of, std::vector<std::int64_t> const& rows) {
    std::vector<TableDescriptor> blocks;
    std::int64_t first_column = 0;
    for (std::size_t s = 0; s < of.widths.size(); ++s) {
      auto& block = blocks.emplace_back();
      block.rows = rows[s];
      block.width = of.widths[s];
      block.first_column = first_column;
      first_column += block.width;
    }
    return this->upload(blocks);
  }

  /// Packs rows into early or late messages, and compares these with those expected.
  void pack(BlocksCase const& of, bool is_late) {
    SCOPED_TRACE(fmt::format("{} blocks of {} columns, {} ranks, {} bags, {}",
                             of.slots(),
                             fmt::join(of.widths, ", "),
                             of.ranks,
                             of.most_bags,
                             is_late ? "late" : "early"));
    auto const counts = random_counts(of, this->random);
    auto const pooled = this->random.reals(of.ranks * of.most_bags * of.width());
    auto const places = of.slots() * of.most_bags;
    auto const stride = (is_late ? 0 : places) + of.most_bags * of.width() + of.padding;
    std::vector<float> expected(static_cast<std::size_t>(of.ranks * stride), kUnwrittenColumn);
    std::vector<std::int64_t> expected_counts;
    std::vector<std::int64_t> before{0};
    for (std::int64_t rank = 0; rank < of.ranks; ++rank) {
      std::int64_t ends[2] = {};
      std::int64_t column = 0;
      for (std::int64_t slot = 0; slot < of.slots(); ++slot) {
        auto const width = of.widths[static_cast<std::size_t>(slot)];
        for (std::int64_t bag = 0; bag < of.most_bags; ++bag) {
          auto const number = slot * of.most_bags + bag;
          auto const count = counts[static_cast<std::size_t>(rank * places + number)];
          before.push_back(before.back() + count.early + (count.late << 32));
          bool const has_row = count.early + count.late > 0;
          bool const is_late_row = count.late > 0;
          auto& end = ends[is_late_row ? 1 : 0];
          if (!is_late) {
            auto const place = has_row ? RowPlace(is_late_row, end) : RowPlace();
            expected[static_cast<std::size_t>(rank * stride + number)] = place.as_float();
          }
          if (has_row && is_late_row == is_late) {
            std::copy_n(pooled.begin() + (rank * of.most_bags + bag) * of.width() + column,
                        width,
                        expected.begin() + rank * stride + (is_late ? 0 : places) + end);
          }
          end += has_row ? width : 0;
        }
        column += width;
      }
      expected_counts.push_back(is_late ? ends[1] : places + ends[0]);
    }

    auto const blocks = descriptors(of, std::vector<std::int64_t>(of.widths.size(), 1));
    auto const rows = this->upload(pooled);
    auto const sums = this->upload(before);
    auto const messages = this->upload(std::vector<float>(expected.size(), kUnwrittenColumn));
    auto const sent = this->integers(of.ranks);
    packed_bags(this->stream(),
                {.blocks = blocks.data(),
                 .slots = of.slots(),
                 .ranks = of.ranks,
                 .most_bags = of.most_bags,
                 .width = of.width(),
                 .pooled = rows.data(),
                 .before = sums.data(),
                 .is_late = is_late,
                 .most_elements = of.ranks * of.most_bags * *std::ranges::max_element(of.widths),
                 .messages = messages.data(),
                 .stride = stride,
                 .counts = sent.data()});
    EXPECT_EQ(bits_of_rows(this->read(messages)), bits_of_rows(expected));
    EXPECT_EQ(this->read(sent), expected_counts);
  }
  void pack(BlocksCase const& of) {
    pack(of, false);
    pack(of, true);
  }

  BagsByPlace random_bags(BlocksCase const& of,
                          std::vector<std::int64_t> const& rows,
                          std::int64_t longest) {
    BagsByPlace bags;
    for (auto const of_slot : rows) {
      for (std::int64_t i = 0; i < of.ranks * of.most_bags; ++i) {
        auto const length = this->random.integer(0, 3) == 0 ? 0 : this->random.integer(0, longest);
        // -1 and the first number behind the rows are no rows.
        bags.add(this->random.integers(length, -1, of_slot));
      }
    }
    return bags;
  }
};
TYPED_TEST_SUITE(PooledAheadTest, StreamKinds, StreamKindName);

TYPED_TEST(PooledAheadTest, messages_have_the_rows_of_their_bags_and_the_places_of_all) {
  this->pack({{128, 128}, 2, 40});
  this->pack({{4}, 1, 1});
  this->pack({{1}, 3, 33});
  this->pack({{16, 8, 32}, 4, 20});
  this->pack({{256, 1, 7, 33}, 2, 12, 1});
  this->pack({{12, 4}, 2, 3, 2});
  this->pack({{4, 4}, 2, 2'011});
}

TYPED_TEST(PooledAheadTest, messages_of_random_shapes_have_the_rows_of_their_bags) {
  for (int i = 0; i < 40 && !this->HasFailure(); ++i) {
    BlocksCase of{.widths = {},
                  .ranks = this->random.integer(1, 4),
                  .most_bags = this->random.integer(1, 50),
                  .padding = this->random.integer(0, 4)};
    auto const by = this->random.integer(0, 1) == 0 ? 1 : 4;
    for (auto slots = this->random.integer(1, 6); slots > 0; --slots) {
      of.widths.push_back(static_cast<std::int32_t>(this->random.integer(1, 40) * by));
    }
    this->pack(of);
  }
}

TYPED_TEST(PooledAheadTest, late_bags_are_those_with_a_row_that_other_bags_name) {
  for (int i = 0; i < 20 && !this->HasFailure(); ++i) {
    BlocksCase of{.widths = {},
                  .ranks = this->random.integer(1, 4),
                  .most_bags = this->random.integer(1, 30)};
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> first_rows{0};
    for (auto slots = this->random.integer(1, 4); slots > 0; --slots) {
      of.widths.push_back(static_cast<std::int32_t>(this->random.integer(1, 9)));
      rows.push_back(this->random.integer(1, 300));
      first_rows.push_back(first_rows.back() + rows.back());
    }
    auto const bags = this->random_bags(of, rows, 9);
    auto const touching = this->random_bags(of, rows, 2);
    auto const bags_of_slot = static_cast<std::size_t>(of.ranks * of.most_bags);
    std::set<std::pair<std::size_t, std::int64_t>> touched;
    for (std::size_t bag = 0; bag < touching.ids.size(); ++bag) {
      for (auto const id : touching.ids[bag]) {
        touched.emplace(bag / bags_of_slot, id);
      }
    }
    std::vector<std::int64_t> early;
    std::vector<std::int64_t> late;
    std::vector<std::int64_t> counts(bags.ids.size());
    for (std::size_t bag = 0; bag < bags.ids.size(); ++bag) {
      auto const slot = bag / bags_of_slot;
      bool has_row = false;
      bool is_late = false;
      for (auto const id : bags.ids[bag]) {
        bool const is_row = id >= 0 && id < rows[slot];
        has_row = has_row || is_row;
        is_late = is_late || (is_row && touched.contains({slot, id}));
      }
      for (auto const id : bags.ids[bag]) {
        early.push_back(is_late ? -1 : id);
        late.push_back(is_late ? id : -1);
      }
      auto const most_bags = static_cast<std::size_t>(of.most_bags);
      auto const rank = bag / most_bags % static_cast<std::size_t>(of.ranks);
      auto const number = (rank * rows.size() + slot) * most_bags + bag % most_bags;
      std::int64_t const columns = has_row ? of.widths[slot] : 0;
      counts[number] = is_late ? columns << 32 : columns;
    }

    auto const blocks = this->descriptors(of, rows);
    auto const first = this->upload(first_rows);
    auto const uploaded = [&](BagsByPlace const& some) {
      return std::pair(this->upload(some.places), this->upload(some.offsets));
    };
    auto const ids = uploaded(bags);
    auto const ids_touching = uploaded(touching);
    auto const args_of = [&](auto const& places) {
      return BagsOfBlocks{.blocks = blocks.data(),
                          .first_rows = first.data(),
                          .slots = of.slots(),
                          .ranks = of.ranks,
                          .most_bags = of.most_bags,
                          .ids = places.first.data(),
                          .offsets = places.second.data(),
                          .capacity = static_cast<std::int64_t>(places.first.count())};
    };
    auto const marks = this->upload(
        std::vector<std::uint32_t>(static_cast<std::size_t>(first_rows.back() / kRowsOfMark + 1)));
    marked_rows(this->stream(), {args_of(ids_touching), marks.data()});
    auto const early_ids = this->upload(std::vector<std::int64_t>(early.size(), -7));
    auto const late_ids = this->upload(std::vector<std::int64_t>(late.size(), -7));
    auto const found = this->integers(std::ssize(counts));
    split_bags(this->stream(),
               {args_of(ids), marks.data(), early_ids.data(), late_ids.data(), found.data()});
    EXPECT_EQ(this->read(early_ids), early);
    EXPECT_EQ(this->read(late_ids), late);
    EXPECT_EQ(this->read(found), counts);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
