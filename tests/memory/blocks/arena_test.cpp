// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/arena.hpp"

#include "base/many.hpp"
#include "memory/blocks/block_uses.hpp"

#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace msstream::memory {
namespace {

constexpr std::size_t kGrain = SizeBin::kGrainBytes;
constexpr std::size_t kGrains = 400;

TEST(SizeBin, has_sizes_in_order_and_of_one_size_while_they_are_small) {
  std::size_t last = SizeBin::of(kGrain);
  for (std::size_t grains = 2; grains < 10'000; ++grains) {
    auto const bin = SizeBin::of(grains * kGrain);
    EXPECT_GE(bin, last);
    EXPECT_LE(bin, last + 1);
    if (grains <= 64) {
      EXPECT_EQ(bin, last + 1) << grains;
    }
    last = bin;
  }
  EXPECT_LT(SizeBin::of(std::size_t{1} << 46U), SizeBin::kCount);
  EXPECT_EQ(SizeBin::round_up(1), kGrain);
  EXPECT_EQ(SizeBin::round_up(kGrain), kGrain);
}

/// A fixture with an arena and a reference model, `picture_`: the state of each grain, which is the
/// unit of memory, and the newest use of the grain by each stream.
class ArenaTest : public ::testing::Test {
 protected:
  using Uses = std::map<order::StreamIndex, std::uint64_t>;
  static constexpr order::StreamIndex kStreams = 6;

  struct Grain {
    Holding holding = Holding::absent;
    Uses uses;
  };

  ArenaTest() {
    provide_spares();
    arena_.reserve(begin_, kGrains * kGrain);
  }

  void provide_spares(Arena& arena) {
    while (arena.needs_spares()) {
      arena.add_spare(std::make_unique<Block>());
      ++spares_made_;
    }
  }
  void provide_spares() { provide_spares(arena_); }
  [[nodiscard]] std::size_t place(std::byte const* address) const {
    return static_cast<std::size_t>(address - begin_) / kGrain;
  }
  static Uses uses_of(Block const& block) {
    Uses uses;
    for_each_use(block, [&](order::Position use) {
      uses[use.stream] = std::max(uses[use.stream], use.number);
    });
    return uses;
  }
  template <class Change>
  void change(Block const& block, Change&& change_one) {
    for (std::size_t i = 0; i < block.bytes / kGrain; ++i) {
      change_one(picture_.at(place(block.data) + i));
    }
  }

  /// Expects that the free blocks of the arena contain all free grains, have no free neighbours,
  /// and know the newest use of each of their grains.
  void expect_like_the_picture() {
    std::size_t free_grains = 0;
    arena_.for_each_free([&](Block* block) {
      auto const first = place(block->data);
      auto const count = block->bytes / kGrain;
      free_grains += count;
      Uses newest;
      for (std::size_t i = first; i < first + count; ++i) {
        ASSERT_EQ(picture_.at(i).holding, Holding::free);
        for (auto const& [stream, number] : picture_.at(i).uses) {
          newest[stream] = std::max(newest[stream], number);
        }
      }
      auto const known = uses_of(*block);
      for (auto const& [stream, number] : newest) {
        ASSERT_TRUE(known.contains(stream) && known.at(stream) >= number) << "a use is forgotten";
      }
      ASSERT_TRUE(first == 0 || picture_.at(first - 1).holding != Holding::free);
      ASSERT_TRUE(first + count == kGrains || picture_.at(first + count).holding != Holding::free);
    });
    auto const expected =
        static_cast<std::size_t>(std::count_if(picture_.begin(), picture_.end(), [](auto& grain) {
          return grain.holding == Holding::free;
        }));
    ASSERT_EQ(free_grains, expected);
    ASSERT_EQ(arena_.free_bytes(), expected * kGrain);
  }
  [[nodiscard]] bool is_absent(std::size_t grain) const {
    return grain < kGrains && picture_.at(grain).holding == Holding::absent;
  }
  [[nodiscard]] bool is_whole_absent_range(std::size_t first, std::size_t count) const {
    for (std::size_t i = first; i < first + count; ++i) {
      if (!is_absent(i)) {
        return false;
      }
    }
    return !is_absent(first - 1) && !is_absent(first + count);
  }
  [[nodiscard]] std::size_t longest_absent() const {
    std::size_t longest = 0;
    for (std::size_t i = 0, count = 0; i < kGrains; ++i) {
      count = is_absent(i) ? count + 1 : 0;
      longest = std::max(longest, count);
    }
    return longest;
  }
  /// Returns the length of the shortest range without memory that has at least `least` grains, or
  /// kGrains if there is none.
  [[nodiscard]] std::size_t shortest_absent(std::size_t least) const {
    std::size_t shortest = kGrains;
    for (std::size_t i = 0, count = 0; i <= kGrains; ++i) {
      bool const goes_on = i < kGrains && is_absent(i);
      if (!goes_on && count != 0 && count >= least) {
        shortest = std::min(shortest, count);
      }
      count = goes_on ? count + 1 : 0;
    }
    return shortest;
  }
  /// Returns the sizes of the free blocks that `stream` has not used.
  std::vector<std::size_t> ready_sizes(order::StreamIndex stream) {
    std::vector<std::size_t> sizes;
    arena_.for_each_free([&](Block* block) {
      if (!uses_of(*block).contains(stream)) {
        sizes.push_back(block->bytes);
      }
    });
    return sizes;
  }

  // The arena only computes with addresses, so no memory is needed behind them.
  std::byte* begin_ = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 32U);
  Arena arena_;
  std::array<Grain, kGrains> picture_;
  int spares_made_ = 0;
};

TEST_F(ArenaTest, is_like_a_picture_of_it_after_any_sequence_of_calls) {
  std::mt19937 random(20260111);
  std::vector<Block*> used;
  std::map<order::StreamIndex, std::uint64_t> numbers;
  for (std::uint32_t step = 0; step < msstream::testing::many_at_night(60'000); ++step) {
    provide_spares();
    auto const roll = random() % 100;
    if (roll < 45) {
      auto const bytes = (1 + random() % 30) * kGrain;
      auto const stream = static_cast<order::StreamIndex>(random() % kStreams);
      auto const sizes = ready_sizes(stream);
      auto* const block =
          arena_.take(bytes, [&](Block const& free) { return !uses_of(free).contains(stream); });
      auto const fits = [&](std::size_t size) { return size >= bytes; };
      if (block == nullptr) {
        ASSERT_TRUE(std::none_of(sizes.begin(), sizes.end(), fits)) << "step " << step;
        continue;
      }
      ASSERT_EQ(block->bytes, bytes);
      change(*block, [](Grain& grain) {
        ASSERT_EQ(grain.holding, Holding::free);
        grain.holding = Holding::used;
      });
      used.push_back(block);
    } else if (roll < 90) {
      if (used.empty()) {
        continue;
      }
      auto const which = random() % used.size();
      auto* const block = used[which];
      used[which] = used.back();
      used.pop_back();
      auto const stream = static_cast<order::StreamIndex>(random() % kStreams);
      block->record.log.note_write({stream, ++numbers[stream]});
      change(*block, [&](Grain& grain) {
        grain.holding = Holding::free;
        grain.uses = {{stream, numbers[stream]}};
      });
      arena_.put(block, [](auto const&, auto const&) { return true; });
    } else if (roll < 95) {
      auto const wanted = random() % 60;
      arena_.choose_unpopulated(wanted * kGrain);
      auto const* const rest = arena_.unpopulated();
      auto const longest = longest_absent();
      ASSERT_EQ(rest == nullptr, longest == 0);
      if (rest == nullptr) {
        continue;
      }
      ASSERT_TRUE(is_whole_absent_range(place(rest->data), rest->bytes / kGrain));
      ASSERT_EQ(rest->bytes / kGrain, shortest_absent(std::min(wanted, longest)));
      auto const grains = 1 + random() % std::min<std::size_t>(40, rest->bytes / kGrain);
      auto const first = place(rest->data);
      auto* const last =
          random() % 2 == 0 ? arena_.take_last([](auto const&) { return true; }) : nullptr;
      auto const begin = last != nullptr ? place(last->data) : first;
      ASSERT_TRUE(last == nullptr || place(last->data + last->bytes) == first);
      auto const taken = (first - begin) + 1 + random() % grains;
      auto* const block = arena_.populate(last, grains * kGrain, taken * kGrain);
      ASSERT_EQ(place(block->data), begin);
      ASSERT_EQ(block->bytes, taken * kGrain);
      for (std::size_t i = begin; i < first + grains; ++i) {
        ASSERT_EQ(picture_.at(i).holding, i < first ? Holding::free : Holding::absent);
        picture_.at(i).holding = i < begin + taken ? Holding::used : Holding::free;
      }
      used.push_back(block);
    } else {
      std::vector<Block*> free;
      arena_.for_each_free([&](Block* block) { free.push_back(block); });
      if (free.empty()) {
        continue;
      }
      auto* const block = free[random() % free.size()];
      auto const grains = block->bytes / kGrain;
      auto const skipped = random() % grains;
      auto const count = 1 + random() % (grains - skipped);
      auto const first = place(block->data) + skipped;
      arena_.vacate(arena_.take_part(block, block->data + skipped * kGrain, count * kGrain));
      for (std::size_t i = first; i < first + count; ++i) {
        picture_.at(i) = {};
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_like_the_picture()) << "step " << step;
  }
}

TEST_F(ArenaTest, takes_back_what_it_has_lent_however_that_was_cut_up) {
  constexpr auto always = [](auto const&...) { return true; };
  constexpr order::StreamIndex kStream = 1;
  std::mt19937 random(20261122);
  std::uint64_t number = 0;
  Arena borrower;
  std::vector<Block*> used;
  auto const put = [&](Arena& arena, std::size_t which) {
    auto* const block = used[which];
    used.erase(used.begin() + static_cast<std::ptrdiff_t>(which));
    block->record.log.note_write({kStream, ++number});
    change(*block, [&](Grain& grain) { grain = {Holding::free, {{kStream, number}}}; });
    arena.put(block, always);
  };
  auto const take = [&](Arena& arena, std::size_t grains) {
    provide_spares(arena);
    if (auto* const block = arena.take(grains * kGrain, always)) {
      change(*block, [](Grain& grain) { grain.holding = Holding::used; });
      used.push_back(block);
    }
  };

  used.push_back(arena_.populate(nullptr, kGrains * kGrain, kGrains * kGrain));
  change(*used.back(), [](Grain& grain) { grain.holding = Holding::used; });
  put(arena_, 0);
  for (int round = 0; round < 2'000; ++round) {
    provide_spares();
    auto* const lent = arena_.take((20 + random() % 60) * kGrain, always);
    if (lent == nullptr) {
      put(arena_, random() % used.size());
      continue;
    }
    provide_spares(borrower);
    auto* const first = borrower.borrow(*lent);
    auto const before = used.size();
    for (auto changes = random() % 12; changes > 0; --changes) {
      if (used.size() == before || random() % 3 != 0) {
        take(borrower, 1 + random() % 30);
      } else {
        put(borrower, before + random() % (used.size() - before));
      }
    }
    arena_.take_back(lent, first, borrower);
    arena_.join_neighbours(always);
    ASSERT_EQ(borrower.free_bytes(), 0U);
    ASSERT_NO_FATAL_FAILURE(expect_like_the_picture()) << "round " << round;
    while (used.size() > 8) {
      put(arena_, random() % used.size());
    }
  }
  while (!used.empty()) {
    put(arena_, 0);
  }
  EXPECT_EQ(arena_.largest_free_bytes(), kGrains * kGrain);
  EXPECT_LT(spares_made_, 200) << "they go back to who made them";
}

TEST_F(ArenaTest, finds_what_fits_behind_any_number_of_blocks_that_are_slightly_too_small) {
  constexpr auto always = [](auto const&...) { return true; };
  constexpr auto never = [](auto const&...) { return false; };
  constexpr std::size_t kSmall = 64 * kGrain;
  constexpr int kCount = 200;
  Arena arena;
  provide_spares(arena);
  arena.add(begin_, (kCount + 2) * kSmall);
  std::vector<Block*> small;
  for (int i = 0; i < kCount; ++i) {
    provide_spares(arena);
    small.push_back(arena.take(kSmall, always));
  }
  for (auto* const block : small) {
    arena.put(block, never);
  }
  // The requested size falls into the bin of the small blocks, all of which are too small for the
  // request.
  ASSERT_EQ(SizeBin::of(kSmall + kGrain), SizeBin::of(kSmall));
  provide_spares(arena);
  EXPECT_NE(arena.cheapest(kSmall + kGrain, [](auto const&) { return std::uint64_t{0}; }), nullptr);
  EXPECT_NE(arena.take(kSmall + kGrain, always), nullptr);
}

}  // namespace
}  // namespace msstream::memory
