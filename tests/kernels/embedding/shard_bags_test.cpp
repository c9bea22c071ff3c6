// SPDX-License-Identifier: Apache-2.0
// Tests the messages in which ranks send each other the bags of tables: each rank's messages, and
// what each rank makes of those that it gets from all.
#include "embedding/shard_bags.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

/// Fills ids before a kernel writes them: neither an id, nor -1 for one of another rank.
constexpr std::int64_t kUnwrittenId = -7;

struct BagsCase {
  std::int64_t ranks;
  bool is_narrow;  ///< whether ids are int32
  bool has_offsets;
  bool has_weights;
  bool is_short;  ///< whether messages may have no room for all ids
};

struct Bag {
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
};

struct Table {
  std::int64_t rows;
  std::int32_t hotness;
  std::int64_t default_id;
  std::int64_t owner;  ///< the rank that has it, or -1 if each rank has a part of the rows

  [[nodiscard]] bool has(std::int64_t id) const { return id >= 0 && id < rows; }
  /// Returns what is sent for a bag.
  [[nodiscard]] Bag sent(Bag const& bag) const {
    bool const has_valid = std::ranges::any_of(bag.ids, [&](auto id) { return has(id); });
    return default_id < 0 || has_valid ? bag : Bag{{default_id}, {1}};
  }
};

/// The tables of all ranks, and the slots of the messages that each rank sends.
struct Layout {
  std::int64_t ranks;
  std::int64_t most_bags;
  std::vector<Table> tables;
  std::vector<ShardSlot> slots;
  std::vector<ShardMessage> messages;
  std::vector<std::vector<ShardRows>> rows;  ///< of each rank's slots
  std::int64_t stride = 0;
  std::int64_t weight_stride = 0;

  Layout(BagsCase const& of, Random& random) : ranks(of.ranks), most_bags(random.integer(1, 40)) {
    auto const count = random.integer(1, 5);
    std::int64_t first_hotness = 0;
    std::vector<std::int64_t> first_hotnesses;
    std::vector<std::int32_t> reports(static_cast<std::size_t>(count), 1);
    for (std::int64_t t = 0; t < count; ++t) {
      auto const row_count = random.integer(1, 50);
      auto const hotness = random.integer(0, 2) == 0 ? 1 : random.integer(1, 37);
      tables.push_back(
          {.rows = row_count,
           .hotness = static_cast<std::int32_t>(hotness),
           .default_id = random.integer(0, 1) == 0 ? -1 : random.integer(0, row_count - 1),
           .owner = random.integer(-1, ranks - 1)});
      first_hotnesses.push_back(first_hotness);
      first_hotness += hotness;
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      auto& own = rows.emplace_back();
      auto const first_slot = std::ssize(slots);
      std::int64_t most_ids = 0;
      for (std::size_t t = 0; t < tables.size(); ++t) {
        auto const& table = tables[t];
        if (table.owner >= 0 && table.owner != rank) {
          continue;
        }
        slots.push_back({.rows = table.rows,
                         .first_hotness = first_hotnesses[t],
                         .table = static_cast<std::int32_t>(t),
                         .hotness = table.hotness,
                         .message = static_cast<std::int32_t>(rank),
                         .reports = std::exchange(reports[t], 0),
                         .default_id = table.default_id});
        auto const begin = table.owner >= 0 ? 0 : table.rows * rank / ranks;
        auto const end = table.owner >= 0 ? table.rows : table.rows * (rank + 1) / ranks;
        own.push_back({begin, end - begin, random.integer(0, 100)});
        most_ids += most_bags * table.hotness;
      }
      auto const capacity = of.is_short ? random.integer(0, most_ids) : most_ids;
      messages.push_back({first_slot, std::ssize(own), capacity});
      stride = std::max(stride, std::ssize(own) * most_bags + 1 + capacity + random.integer(0, 2));
      weight_stride = std::max(weight_stride, capacity + random.integer(0, 2));
    }
  }
};

/// The bags of one rank, by table and bag.
struct RankBags {
  std::int64_t bags;
  std::int64_t existing;  ///< bags of each table that are sent
  std::vector<std::vector<Bag>> of_tables;

  RankBags(BagsCase const& of, Layout const& layout, Random& random)
      : bags(random.integer(1, layout.most_bags)), existing(random.integer(0, bags)) {
    for (auto const& table : layout.tables) {
      auto& of_table = of_tables.emplace_back();
      for (std::int64_t b = 0; b < bags; ++b) {
        auto const length = !of.has_offsets             ? table.hotness
                            : random.integer(0, 2) == 0 ? 0
                                                        : random.integer(0, table.hotness);
        Bag bag{random.integers(length, 0, table.rows - 1), random.reals(length)};
        bool const is_bad = random.integer(0, 5) == 0;  // all of its ids
        for (auto& id : bag.ids) {
          if (is_bad || random.integer(0, 9) == 0) {
            id = random.integer(0, 1) == 0 ? -2 : table.rows;
          }
        }
        of_table.push_back(std::move(bag));
      }
    }
  }
};

/// The messages that a rank sends, and its reports.
struct SentMessages {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> numbers;
  std::vector<float> weights;
  std::vector<std::int64_t> counts;
  /// By slot and bag, as far as there is room.
  std::vector<std::vector<Bag>> kept;
  std::uint64_t bad_ids = 0;
  bool overflows = false;
};

[[nodiscard]] SentMessages expected_messages(Layout const& layout, RankBags const& own) {
  SentMessages sent;
  sent.numbers.assign(static_cast<std::size_t>(layout.ranks * layout.stride), kUnwrittenId);
  sent.weights.assign(static_cast<std::size_t>(layout.ranks * layout.weight_stride), -7);
  for (std::size_t m = 0; m < layout.messages.size(); ++m) {
    auto const& message = layout.messages[m];
    auto const at = static_cast<std::int64_t>(m) * layout.stride;
    auto const header = message.slots * layout.most_bags + 1;
    std::int64_t number = 0;
    std::int64_t ids = 0;
    for (auto s = message.first_slot; s < message.first_slot + message.slots; ++s) {
      auto const& slot = layout.slots[static_cast<std::size_t>(s)];
      auto const t = static_cast<std::size_t>(slot.table);
      auto& kept = sent.kept.emplace_back(static_cast<std::size_t>(layout.most_bags));
      for (std::int64_t b = 0; b < layout.most_bags; ++b) {
        Bag bag;
        if (b < own.existing) {
          auto const& whole = own.of_tables[t][static_cast<std::size_t>(b)];
          bag = layout.tables[t].sent(whole);
          sent.bad_ids += static_cast<std::uint64_t>(
              slot.reports == 0 ? 0 : std::ranges::count_if(whole.ids, [&](auto id) {
                return !layout.tables[t].has(id);
              }));
        }
        sent.lengths.push_back(std::ssize(bag.ids));
        if (number == 0) {
          sent.numbers[static_cast<std::size_t>(at)] = 0;
        }
        auto& to = kept[static_cast<std::size_t>(b)];
        for (std::size_t i = 0; i < bag.ids.size(); ++i) {
          if (ids == message.capacity) {
            sent.overflows = true;
            break;
          }
          sent.numbers[static_cast<std::size_t>(at + header + ids)] = bag.ids[i];
          sent.weights[m * static_cast<std::size_t>(layout.weight_stride) +
                       static_cast<std::size_t>(ids)] = bag.weights[i];
          to.ids.push_back(bag.ids[i]);
          to.weights.push_back(bag.weights[i]);
          ++ids;
        }
        sent.numbers[static_cast<std::size_t>(at + ++number)] = ids;
      }
    }
    sent.counts.push_back(message.slots == 0 ? 0 : header + ids);
  }
  return sent;
}

[[nodiscard]] std::vector<std::int64_t> offsets_of(std::vector<std::int64_t> const& lengths) {
  std::vector<std::int64_t> offsets{0};
  for (auto const length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

template <class Stream>
class ShardBagsTest : public KernelTest<Stream> {
 protected:
  /// Integers in memory of the device, of 32 or 64 bits, or none.
  struct Integers {
    std::optional<Buffer<std::int64_t>> wide = {};
    std::optional<Buffer<std::int32_t>> narrow = {};

    [[nodiscard]] IdArray array() const {
      return narrow ? IdArray(narrow->data()) : wide ? IdArray(wide->data()) : IdArray();
    }
  };
  Integers integers_of(std::vector<std::int64_t> const& values, bool is_narrow) {
    Integers held;
    if (is_narrow) {
      held.narrow = this->upload(std::vector<std::int32_t>(values.begin(), values.end()));
    } else {
      held.wide = this->upload(values);
    }
    return held;
  }

  /// Sends the bags of a rank, and compares the messages and the reports with those expected.
  SentMessages send(BagsCase const& of, Layout const& layout, RankBags const& own) {
    std::vector<std::int64_t> ids;
    std::vector<float> weights;
    std::vector<std::int64_t> offsets{0};
    for (auto const& table : own.of_tables) {
      for (auto const& bag : table) {
        ids.insert(ids.end(), bag.ids.begin(), bag.ids.end());
        weights.insert(weights.end(), bag.weights.begin(), bag.weights.end());
        offsets.push_back(std::ssize(ids));
      }
    }
    auto const id_array = integers_of(ids, of.is_narrow);
    auto const offset_array =
        of.has_offsets ? integers_of(offsets, this->random.integer(0, 1) == 0) : Integers();
    auto const weight_array = this->upload(weights);
    auto const count = this->scalar(own.existing);
    auto const slots = this->upload(layout.slots);
    auto const messages = this->upload(layout.messages);
    auto const bad = this->upload(std::vector<std::uint64_t>{0});
    auto const trap = this->pinned(IdTrap{});
    auto const overflow = this->pinned(IdTrap{});
    SentBagsArgs const args{.slots = slots.data(),
                            .slot_count = std::ssize(layout.slots),
                            .messages = messages.data(),
                            .message_count = layout.ranks,
                            .most_bags = layout.most_bags,
                            .bags = {.ids = id_array.array(),
                                     .offsets = offset_array.array(),
                                     .capacity = std::ssize(ids),
                                     .tables = std::ssize(layout.tables),
                                     .bags = own.bags,
                                     .count = count.data(),
                                     .weights = of.has_weights ? weight_array.data() : nullptr},
                            .report = {.count = bad.data(), .trap = trap.data(), .operation = 3},
                            .overflow = {.trap = overflow.data(), .operation = 4}};

    auto expected = expected_messages(layout, own);
    auto const lengths = this->integers(std::ssize(expected.lengths));
    sent_lengths(this->stream(), args, lengths.data());
    EXPECT_EQ(this->read(lengths), expected.lengths);

    auto const sums = this->upload(offsets_of(expected.lengths));
    auto const numbers =
        this->upload(std::vector<std::int64_t>(expected.numbers.size(), kUnwrittenId));
    auto const sent_weights = this->upload(std::vector<float>(expected.weights.size(), -7));
    auto const counts = this->integers(layout.ranks);
    sent_ids(this->stream(),
             args,
             {.offsets = sums.data(),
              .messages = numbers.data(),
              .stride = layout.stride,
              .counts = counts.data(),
              .weights = of.has_weights ? sent_weights.data() : nullptr,
              .weight_stride = layout.weight_stride});
    EXPECT_EQ(this->read(numbers), expected.numbers);
    EXPECT_EQ(this->read(counts), expected.counts);
    if (of.has_weights) {
      EXPECT_EQ(this->read(sent_weights), expected.weights);
    }
    EXPECT_EQ(this->read(bad), std::vector{expected.bad_ids});
    EXPECT_EQ(trap.data()->set, expected.bad_ids > 0 ? 1U : 0U);
    if (expected.bad_ids > 0) {
      auto const& caught = trap.data()->caught;
      auto const& table = layout.tables.at(static_cast<std::size_t>(caught.end - 1));
      EXPECT_EQ(std::tuple(trap.data()->operation, caught.bag, caught.rows),
                std::tuple(3U, std::int64_t{-1}, table.rows));
      EXPECT_FALSE(table.has(caught.id)) << caught.id;
    }
    EXPECT_EQ(overflow.data()->set, expected.overflows ? 1U : 0U);
    return expected;
  }

  /// Lets a rank receive its messages of all ranks, and compares its ids with those expected.
  /// `is_apart`: whether the ids are those of another array, behind no offsets.
  void receive(BagsCase const& of,
               Layout const& layout,
               std::vector<SentMessages> const& sent,
               std::size_t rank,
               bool is_apart) {
    auto const& message = layout.messages[rank];
    auto const header = message.slots * layout.most_bags + 1;
    std::vector<std::int64_t> numbers;
    std::vector<float> weights;
    for (auto const& of_rank : sent) {
      auto const first =
          of_rank.numbers.begin() + static_cast<std::ptrdiff_t>(rank) * layout.stride;
      numbers.insert(numbers.end(), first, first + layout.stride);
      auto const weight =
          of_rank.weights.begin() + static_cast<std::ptrdiff_t>(rank) * layout.weight_stride;
      weights.insert(weights.end(), weight, weight + layout.weight_stride);
    }
    std::vector<std::int64_t> const ids_apart(numbers.begin() + header, numbers.end());
    if (is_apart) {
      std::fill(numbers.begin() + header, numbers.end(), kUnwrittenId);
    }
    std::vector<std::int64_t> expected_lengths;
    std::vector<std::int64_t> expected_ids;
    std::vector<float> expected_weights;
    for (std::int64_t s = 0; s < message.slots; ++s) {
      auto const& rows = layout.rows[rank][static_cast<std::size_t>(s)];
      for (auto const& of_rank : sent) {
        for (auto const& bag : of_rank.kept[static_cast<std::size_t>(message.first_slot + s)]) {
          expected_lengths.push_back(std::ssize(bag.ids));
          for (std::size_t i = 0; i < bag.ids.size(); ++i) {
            bool const is_own = bag.ids[i] >= rows.first && bag.ids[i] < rows.first + rows.count;
            expected_ids.push_back(is_own ? bag.ids[i] - rows.first + rows.number : -1);
            expected_weights.push_back(bag.weights[i]);
          }
        }
      }
    }
    auto const own_rows = this->upload(layout.rows[rank]);
    auto const received = this->upload(numbers);
    auto const received_weights = this->upload(weights);
    auto const apart = this->upload(ids_apart);
    ReceivedBagsArgs const args{.rows = own_rows.data(),
                                .slots = message.slots,
                                .ranks = layout.ranks,
                                .most_bags = layout.most_bags,
                                .messages = received.data(),
                                .stride = layout.stride,
                                .capacity = message.capacity,
                                .ids = is_apart ? apart.data() : nullptr,
                                .weights = of.has_weights ? received_weights.data() : nullptr,
                                .weight_stride = layout.weight_stride};
    auto const lengths = this->integers(std::ssize(expected_lengths));
    received_lengths(this->stream(), args, lengths.data());
    EXPECT_EQ(this->read(lengths), expected_lengths);

    // Behind the last id there is room that no kernel writes.
    expected_ids.resize(expected_ids.size() + 5, kUnwrittenId);
    expected_weights.resize(expected_ids.size(), -7);
    auto const offsets = this->upload(offsets_of(expected_lengths));
    auto const ids = this->upload(std::vector<std::int64_t>(expected_ids.size(), kUnwrittenId));
    auto const to_weights = this->upload(std::vector<float>(expected_weights.size(), -7));
    received_ids(this->stream(),
                 args,
                 offsets.data(),
                 ids.data(),
                 of.has_weights ? to_weights.data() : nullptr);
    EXPECT_EQ(this->read(ids), expected_ids);
    if (of.has_weights) {
      EXPECT_EQ(this->read(to_weights), expected_weights);
    }
  }
};
TYPED_TEST_SUITE(ShardBagsTest, StreamKinds, StreamKindName);

TYPED_TEST(ShardBagsTest, ranks_receive_the_bags_of_all_ranks_in_their_tables) {
  constexpr int kChoices = 4 * 2 * 2 * 2 * 2;
  for (int choice = 0; choice < 3 * kChoices && !this->HasFailure(); ++choice) {
    BagsCase const of{.ranks = 1 + choice % 4,
                      .is_narrow = choice / 4 % 2 == 0,
                      .has_offsets = choice / 8 % 2 == 0,
                      .has_weights = choice / 16 % 2 == 0,
                      .is_short = choice / 32 % 2 == 0};
    Layout const layout(of, this->random);
    SCOPED_TRACE(fmt::format("choice {}: {} ranks, {} tables, {} bags",
                             choice,
                             of.ranks,
                             layout.tables.size(),
                             layout.most_bags));
    std::vector<SentMessages> sent;
    for (std::int64_t rank = 0; rank < of.ranks; ++rank) {
      sent.push_back(this->send(of, layout, RankBags(of, layout, this->random)));
    }
    for (std::size_t rank = 0; rank < sent.size(); ++rank) {
      this->receive(of, layout, sent, rank, false);
    }
    if (of.ranks == 1) {
      this->receive(of, layout, sent, 0, true);
    }
  }
}

TYPED_TEST(ShardBagsTest, a_bag_with_bad_offsets_is_sent_empty_and_reported_once) {
  auto const slots = this->upload(std::vector<ShardSlot>{
      {.rows = 5, .first_hotness = 0, .table = 0, .hotness = 2, .message = 0, .reports = 1},
      {.rows = 5, .first_hotness = 0, .table = 0, .hotness = 2, .message = 1, .reports = 0}});
  auto const messages = this->upload(std::vector<ShardMessage>{{0, 1, 4}, {1, 1, 4}});
  auto const ids = this->upload(std::vector<std::int32_t>{1, 2, 3});
  auto const offsets = this->upload(std::vector<std::int64_t>{3, 1});
  auto const bad = this->upload(std::vector<std::uint64_t>{0});
  auto const trap = this->pinned(IdTrap{});
  SentBagsArgs const args{.slots = slots.data(),
                          .slot_count = 2,
                          .messages = messages.data(),
                          .message_count = 2,
                          .most_bags = 1,
                          .bags = {.ids = ids.data(),
                                   .offsets = offsets.data(),
                                   .capacity = 3,
                                   .tables = 1,
                                   .bags = 1,
                                   .count = nullptr},
                          .report = {.count = bad.data(), .trap = trap.data(), .operation = 3},
                          .overflow = {}};
  auto const lengths = this->integers(2);
  sent_lengths(this->stream(), args, lengths.data());
  EXPECT_EQ(this->read(lengths), std::vector<std::int64_t>(2, 0));
  EXPECT_EQ(this->read(bad), std::vector<std::uint64_t>{1});
  auto const& caught = trap.data()->caught;
  EXPECT_EQ(trap.data()->set, 1U);
  EXPECT_EQ(std::tuple(caught.bag, caught.id, caught.end, caught.rows), std::tuple(0, 3, 1, 3));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
