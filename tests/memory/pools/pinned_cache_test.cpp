// SPDX-License-Identifier: Apache-2.0
// Tests how much unused pinned memory stays cached, and the separate limit of pinned memory.
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPinnedMiB = kMiB;
constexpr std::size_t kLargest = 31 * kPinnedMiB;
constexpr std::size_t kStep = 8 * kPinnedMiB;  ///< bytes taken from the runtime at a time

template <class TypeParam>
class PinnedCacheTest : public RuntimeTest<TypeParam> {
 protected:
  using Array = PinnedArray<std::uint8_t, Watched<TypeParam>>;

  void open(AllocatorOptions options) { device.emplace(watched_device<TypeParam>(options)); }
  /// Copies a small tensor to the host `times` times. The host waits for each copy.
  void fetch_small(int times) {
    auto const small = zeros<std::uint8_t>(*device, {100});
    for (int i = 0; i < times; ++i) {
      (void)to_host(small);
    }
  }
  [[nodiscard]] std::size_t reserved_bytes() const { return watch_of(*device).pinned_bytes; }

  std::optional<Device<Watched<TypeParam>>> device;
};
TYPED_TEST_SUITE(PinnedCacheTest, Runtimes, RuntimeNames);

TYPED_TEST(PinnedCacheTest, arrays_of_growing_sizes_leave_no_more_than_may_be_kept) {
  for (std::size_t const keep : {std::size_t{0}, 64 * kPinnedMiB}) {
    this->open({.pinned_keep_bytes = keep});
    for (std::size_t bytes = kPinnedMiB; bytes <= kLargest; bytes += kPinnedMiB / 3) {
      typename TestFixture::Array const array(*this->device, bytes);
      EXPECT_LE(this->reserved_bytes(), keep + 9 * kPinnedMiB + std::max(bytes, 8 * kPinnedMiB));
    }
    auto const statistics = this->device->pinned_memory_statistics();
    EXPECT_EQ(statistics.reserved_bytes, this->reserved_bytes());
    EXPECT_EQ(statistics.cache_limit_bytes, keep);
  }
}

TYPED_TEST(PinnedCacheTest, tensors_of_random_sizes_fetched_by_the_host_leave_no_more) {
  this->open({.pinned_keep_bytes = 32 * kPinnedMiB});
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    auto const bytes = static_cast<std::int64_t>(1 + random() % kLargest);
    EXPECT_EQ(to_host(zeros<std::uint8_t>(*this->device, {bytes})).size(),
              static_cast<std::size_t>(bytes));
    EXPECT_LE(this->reserved_bytes(), 32 * kPinnedMiB + 8 * kPinnedMiB + kLargest);
  }
}

TYPED_TEST(PinnedCacheTest, what_is_in_use_at_once_again_and_again_is_never_taken_twice) {
  this->open({.pinned_keep_bytes = 0});
  std::uint64_t growths = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<typename TestFixture::Array> arrays;
    for (int i = 1; i <= 6; ++i) {
      arrays.emplace_back(*this->device, 20 * kPinnedMiB);
    }
    auto const now = this->device->pinned_memory_statistics().growths;
    EXPECT_TRUE(round == 0 || now == growths) << now << " after " << growths;
    growths = now;
  }
}

TYPED_TEST(PinnedCacheTest, what_a_peak_leaves_goes_back_while_small_sizes_follow) {
  for (std::size_t const bytes : {kLargest, kPinnedMiB / 10}) {  // large blocks, and slabs
    for (std::size_t const keep : {std::size_t{0}, 32 * kPinnedMiB}) {
      this->open({.pinned_keep_bytes = keep});
      {
        std::vector<typename TestFixture::Array> arrays;
        for (std::size_t all = 0; all < 10 * kLargest; all += bytes) {
          arrays.emplace_back(*this->device, bytes);
        }
      }
      EXPECT_GE(this->reserved_bytes(), 10 * kLargest);
      this->fetch_small(200);
      // A piece of pinned memory that is partly in use, as it is during a copy to the host, stays
      // reserved.
      EXPECT_LE(this->reserved_bytes(), keep + kStep + kLargest);
      auto const statistics = this->device->pinned_memory_statistics();
      EXPECT_EQ(statistics.reserved_bytes, this->reserved_bytes());
      EXPECT_EQ(statistics.cache_limit_bytes, keep);
    }
  }
}

TYPED_TEST(PinnedCacheTest, what_is_needed_again_within_some_waits_stays) {
  this->open({.pinned_keep_bytes = 0});
  std::uint64_t growths = 0;
  for (int round = 0; round < 20; ++round) {
    {
      std::vector<typename TestFixture::Array> arrays;
      for (int i = 0; i < 6; ++i) {
        arrays.emplace_back(*this->device, 20 * kPinnedMiB);
      }
      this->fetch_small(1);
    }
    this->fetch_small(30);
    auto const now = this->device->pinned_memory_statistics().growths;
    EXPECT_TRUE(round == 0 || now == growths) << now << " after " << growths;
    growths = now;
  }
}

TYPED_TEST(PinnedCacheTest, nothing_goes_back_at_a_wait_beside_work_of_others) {
  this->open({.pinned_keep_bytes = 0});
  {
    typename TestFixture::Array const dropped(*this->device, kLargest);
    typename TestFixture::Array const other(*this->device, kLargest);
  }
  StreamPool pool(*this->device, {.groups = 1});
  auto const filled = zeros<std::uint8_t>(*this->device, {1});
  Gate gate;
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    fill_bytes(filled, 1);  // the queue is [wait for the gate, fill]
  }
  this->fetch_small(300);
  EXPECT_GE(this->reserved_bytes(), 2 * kLargest) << "giving it back may wait for the gate";
  gate.open();
  pool[0].synchronize();
  this->fetch_small(300);
  EXPECT_LE(this->reserved_bytes(), kStep + kLargest);
}

TYPED_TEST(PinnedCacheTest, memory_of_a_copy_in_flight_does_not_go_back) {
  constexpr std::size_t kBytes = 9 * kPinnedMiB;
  this->open({.pinned_keep_bytes = 0});
  auto const target = zeros<std::uint8_t>(*this->device, {static_cast<std::int64_t>(kBytes)});
  auto const group = this->device->default_group();
  group.synchronize();
  std::optional<typename TestFixture::Array> staged(std::in_place, *this->device, kBytes);
  std::ranges::fill(staged->elements(), std::uint8_t{1});
  Gate gate;
  gate.hold(group.h2d());
  // The queue of the h2d stream is [wait for the test's gate, copy].
  copy(target, *staged);
  staged.reset();
  typename TestFixture::Array const larger(*this->device, 2 * kBytes);
  EXPECT_GE(this->reserved_bytes(), 3 * kBytes);
  std::ranges::fill(larger.elements(), std::uint8_t{2});
  gate.open();
  EXPECT_EQ(std::ranges::count(to_host(target), std::uint8_t{1}), std::ptrdiff_t{kBytes});
  typename TestFixture::Array const largest(*this->device, 3 * kBytes);
  EXPECT_LE(this->reserved_bytes(), 5 * kBytes + 8 * kPinnedMiB) << "the copy is over";
}

TYPED_TEST(PinnedCacheTest, has_a_limit_of_its_own) {
  for (auto const mode : {PinnedMode::shared, PinnedMode::per_group}) {
    this->open({.pinned_mode = mode, .pinned_limit_bytes = 32 * kPinnedMiB});
    EXPECT_EQ(this->device->pinned_memory_statistics().limit_bytes, 32 * kPinnedMiB);
    for (std::size_t bytes = kPinnedMiB; bytes <= kLargest; bytes += kPinnedMiB) {
      EXPECT_NO_THROW(typename TestFixture::Array(*this->device, bytes));
      EXPECT_LE(this->reserved_bytes(), 32 * kPinnedMiB);
    }
    typename TestFixture::Array const half(*this->device, 16 * kPinnedMiB);
    try {
      typename TestFixture::Array const other(*this->device, 17 * kPinnedMiB);
      ADD_FAILURE() << "there was no room";
    } catch (OutOfMemory const& error) {
      EXPECT_THAT(error.what(), HasSubstr("pinned memory: 17825792 bytes asked"));
      EXPECT_THAT(error.what(), HasSubstr("MSSTREAM_PINNED_LIMIT_BYTES"));
    }
    EXPECT_NO_THROW(typename TestFixture::Array(*this->device, 15 * kPinnedMiB));
  }
}

TEST(PinnedCacheOptions, come_from_the_environment) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread is there
  EXPECT_EQ(AllocatorOptions().pinned_keep_bytes, 64 * kPinnedMiB);
  EXPECT_EQ(AllocatorOptions().pinned_limit_bytes, 0U);
  ASSERT_EQ(setenv("MSSTREAM_PINNED_KEEP_BYTES", "1000", 1), 0);
  ASSERT_EQ(setenv("MSSTREAM_PINNED_LIMIT_BYTES", "2000", 1), 0);
  EXPECT_EQ(AllocatorOptions().pinned_keep_bytes, 1000U);
  EXPECT_EQ(AllocatorOptions().pinned_limit_bytes, 2000U);
  ASSERT_EQ(unsetenv("MSSTREAM_PINNED_KEEP_BYTES"), 0);
  ASSERT_EQ(unsetenv("MSSTREAM_PINNED_LIMIT_BYTES"), 0);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace msstream::testing
