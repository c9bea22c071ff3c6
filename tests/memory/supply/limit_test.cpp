// SPDX-License-Identifier: Apache-2.0
// Tests that reserved memory stays under the limit, however many threads race, and that requests
// that fit under it succeed.
#include "memory/run_threads.hpp"
#include "memory/watched_runtime.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;

constexpr int kRacing = 16;

/// Limits of device memory: under the smaller one memory comes in separate pieces, under the larger
/// one it is mapped in pages.
constexpr std::int64_t kLimitOfPieces = 16 * kMiB;
constexpr std::int64_t kLimitOfPages = 96 * kMiB;

/// A fixture that measures the peak of device memory at the runtime, not from the pool's own
/// statistics.
template <class TypeParam>
class Limit : public RuntimeTest<TypeParam> {
 protected:
  using R = Watched<TypeParam>;
  using Bytes = Tensor<std::uint8_t, R>;

  static Device<R> device_of(std::int64_t limit_bytes) {
    return watched_device<TypeParam>({.limit_bytes = static_cast<std::size_t>(limit_bytes)});
  }
  /// Returns how many allocations succeed if all threads allocate at once and keep their blocks.
  static int held_at_once(Device<R> const& device, std::int64_t bytes, int attempts_per_thread) {
    std::atomic<int> held{0};
    std::barrier all(kRacing);
    run_threads(kRacing, [&](int) {
      std::vector<Bytes> mine;
      all.arrive_and_wait();
      for (int attempt = 0; attempt < attempts_per_thread; ++attempt) {
        try {
          mine.emplace_back(device, Shape{bytes});
          ++held;
        } catch (OutOfMemory const&) {
        }
      }
      all.arrive_and_wait();
    });
    return held;
  }
  /// Allocates a block for the calling thread's group, and tries again while other threads hold all
  /// memory.
  static Bytes allocate_in_the_end(Device<R> const& device, std::int64_t bytes) {
    for (;;) {
      try {
        return Bytes(device, {bytes});
      } catch (OutOfMemory const&) {
        std::this_thread::yield();
      }
    }
  }
  static void expect_within(Device<R> const& device, std::int64_t limit_bytes) {
    auto const limit = static_cast<std::size_t>(limit_bytes);
    EXPECT_LE(watch_of(device).most_device_bytes, limit);
    EXPECT_EQ(device.memory_statistics().peak_reserved_bytes, watch_of(device).most_device_bytes);
    EXPECT_EQ(device.memory_statistics().reserved_bytes, watch_of(device).device_bytes);
    EXPECT_EQ(device.memory_statistics().live_bytes, 0U);
  }
};
TYPED_TEST_SUITE(Limit, Runtimes, RuntimeNames);

TYPED_TEST(Limit, racing_threads_get_exactly_what_there_is_of_large_blocks) {
  for (auto const& [limit, bytes] :
       {std::pair{kLimitOfPieces, 2 * kMiB}, {kLimitOfPages, 12 * kMiB}}) {
    auto const device = this->device_of(limit);
    EXPECT_EQ(this->held_at_once(device, bytes, 1), 8);
    EXPECT_EQ(watch_of(device).most_device_bytes, static_cast<std::size_t>(limit));
  }
}

TYPED_TEST(Limit, racing_threads_get_exactly_what_there_is_of_small_blocks) {
  for (auto const& [limit, attempts] : {std::pair{8 * kMiB, 4}, {kLimitOfPages, 25}}) {
    auto const device = this->device_of(limit);
    EXPECT_EQ(this->held_at_once(device, kMiB / 4, attempts), 4 * limit / kMiB);
    EXPECT_EQ(watch_of(device).most_device_bytes, static_cast<std::size_t>(limit));
  }
}

TYPED_TEST(Limit, is_never_exceeded_while_threads_allocate_use_and_free) {
  auto const device = this->device_of(kLimitOfPieces);
  StreamPool pool(device, {.groups = 4});
  std::atomic<int> refused{0};
  std::barrier all(kRacing);
  run_threads(kRacing, [&](int i) {
    StreamScope const scope(pool[i % 4]);
    for (int round = 0; round < 20; ++round) {
      all.arrive_and_wait();
      // Sizes change from round to round, so that cached memory has to go back to the runtime.
      std::int64_t const bytes = (2 + round % 3) * kMiB;
      try {
        typename TestFixture::Bytes const tensor(device, {bytes});
        fill_bytes(tensor, static_cast<std::uint8_t>(i));
        auto const elements = to_host(tensor);
        EXPECT_TRUE(
            std::all_of(elements.begin(), elements.end(), [&](auto byte) { return byte == i; }));
      } catch (OutOfMemory const&) {
        ++refused;
      }
    }
  });
  EXPECT_LT(refused, 20 * kRacing) << "nobody got anything";
  this->expect_within(device, kLimitOfPieces);
}

/// Each thread holds one block while it requests another. The first blocks of all threads fit under
/// the limit; for the second one a thread may have to wait until other threads free their blocks.
TYPED_TEST(Limit, whoever_asks_for_what_fits_gets_it_in_the_end) {
  constexpr int kRounds = 40;
  for (auto const limit : {2 * kLimitOfPieces, kLimitOfPages}) {
    SCOPED_TRACE(limit);
    auto const device = this->device_of(limit);
    StreamPool pool(device, {.groups = 4});
    run_threads(kRacing, [&](int i) {
      StreamScope const scope(pool[i % 4]);
      for (int round = 0; round < kRounds; ++round) {
        auto const kept = this->allocate_in_the_end(device, kMiB / 2);
        auto const bytes = (1 + (7 * i + round) % 6) * kMiB;
        auto const other = this->allocate_in_the_end(device, bytes);
        issue("use", writes(kept, other), [](auto) {});
      }
    });
    this->expect_within(device, limit);
    pool.synchronize();
    EXPECT_NO_THROW(typename TestFixture::Bytes(device, {limit})) << "what is free is whole again";
  }
}

TYPED_TEST(Limit, a_growth_is_a_step_unless_one_request_is_larger) {
  constexpr std::size_t kStep = std::size_t{8} << 20U;
  auto const device = watched_device<TypeParam>(
      {.limit_bytes = std::size_t(kLimitOfPages), .max_growth_bytes = kStep});
  auto const& watch = watch_of(device);
  std::vector<typename TestFixture::Bytes> held;
  for (auto const bytes : {std::int64_t{100}, kMiB / 2, 3 * kMiB, 7 * kMiB, 5 * kMiB}) {
    held.emplace_back(device, Shape{bytes});
  }
  EXPECT_THAT(watch.growths(), AllOf(Not(IsEmpty()), Each(Le(kStep))));
  auto const before = watch.growths().size();
  held.emplace_back(device, Shape{33 * kMiB});
  auto growths = watch.growths();
  ASSERT_EQ(growths.size(), before + 1);
  EXPECT_GT(growths.back(), kStep);
  EXPECT_LE(growths.back(), std::size_t(34 * kMiB)) << "what it lacks, in whole pages";
  held.emplace_back(device, Shape{2 * kMiB});
  held.emplace_back(device, Shape{7 * kMiB});
  growths = watch.growths();
  growths.erase(growths.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_GT(growths.size(), before);
  EXPECT_THAT(growths, Each(Le(kStep)));
}

TEST(LimitOnHost, small_requests_get_larger_small_blocks_rather_than_nothing) {
  for (auto const limit : {16 * kMiB, kLimitOfPages}) {
    Device<Host> const device({.memory = {.limit_bytes = std::size_t(limit)}});
    std::vector<Tensor<std::uint8_t, Host>> all;
    for (std::int64_t i = 0; i < limit / (64 << 10); ++i) {
      all.emplace_back(device, Shape{64 << 10});
    }
    std::vector<Tensor<std::uint8_t, Host>> kept;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      kept.push_back(all[i]);
    }
    all.clear();
    for (std::int64_t const bytes : {256, 8 << 10, 32 << 10}) {
      EXPECT_NO_THROW((Tensor<std::uint8_t, Host>(device, {bytes}))) << bytes << " of " << limit;
    }
  }
}

TEST(LimitOnHost, small_blocks_that_are_all_free_make_room_for_a_large_one) {
  constexpr std::size_t kLimit = std::size_t{64} << 20U;
  Device<Host> const device({.memory = {.limit_bytes = kLimit}});
  {
    std::vector<Tensor<std::uint8_t, Host>> small;
    for (int i = 0; i < 48; ++i) {
      small.emplace_back(device, Shape{1 << 20});
    }
    EXPECT_THROW((Tensor<std::uint8_t, Host>(device, {32 << 20})), OutOfMemory);
  }
  Tensor<std::uint8_t, Host> const large(device, {32 << 20});
  EXPECT_LE(device.memory_statistics().reserved_bytes, kLimit);
}

TEST(LimitOnHost, growth_is_as_large_as_it_was_asked_to_be) {
  for (std::size_t const growth : {std::size_t{1} << 16U, std::size_t{32} << 20U}) {
    Device<Host> const device({.memory = {.max_growth_bytes = growth}});
    Tensor<std::uint8_t, Host> const small(device, {256});
    EXPECT_EQ(device.memory_statistics().reserved_bytes,
              std::max(growth, device.engine().backend().page_bytes()));
  }
}

}  // namespace
}  // namespace msstream::testing
