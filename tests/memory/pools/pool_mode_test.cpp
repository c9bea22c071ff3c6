// SPDX-License-Identifier: Apache-2.0
// Tests which groups share free memory, and when free memory goes back to the runtime.
#include "memory/device/device_state.hpp"
#include "memory/run_threads.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <vector>

namespace msstream::testing {
namespace {

using Bytes = Tensor<std::uint8_t, Host>;

constexpr std::size_t kPoolLimit = std::size_t{64} << 20U;

/// A program with four stream groups on one device.
class Program {
 public:
  explicit Program(AllocatorOptions memory)
      : device_({.memory = std::move(memory)}),
        pool_(device_, {.groups = 4, .launch_threads = LaunchThreads::none}) {}

  [[nodiscard]] Bytes allocate(int group, std::int64_t bytes) {
    StreamScope const scope(pool_[group]);
    return Bytes(device_, {bytes});
  }
  [[nodiscard]] void const* address_once_free(int group, std::int64_t bytes) {
    return allocate(group, bytes).data();
  }
  void use(int group, Bytes const& block) {
    StreamScope const scope(pool_[group]);
    issue("use", writes(block), [](auto) {});
  }
  /// Allocates a block, issues a use of it on a stream that the gate holds, and frees the block.
  void use_behind(Gate& gate, int group, std::int64_t bytes) {
    auto const block = allocate(group, bytes);
    gate.hold(pool_[group].compute());
    use(group, block);
  }
  void finish() { pool_.synchronize(); }
  void return_cached_memory() { device_.state()->memory.return_cached_memory(); }
  void wait_for_device() { device_.state()->run_checks(); }
  [[nodiscard]] MemoryStatistics statistics() const { return device_.memory_statistics(); }

 private:
  Device<Host> device_;
  StreamPool<Host> pool_;
};
[[nodiscard]] AllocatorOptions options(PoolMode mode) {
  return {.limit_bytes = kPoolLimit, .mode = mode, .private_pools = 4};
}

TEST(PoolModeTest, shared_memory_that_is_free_and_unused_is_anybodys) {
  Program program(options(PoolMode::shared));
  auto const* const large = program.address_once_free(0, 4 * kMiB);
  EXPECT_EQ(program.address_once_free(1, 4 * kMiB), large);
}

TEST(PoolModeTest, private_memory_stays_with_its_group) {
  for (auto const mode : {PoolMode::private_pools, PoolMode::private_pools_one_limit}) {
    for (auto const bytes : {std::int64_t{256}, 4 * kMiB}) {
      Program program(options(mode));
      auto const* const first = program.address_once_free(0, bytes);
      EXPECT_NE(program.address_once_free(1, bytes), first);
      EXPECT_EQ(program.address_once_free(0, bytes), first);
    }
  }
}

TEST(PoolModeTest, private_pools_have_equal_parts_of_the_limit) {
  Program program(options(PoolMode::private_pools));
  auto const fits = program.allocate(2, 16 * kMiB);
  EXPECT_THROW(static_cast<void>(program.allocate(2, kMiB)), OutOfMemory);
  EXPECT_THROW(static_cast<void>(program.allocate(1, 17 * kMiB)), OutOfMemory);
  auto const of_another = program.allocate(3, 16 * kMiB);
  EXPECT_EQ(program.statistics().limit_bytes, kPoolLimit);
  EXPECT_EQ(program.statistics().reserved_bytes, 32U * kMiB);
}

TEST(PoolModeTest, under_one_limit_a_private_pool_may_have_all_of_it) {
  Program program(options(PoolMode::private_pools_one_limit));
  {
    auto const most = program.allocate(2, 60 * kMiB);
    EXPECT_THROW(static_cast<void>(program.allocate(1, 8 * kMiB)), OutOfMemory);
  }
  auto const others = program.allocate(1, 60 * kMiB);  // the cache of group 2's pool goes back
  EXPECT_LE(program.statistics().peak_reserved_bytes, kPoolLimit);
}

TEST(PoolModeTest, threads_that_race_never_exceed_the_one_limit) {
  constexpr int kThreads = 16;
  Program program(options(PoolMode::private_pools_one_limit));
  std::barrier all(kThreads);
  std::atomic<int> held{0};
  run_threads(kThreads, [&](int i) {
    for (int round = 0; round < 50; ++round) {
      all.arrive_and_wait();
      try {
        auto const mine = program.allocate(i % 4, (2 + (i + round) % 5) * kMiB);
        ++held;
      } catch (OutOfMemory const&) {
      }
    }
  });
  EXPECT_GT(held.load(), 0);
  EXPECT_LE(program.statistics().peak_reserved_bytes, kPoolLimit);
  EXPECT_EQ(program.statistics().live_bytes, 0U);
  EXPECT_NO_THROW(static_cast<void>(program.allocate(0, 60 * kMiB)));
}

TEST(PoolModeTest, under_one_limit_a_pool_takes_fresh_memory_by_what_it_has_itself) {
  Program program({.mode = PoolMode::private_pools_one_limit, .private_pools = 2});
  auto const of_another_pool = program.allocate(0, 64 * kMiB);
  Gate gate;
  program.use_behind(gate, 1, 4 * kMiB);
  static_cast<void>(program.allocate(3, 4 * kMiB));  // groups 1 and 3 share a pool
  EXPECT_EQ(program.statistics().waiting_reuses, 0U);
  gate.open();
}

TEST(ReleasePolicy, gives_back_pages_of_which_several_blocks_had_a_part) {
  Program program({.limit_bytes = kPoolLimit});
  {
    std::vector<Bytes> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(program.allocate(i % 4, 3 * kMiB / 2));
      program.use(i % 4, blocks.back());
    }
  }
  program.finish();
  EXPECT_GE(program.statistics().reserved_bytes, 30U * kMiB);
  program.return_cached_memory();
  EXPECT_EQ(program.statistics().reserved_bytes, 0U);
}

TEST(ReleasePolicy, keeps_what_is_free_unless_told_otherwise) {
  Program program({.limit_bytes = kPoolLimit});
  static_cast<void>(program.allocate(0, 32 * kMiB));
  program.wait_for_device();
  EXPECT_GE(program.statistics().reserved_bytes, 32U * kMiB);
}

TEST(ReleasePolicy, gives_back_what_is_more_than_to_be_kept) {
  Program program({.limit_bytes = kPoolLimit, .keep_bytes = 16U * kMiB});
  auto const used = program.allocate(1, 8 * kMiB);
  static_cast<void>(program.allocate(0, 40 * kMiB));
  EXPECT_GE(program.statistics().reserved_bytes, 40U * kMiB);
  program.wait_for_device();
  EXPECT_LE(program.statistics().reserved_bytes, 16U * kMiB);
  EXPECT_GE(program.statistics().reserved_bytes, 8U * kMiB);
}

TEST(ReleasePolicy, gives_back_what_was_not_in_use_for_so_long) {
  Program program({.limit_bytes = kPoolLimit, .return_after = std::chrono::nanoseconds(1)});
  static_cast<void>(program.allocate(0, 48 * kMiB));
  program.wait_for_device();
  EXPECT_GE(program.statistics().reserved_bytes, 48U * kMiB) << "it was in use since";
  static_cast<void>(program.allocate(0, 4 * kMiB));
  program.wait_for_device();
  EXPECT_LE(program.statistics().reserved_bytes, 8U * kMiB);
}

TEST(AllocatorOptionsTest, are_checked) {
  EXPECT_THROW(Device<Host>({.memory = {.limit_fraction = 0}}), std::invalid_argument);
  EXPECT_THROW(Device<Host>({.memory = {.limit_fraction = 1.5}}), std::invalid_argument);
  EXPECT_THROW(Device<Host>({.memory = {.private_pools = 0}}), std::invalid_argument);
}

TEST(AllocatorOptionsTest, the_limit_may_be_a_part_of_the_device) {
  Device<Host> const device({.memory = {.limit_fraction = 0.5}});
  auto const total = device.runtime().memory_info().total_bytes;
  EXPECT_EQ(device.memory_statistics().limit_bytes, total / 2);
}

}  // namespace
}  // namespace msstream::testing
