// SPDX-License-Identifier: Apache-2.0
#include "memory/run_threads.hpp"
#include "memory/runtimes.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

namespace msstream::testing {
namespace {

/// A fixture in which two groups allocate blocks in turn and free them at once, so that one block
/// is enough for both.
template <class R>
class Rivalry : public RuntimeTest<R> {
 protected:
  using Bytes = Tensor<std::uint8_t, R>;
  static constexpr int kTurns = 64;
  static constexpr std::int64_t kBytes = kMiB;

  /// Returns a device that may reserve `part_bytes` more for rivals, which are threads that take
  /// free blocks from each other's streams.
  [[nodiscard]] static Device<R> device_with(std::int64_t part_bytes) {
    return Device<R>({.memory = {.limit_bytes = std::size_t(512 * part_bytes),
                                 .max_growth_bytes = std::size_t{2 * kMiB}}});
  }
  /// Returns the address of the last block of each of the two groups. `make()` allocates a block
  /// for the current group.
  template <class Make>
  [[nodiscard]] static std::array<void const*, 2> last_of_threads(StreamPool<R>& pool,
                                                                  Make const& make) {
    std::array<void const*, 2> last{};
    std::barrier turn(2);
    run_threads(2, [&](int thread) {
      for (int i = 0; i < kTurns; ++i) {
        if (i % 2 == thread) {
          StreamScope const scope(pool[thread]);
          last[static_cast<std::size_t>(thread)] = make().data();
        }
        turn.arrive_and_wait();
      }
    });
    return last;
  }
  [[nodiscard]] static std::array<void const*, 2> last_of_threads(Device<R> const& device) {
    StreamPool<R> pool(device, {.groups = 2});
    return last_of_threads(pool, [&] { return Bytes(device, {kBytes}); });
  }
};
TYPED_TEST_SUITE(Rivalry, Runtimes, RuntimeNames);

TYPED_TEST(Rivalry, of_two_threads_ends_with_a_block_for_each) {
  auto const last = this->last_of_threads(this->device_with(this->kBytes));
  EXPECT_NE(last[0], last[1]);
}

TYPED_TEST(Rivalry, gets_no_more_than_its_part_of_the_limit) {
  auto const last = this->last_of_threads(this->device_with(this->kBytes - 1));
  EXPECT_EQ(last[0], last[1]);
}

/// Two streams allocate 8 MiB in turn. At most 8 MiB are in use at once, but 16 MiB are needed to
/// give each stream blocks of its own. The part of the limit for rivals must supply what is
/// missing.
TYPED_TEST(Rivalry, ends_with_blocks_for_each_however_little_is_in_use) {
  constexpr std::size_t kBlocks = 8;
  Device<TypeParam> const device({.memory = {.max_growth_bytes = std::size_t{2 * kMiB}}});
  StreamPool<TypeParam> pool(device, {.groups = 2});
  std::array<std::set<void const*>, 2> last;
  std::barrier turn(2);
  run_threads(2, [&](int thread) {
    for (int i = 0; i < this->kTurns; ++i) {
      if (i % 2 == thread) {
        StreamScope const scope(pool[thread]);
        auto& mine = last[static_cast<std::size_t>(thread)];
        mine.clear();
        std::vector<Tensor<std::uint8_t, TypeParam>> held;
        for (std::size_t block = 0; block < kBlocks; ++block) {
          held.emplace_back(device, Shape{this->kBytes});
          mine.insert(held.back().data());
        }
      }
      turn.arrive_and_wait();
    }
  });
  std::vector<void const*> both;
  std::set_intersection(
      last[0].begin(), last[0].end(), last[1].begin(), last[1].end(), std::back_inserter(both));
  EXPECT_THAT(both, ::testing::IsEmpty());
}

TYPED_TEST(Rivalry, is_none_between_streams_of_one_thread) {
  auto const device = this->device_with(this->kBytes);
  StreamPool pool(device, {.groups = 2});
  std::set<void const*> blocks;
  for (int i = 0; i < this->kTurns; ++i) {
    StreamScope const scope(pool[i % 2]);
    blocks.insert(Tensor<std::uint8_t, TypeParam>(device, {this->kBytes}).data());
  }
  EXPECT_EQ(blocks.size(), 1U);
}

TYPED_TEST(Rivalry, is_none_where_one_thread_takes_what_another_does_not_want_back) {
  auto const device = this->device_with(this->kBytes);
  StreamPool pool(device, {.groups = 2});
  std::array<std::set<void const*>, 2> blocks;
  std::barrier turn(2);
  run_threads(2, [&](int thread) {
    if (thread == 1) {
      turn.arrive_and_wait();
    }
    StreamScope const scope(pool[thread]);
    std::vector<Tensor<std::uint8_t, TypeParam>> held;
    for (int i = 0; i < this->kTurns; ++i) {
      held.emplace_back(device, Shape{4096});
      blocks[static_cast<std::size_t>(thread)].insert(held.back().data());
    }
    held.clear();
    if (thread == 0) {
      turn.arrive_and_wait();
    }
  });
  EXPECT_EQ(blocks[0], blocks[1]);
}

TYPED_TEST(Rivalry, gets_no_pinned_memory) {
  auto const device = this->device_with(this->kBytes);
  StreamPool pool(device, {.groups = 2});
  auto const last = this->last_of_threads(pool, [&] {
    return PinnedArray<std::uint8_t, TypeParam>(device, static_cast<std::size_t>(this->kBytes));
  });
  EXPECT_EQ(last[0], last[1]);
}

}  // namespace
}  // namespace msstream::testing
