// SPDX-License-Identifier: Apache-2.0
// Tests memory that is reserved for one stream group, and how other groups get it when they run
// short of memory.
#include "memory/blocks/block_uses.hpp"
#include "memory/large/large_allocator.hpp"
#include "memory/pools/search_order.hpp"
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
using memory::LargeAllocator;
using memory::SearchOrder;
using ::testing::ElementsAre;

constexpr std::size_t kQuarter = 4 * kMiB;
constexpr std::size_t kWhole = 4 * kQuarter;
constexpr std::size_t kArenaLimit = 16 * kWhole;
constexpr auto kAny = [](auto const&) { return true; };
constexpr auto kHasNone = [] { return false; };

class GroupShares : public ::testing::Test {
 protected:
  static constexpr int kGroups = 4;

  [[nodiscard]] detail::StreamSlot& slot(int group) {
    return pool[group].compute().engine().slot();
  }
  [[nodiscard]] Block* take(std::size_t bytes, int group) {
    return source.take(bytes, slot(group), kAny);
  }
  /// Allocates a large block for the group, by the steps of the allocator's search.
  [[nodiscard]] Block* find(LargeAllocator& from, std::size_t bytes, int group) {
    return memory::find_large(from, {bytes, bytes, slot(group), kHasNone});
  }
  /// Lends fresh memory to a stream group: only that group allocates from it until it is taken
  /// back.
  bool lend(std::size_t bytes, int group) {
    source.put(source.grow(bytes, slot(group), kArenaLimit, [](auto const&) { return false; }));
    return source.shares().lend(bytes, slot(group), kAny);
  }

  /// Returns how many bytes the allocator `large` has lent to the stream group.
  [[nodiscard]] std::size_t lent_bytes(int group) { return large.shares().bytes_of(slot(group)); }

  Device<Host> device;
  StreamPool<Host> pool{device, {.groups = kGroups, .launch_threads = LaunchThreads::none}};
  memory::StreamCaches caches;
  LargeAllocator source{device.context(),
                        memory::Space::device,
                        std::make_shared<memory::Capacity>(kArenaLimit),
                        kWhole,
                        kArenaLimit,
                        caches};
  LargeAllocator large{device.context(),
                       memory::Space::device,
                       std::make_shared<memory::Capacity>(kArenaLimit),
                       kWhole,
                       kArenaLimit,
                       caches};
};

TEST_F(GroupShares, is_that_of_its_group_until_it_is_taken_back) {
  lend(kWhole, 0);
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  auto* const own = take(kQuarter, 0);
  ASSERT_NE(own, nullptr);
  source.put(own);
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  source.backing().arena().join_all();
  EXPECT_EQ(take(kQuarter, 1), nullptr);
  source.take_back_and_join_all();
  auto* const others = take(kWhole, 1);
  EXPECT_EQ(others, own) << "the lowest part is the whole again";
  source.put(others);
}

TEST_F(GroupShares, in_use_goes_back_to_whoever_has_the_rest) {
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

TEST_F(GroupShares, remembers_its_uses) {
  auto* const block = source.grow(kWhole, slot(0), kArenaLimit, kAny);
  auto const use = pool[1].compute().engine().mark();
  block->record.log.note_write(use);
  source.put(block);
  ASSERT_TRUE(source.shares().lend(kWhole, slot(0), kAny));
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

TEST_F(GroupShares, goes_to_others_who_would_have_to_wait) {
  lend(kWhole, 0);
  auto* const block = source.shares().take_of_any(kQuarter, kAny);
  ASSERT_NE(block, nullptr);
  source.put(block);
  EXPECT_EQ(take(kQuarter, 1), nullptr) << "it went back to where it came from";
  EXPECT_EQ(take(kQuarter, 0), block);
  source.put(block);
}

TEST_F(GroupShares, is_taken_from_others_before_anybody_waits) {
  LargeAllocator limited(device.context(),
                         memory::Space::device,
                         std::make_shared<memory::Capacity>(kArenaLimit),
                         kWhole,
                         2 * kWhole,
                         caches);
  auto* const pending = find(limited, kWhole, 0);
  auto* const lent = find(limited, kWhole, 0);
  auto const* const address = lent->data;
  limited.put(lent);
  ASSERT_TRUE(limited.shares().lend(kWhole, slot(0), kAny));
  Gate gate;
  gate.hold(pool[0].compute());
  pending->record.log.note_write(pool[0].compute().engine().mark());
  limited.put(pending);
  auto* const block = find(limited, kWhole, 1);
  EXPECT_EQ(block->data, address);
  limited.put(block);
  gate.open();
}

TEST_F(GroupShares, is_no_more_than_eight_parts) {
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

TEST_F(GroupShares, is_nobodys_twice_while_threads_lend_and_join) {
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
        static_cast<void>(source.shares().lend(kWhole, slot(thread), kAny));
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
  EXPECT_GE(source.backing().arena().access()->largest_free_bytes(), 8 * kWhole);
}

/// Groups whose threads contend often for the allocator's lock are lent memory without a request.
/// To make them contend, one thread keeps the lock while a block is chosen, until the other thread
/// has most likely reached the lock.
TEST_F(GroupShares, comes_to_threads_that_meet) {
  constexpr int kMostRounds = 10'000;  // 16 rounds are enough if the threads contend in each
  large.put(find(large, 8 * kWhole, 0));
  std::atomic<bool> is_kept{false};
  std::atomic<bool> is_taking{false};
  std::atomic<bool> is_over{false};
  std::jthread const other([&] {
    while (!is_over) {
      if (is_kept) {
        is_taking = true;
        large.put(find(large, kQuarter, 1));
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
    EXPECT_EQ(large.take(kQuarter, slot(0), none_until_the_other_comes), nullptr);
    while (is_taking) {
      std::this_thread::yield();
    }
  }
  is_over = true;
  EXPECT_GT(lent_bytes(1), 0U);
}

TEST_F(GroupShares, is_left_whole_by_what_is_kept_while_there_is_other) {
  large.put(large.grow(kWhole, slot(0), kArenaLimit, kAny));
  ASSERT_TRUE(large.shares().lend(kWhole, slot(0), kAny));
  std::vector<Block*> kept;
  auto const keep = [&](std::size_t blocks) {
    while (kept.size() < blocks) {
      memory::LargeRequest const slab{kQuarter, kQuarter, slot(0), kHasNone, nullptr, true};
      kept.push_back(memory::find_large(large, slab, SearchOrder::kFirst, SearchOrder::kShares));
      ASSERT_NE(kept.back(), nullptr);
    }
  };
  keep((kArenaLimit - kWhole) / kQuarter);
  auto* const part = large.shares().take(kWhole, slot(0), kAny);
  ASSERT_NE(part, nullptr) << "there was fresh memory";
  large.put(part);
  keep(kArenaLimit / kQuarter);
  std::for_each(kept.begin(), kept.end(), [&](auto* block) { large.put(block); });
}

/// All memory under the limit is allocated. Then half of it is freed, in pieces between blocks in
/// use and with uses in flight. The group is lent 7/8 of the free half; 1/8 is left for larger
/// blocks.
TEST_F(GroupShares, of_a_group_in_need_is_put_together_under_the_limit) {
  std::vector<Block*> blocks;
  while (blocks.size() < kArenaLimit / kWhole) {
    blocks.push_back(find(large, kWhole, 1));
  }
  Gate gate;
  gate.hold(pool[1].compute());
  auto const use = pool[1].compute().engine().mark();
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    blocks[i]->record.log.note_write(use);
    large.put(blocks[i]);
  }
  auto* const block = find(large, kQuarter, 0);
  EXPECT_EQ(lent_bytes(0), kArenaLimit / 2 / 8 * 7);
  large.put(block);
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    large.put(blocks[i]);
  }
  gate.open();
}

TEST_F(GroupShares, goes_to_all_groups_when_the_first_is_in_need_under_the_limit) {
  auto* const whole = find(large, kArenaLimit, 1);
  EXPECT_EQ(lent_bytes(2), 0U);
  Gate gate;
  gate.hold(pool[1].compute());
  whole->record.log.note_write(pool[1].compute().engine().mark());
  large.put(whole);
  auto* const block = find(large, kQuarter, 0);
  EXPECT_GT(lent_bytes(0), kArenaLimit / 4);
  EXPECT_EQ(lent_bytes(1), lent_bytes(0));
  EXPECT_EQ(lent_bytes(2), lent_bytes(0));
  large.put(block);
  gate.open();
}

/// A fixture with a memory limit so large that lending a fixed fraction of it would give a group
/// far more than it needs.
class PoolWhereThreadsMeet : public GroupShares {
 protected:
  static constexpr std::size_t kLargeLimit = std::size_t{16} << 30U;

  /// Allocates kQuarter bytes for group 1 just after that group has contended often for the lock,
  /// and keeps the block until the test ends.
  [[nodiscard]] Block* keep_quarter() {
    for (int i = 0; i < 16; ++i) {
      by_need.shares().note_contention(slot(1));
    }
    kept.push_back(find(by_need, kQuarter, 1));
    return kept.back();
  }
  void TearDown() override {
    for (auto* const block : kept) {
      by_need.put(block);
    }
  }
  [[nodiscard]] std::size_t reserved_bytes() {
    return by_need.backing().capacity().reserved_bytes();
  }

  LargeAllocator by_need{device.context(),
                         memory::Space::device,
                         std::make_shared<memory::Capacity>(kLargeLimit),
                         kWhole,
                         0,
                         caches};
  std::vector<Block*> kept;
};

TEST_F(PoolWhereThreadsMeet, uses_what_lies_idle_elsewhere_before_it_grows) {
  by_need.put(find(by_need, 4 * kWhole, 0));
  ASSERT_TRUE(by_need.shares().lend(4 * kWhole, slot(0), kAny));
  auto const reserved = reserved_bytes();
  for (std::size_t i = 0; i < 4 * kWhole / kQuarter; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    static_cast<void>(keep_quarter());
    bool const is_contended = by_need.shares().is_contended();
    if (std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1)) {
      GTEST_SKIP() << "this machine stood still for as long as threads that met are remembered";
    }
    ASSERT_TRUE(is_contended);
    ASSERT_EQ(reserved_bytes(), reserved) << i;
  }
}

TEST_F(PoolWhereThreadsMeet, grows_by_half_of_what_work_in_flight_uses) {
  auto* const used = find(by_need, 4 * kWhole, 0);
  Gate gate;
  gate.hold(pool[0].compute());
  used->record.log.note_write(pool[0].compute().engine().mark());
  by_need.put(used);
  // The queue of stream group 0 is [wait for the test's gate, use]. The only free memory is the
  // block `used`, which that use keeps in flight.
  for (int i = 0; i < 24; ++i) {
    static_cast<void>(keep_quarter());
  }
  EXPECT_GT(reserved_bytes(), 4 * kWhole) << "while there is little, nobody waits";
  EXPECT_LE(reserved_bytes(), 6 * kWhole + kWhole + kQuarter * 3 / 2);
  gate.open();
}

/// The work on some free pieces is complete, but nobody has queried its events, and the pieces are
/// too small for any request. The allocator must query them before it takes fresh memory.
TEST_F(PoolWhereThreadsMeet, asks_what_is_in_flight_before_it_grows) {
  std::vector<Block*> pieces(8 * kWhole / kQuarter);
  for (auto*& piece : pieces) {
    piece = find(by_need, kQuarter / 2, 0);
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    pieces[i]->record.log.note_write(pool[0].compute().engine().mark());
    by_need.put(pieces[i]);
  }
  auto const reserved = reserved_bytes();
  for (std::size_t i = 0; i < pieces.size() / 4; ++i) {
    static_cast<void>(keep_quarter());
    ASSERT_EQ(reserved_bytes(), reserved) << i;
  }
  for (std::size_t i = 1; i < pieces.size(); i += 2) {
    by_need.put(pieces[i]);
  }
}

/// Several threads allocate large blocks at the same time, through the allocator of a device.
TEST(GroupSharesOfAllocator, is_not_lost_to_others_at_the_limit) {
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
