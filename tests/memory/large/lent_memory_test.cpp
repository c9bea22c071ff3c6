// SPDX-License-Identifier: Apache-2.0
// Tests memory that is lent to one group, which alone allocates from it, and how other groups get
// it when they need it.
#include "memory/blocks/block_uses.hpp"
#include "memory/large/block_source.hpp"
#include "memory/large/large_blocks.hpp"
#include "memory/run_threads.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using memory::Block;
using memory::BlockSource;
using ::testing::ElementsAre;

constexpr std::size_t kQuarter = 4 * kMiB;
constexpr std::size_t kWhole = 4 * kQuarter;
constexpr std::size_t kArenaLimit = 16 * kWhole;
constexpr auto kAny = [](auto const&) { return true; };
constexpr auto kHasNone = [] { return false; };

class LentMemory : public ::testing::Test {
 protected:
  static constexpr int kGroups = 4;

  [[nodiscard]] detail::StreamSlot& slot(int group) {
    return pool[group].compute().engine().slot();
  }
  [[nodiscard]] Block* take(std::size_t bytes, int group) {
    return source.take(bytes, slot(group), kAny);
  }
  /// Lends fresh memory to the group, which alone allocates from it until it is taken back.
  bool lend(std::size_t bytes, int group) {
    source.put(source.grow(bytes, slot(group), kArenaLimit, [](auto const&) { return false; }));
    return source.lend(bytes, source.lent().of(slot(group)), kAny);
  }

  /// Returns how many bytes `large` has lent to the group.
  [[nodiscard]] std::size_t lent_bytes(int group) {
    return large.source().lent().of(slot(group)).lent_bytes();
  }

  Device<Host> device;
  StreamPool<Host> pool{device, {.groups = kGroups, .launch_threads = LaunchThreads::none}};
  BlockSource source{device.context(),
                     memory::Space::device,
                     std::make_shared<memory::Capacity>(kArenaLimit),
                     kWhole};
  memory::StreamCaches caches;
  memory::LargeBlocks large{device.context(),
                            memory::Space::device,
                            std::make_shared<memory::Capacity>(kArenaLimit),
                            kWhole,
                            kArenaLimit,
                            caches,
                            nullptr};
};

TEST_F(LentMemory, is_that_of_its_group_until_it_is_taken_back) {
  lend(kWhole, 0);
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  auto* const own = take(kQuarter, 0);
  ASSERT_NE(own, nullptr);
  source.put(own);
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  source.join_all();
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  source.take_back_and_join_all();
  auto* const others = take(kWhole, 1);
  EXPECT_EQ(others, own) << "the lowest part is the whole again";
  source.put(others);
}

TEST_F(LentMemory, in_use_goes_back_to_whoever_has_the_rest) {
  lend(kWhole, 0);
  auto* const low = take(kQuarter, 0);
  auto* const middle = take(kQuarter, 0);
  source.put(low);
  source.take_back_and_join_all();
  EXPECT_EQ(take(3 * kQuarter, 1), nullptr);
  source.put(middle);
  auto* const whole = take(kWhole, 1);
  ASSERT_NE(whole, nullptr);
  source.put(whole);
}

TEST_F(LentMemory, remembers_its_uses) {
  auto* const block = source.grow(kWhole, slot(0), kArenaLimit, kAny);
  auto const use = pool[1].compute().engine().mark();
  block->record.log.note_write(use);
  source.put(block);
  ASSERT_TRUE(source.lend(kWhole, source.lent().of(slot(0)), kAny));
  for (auto const& [group, bytes] : {std::pair{0, kQuarter}, {2, kWhole}}) {
    auto* const part = take(bytes, group);
    ASSERT_NE(part, nullptr);
    std::vector<order::Position> uses;
    memory::for_each_use(*part, [&](order::Position each) { uses.push_back(each); });
    EXPECT_THAT(uses, ElementsAre(use));
    source.put(part);
    source.take_back_and_join_all();
  }
}

TEST_F(LentMemory, goes_to_others_who_would_have_to_wait) {
  lend(kWhole, 0);
  auto* const block = source.take_lent(kQuarter, kAny);
  ASSERT_NE(block, nullptr);
  source.put(block);
  EXPECT_EQ(take(kQuarter, 1), nullptr) << "it went back to where it came from";
  EXPECT_EQ(take(kQuarter, 0), block);
  source.put(block);
}

TEST_F(LentMemory, is_taken_from_others_before_anybody_waits) {
  memory::LargeBlocks limited(device.context(),
                              memory::Space::device,
                              std::make_shared<memory::Capacity>(kArenaLimit),
                              kWhole,
                              2 * kWhole,
                              caches,
                              nullptr);
  auto* const pending = limited.any(kWhole, slot(0), kHasNone, kHasNone);
  auto* const lent = limited.any(kWhole, slot(0), kHasNone, kHasNone);
  auto const* const address = lent->data;
  limited.source().put(lent);
  ASSERT_TRUE(limited.source().lend(kWhole, limited.source().lent().of(slot(0)), kAny));
  Gate gate;
  gate.hold(pool[0].compute());
  pending->record.log.note_write(pool[0].compute().engine().mark());
  limited.source().put(pending);
  auto* const block = limited.any(kWhole, slot(1), kHasNone, kHasNone);
  EXPECT_EQ(block->data, address);
  limited.source().put(block);
  gate.open();
}

TEST_F(LentMemory, is_no_more_than_eight_parts) {
  std::vector<Block*> held;
  for (int part = 0; part < 8; ++part) {
    EXPECT_TRUE(lend(kWhole, 0));
    EXPECT_EQ(take(kWhole, 1), nullptr);
    held.push_back(take(kWhole, 0));
  }
  EXPECT_FALSE(lend(kWhole, 0));
  held.push_back(take(kWhole, 1));
  for (auto* const block : held) {
    ASSERT_NE(block, nullptr);
    source.put(block);
  }
}

TEST_F(LentMemory, is_nobodys_twice_while_threads_lend_and_join) {
  constexpr std::size_t kLeast = kMiB / 16;
  for (int i = 0; i < 8; ++i) {
    source.put(source.grow(kWhole, slot(0), kArenaLimit, [](auto const&) { return false; }));
  }
  std::atomic<int> joining{kGroups};
  std::atomic<int> wrong{0};
  run_threads(kGroups + 1, [&](int thread) {
    if (thread == kGroups) {
      while (joining.load() != 0) {
        source.take_back_and_join_all();
      }
      return;
    }
    std::mt19937 random(static_cast<unsigned>(thread) + 1);
    std::vector<Block*> held;
    auto const mark = [&](Block const& block, std::size_t at) -> std::byte& {
      return block.data[at * kLeast];
    };
    auto const value = static_cast<std::byte>(thread + 1);
    for (int i = 0; i < 20'000; ++i) {
      if (i % 64 == 0) {
        static_cast<void>(source.lend(kWhole, source.lent().of(slot(thread)), kAny));
      }
      if (auto* const block = take(kLeast * (1 + random() % 16), thread)) {
        for (std::size_t at = 0; at < block->bytes / kLeast; ++at) {
          mark(*block, at) = value;
        }
        held.push_back(block);
      }
      while (held.size() > 6 || (i == 19'999 && !held.empty())) {
        auto const which = random() % held.size();
        auto* const block = std::exchange(held[which], held.back());
        held.pop_back();
        for (std::size_t at = 0; at < block->bytes / kLeast; ++at) {
          wrong += mark(*block, at) != value ? 1 : 0;
        }
        source.put(block);
      }
    }
    --joining;
  });
  EXPECT_EQ(wrong.load(), 0);
  source.take_back_and_join_all();
  EXPECT_GE(source.largest_free_bytes(), 8 * kWhole);
}

/// Groups whose threads contend for the lock often enough are lent memory without asking. One
/// thread keeps the lock, under which a block is chosen, until the other one has most likely
/// reached it.
TEST_F(LentMemory, comes_to_threads_that_meet) {
  constexpr int kMostRounds = 10'000;  // 16 rounds are enough if the threads contend in each
  large.source().put(large.any(8 * kWhole, slot(0), kHasNone, kHasNone));
  std::atomic<bool> is_kept{false};
  std::atomic<bool> is_taking{false};
  std::atomic<bool> is_over{false};
  std::jthread const other([&] {
    while (!is_over) {
      if (is_kept) {
        is_taking = true;
        large.source().put(large.any(kQuarter, slot(1), kHasNone, kHasNone));
        is_taking = false;
      }
      std::this_thread::yield();
    }
  });
  auto const none_until_the_other_comes = [&](auto const&) {
    is_kept = true;
    for (int left = 20; left > 0; left -= is_taking ? 1 : 0) {
      std::this_thread::yield();
    }
    is_kept = false;
    return false;
  };
  for (int i = 0; i < kMostRounds && lent_bytes(1) == 0; ++i) {
    EXPECT_EQ(large.source().take(kQuarter, slot(0), none_until_the_other_comes), nullptr);
    while (is_taking) {
      std::this_thread::yield();
    }
  }
  is_over = true;
  EXPECT_GT(lent_bytes(1), 0U);
}

TEST_F(LentMemory, is_left_whole_by_what_is_kept_while_there_is_other) {
  auto& memory = large.source();
  memory.put(memory.grow(kWhole, slot(0), kArenaLimit, kAny));
  ASSERT_TRUE(memory.lend(kWhole, memory.lent().of(slot(0)), kAny));
  std::vector<Block*> kept;
  auto const keep = [&](std::size_t blocks) {
    while (kept.size() < blocks) {
      kept.push_back(large.to_keep_without_wait(kQuarter, kQuarter, slot(0)));
      ASSERT_NE(kept.back(), nullptr);
    }
  };
  keep((kArenaLimit - kWhole) / kQuarter);
  auto* const part = memory.take_own(kWhole, slot(0));
  ASSERT_NE(part, nullptr) << "there was fresh memory";
  memory.put(part);
  keep(kArenaLimit / kQuarter);
  std::for_each(kept.begin(), kept.end(), [&](auto* block) { memory.put(block); });
}

/// All memory under the limit is allocated. Half of it is then free, between blocks in use and with
/// uses in flight. The group is lent 7/8 of that half; an eighth is left for larger blocks.
TEST_F(LentMemory, of_a_group_in_need_is_put_together_under_the_limit) {
  std::vector<Block*> blocks;
  while (blocks.size() < kArenaLimit / kWhole) {
    blocks.push_back(large.any(kWhole, slot(1), kHasNone, kHasNone));
  }
  Gate gate;
  gate.hold(pool[1].compute());
  auto const use = pool[1].compute().engine().mark();
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    blocks[i]->record.log.note_write(use);
    large.source().put(blocks[i]);
  }
  auto* const block = large.any(kQuarter, slot(0), kHasNone, kHasNone);
  EXPECT_EQ(lent_bytes(0), kArenaLimit / 2 / 8 * 7);
  large.source().put(block);
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    large.source().put(blocks[i]);
  }
  gate.open();
}

TEST_F(LentMemory, goes_to_all_groups_when_the_first_is_in_need_under_the_limit) {
  auto* const whole = large.any(kArenaLimit, slot(1), kHasNone, kHasNone);
  EXPECT_EQ(lent_bytes(2), 0U);
  Gate gate;
  gate.hold(pool[1].compute());
  whole->record.log.note_write(pool[1].compute().engine().mark());
  large.source().put(whole);
  auto* const block = large.any(kQuarter, slot(0), kHasNone, kHasNone);
  EXPECT_GT(lent_bytes(0), kArenaLimit / 4);
  EXPECT_EQ(lent_bytes(1), lent_bytes(0));
  EXPECT_EQ(lent_bytes(2), lent_bytes(0));
  large.source().put(block);
  gate.open();
}

/// A fixture with a limit so large that a fixed part of it would be far more than any group needs.
class PoolWhereThreadsMeet : public LentMemory {
 protected:
  static constexpr std::size_t kLargeLimit = std::size_t{16} << 30U;

  /// Allocates a quarter for group 1, which has just contended for the lock often, and keeps it
  /// until the test ends.
  [[nodiscard]] Block* keep_quarter() {
    for (int i = 0; i < 16; ++i) {
      by_need.source().lent().of(slot(1)).note_contention();
    }
    kept.push_back(by_need.any(kQuarter, slot(1), kHasNone, kHasNone));
    return kept.back();
  }
  void TearDown() override {
    for (auto* const block : kept) {
      by_need.source().put(block);
    }
  }
  [[nodiscard]] std::size_t reserved_bytes() {
    return by_need.source().capacity().reserved_bytes();
  }

  memory::LargeBlocks by_need{device.context(),
                              memory::Space::device,
                              std::make_shared<memory::Capacity>(kLargeLimit),
                              kWhole,
                              0,
                              caches,
                              nullptr};
  std::vector<Block*> kept;
};

TEST_F(PoolWhereThreadsMeet, uses_what_lies_idle_elsewhere_before_it_grows) {
  by_need.source().put(by_need.any(4 * kWhole, slot(0), kHasNone, kHasNone));
  ASSERT_TRUE(by_need.source().lend(4 * kWhole, by_need.source().lent().of(slot(0)), kAny));
  auto const reserved = reserved_bytes();
  for (std::size_t i = 0; i < 4 * kWhole / kQuarter; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    static_cast<void>(keep_quarter());
    bool const is_contended = by_need.source().is_contended();
    if (std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1)) {
      GTEST_SKIP() << "this machine stood still for as long as threads that met are remembered";
    }
    ASSERT_TRUE(is_contended);
    ASSERT_EQ(reserved_bytes(), reserved) << i;
  }
}

TEST_F(PoolWhereThreadsMeet, grows_by_half_of_what_work_in_flight_uses) {
  auto* const used = by_need.any(4 * kWhole, slot(0), kHasNone, kHasNone);
  Gate gate;
  gate.hold(pool[0].compute());
  used->record.log.note_write(pool[0].compute().engine().mark());
  by_need.source().put(used);
  // group 0 = [gate, use]   free memory = [used]
  for (int i = 0; i < 24; ++i) {
    static_cast<void>(keep_quarter());
  }
  EXPECT_GT(reserved_bytes(), 4 * kWhole) << "while there is little, nobody waits";
  EXPECT_LE(reserved_bytes(), 6 * kWhole + kWhole + kQuarter * 3 / 2);
  gate.open();
}

/// The runtime has not been asked about free pieces that are too small for any request. Their work
/// is complete, so it is not a reason to grow.
TEST_F(PoolWhereThreadsMeet, asks_what_is_in_flight_before_it_grows) {
  std::vector<Block*> pieces(8 * kWhole / kQuarter);
  for (auto*& piece : pieces) {
    piece = by_need.any(kQuarter / 2, slot(0), kHasNone, kHasNone);
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    pieces[i]->record.log.note_write(pool[0].compute().engine().mark());
    by_need.source().put(pieces[i]);
  }
  auto const reserved = reserved_bytes();
  for (std::size_t i = 0; i < pieces.size() / 4; ++i) {
    static_cast<void>(keep_quarter());
    ASSERT_EQ(reserved_bytes(), reserved) << i;
  }
  for (std::size_t i = 1; i < pieces.size(); i += 2) {
    by_need.source().put(pieces[i]);
  }
}

/// Several threads allocate large blocks side by side through the allocator, as users do.
TEST(LentMemoryOfAllocator, is_not_lost_to_others_at_the_limit) {
  constexpr int kThreads = 4;
  Device<Host> const device({.memory = {.limit_bytes = kArenaLimit}});
  StreamPool pool(device, {.groups = kThreads});
  run_threads(kThreads, [&](int thread) {
    StreamScope const scope(pool[thread]);
    for (int i = 0; i < 20'000; ++i) {
      Tensor<std::uint8_t, Host> const block(device, {(2 + i % 13) << 20});
    }
  });
  EXPECT_NO_THROW((Tensor<std::uint8_t, Host>(device, {kArenaLimit})));
}

}  // namespace
}  // namespace msstream::testing
