// SPDX-License-Identifier: Apache-2.0
// Tests which groups share pinned memory, and that the host never gets memory that a copy still
// uses.
#include "memory/device/device_state.hpp"
#include "memory/run_threads.hpp"
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"

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
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kPinnedGroups = 2;

/// A fixture with two stream groups and, in the mode PinnedMode::per_group, two pools of pinned
/// memory.
template <class TypeParam>
class PinnedModeTest : public RuntimeTest<TypeParam> {
 protected:
  using Array = PinnedArray<std::uint8_t, Watched<TypeParam>>;

  void open(PinnedMode mode) {
    device.emplace(
        watched_device<TypeParam>({.private_pools = kPinnedGroups, .pinned_mode = mode}));
    pool.emplace(*device, StreamPoolOptions{.groups = kPinnedGroups});
  }
  [[nodiscard]] Array allocate(int group, std::size_t bytes) {
    StreamScope const scope((*pool)[group]);
    return Array(*device, bytes);
  }
  [[nodiscard]] void const* address_once_free(int group, std::size_t bytes) {
    return allocate(group, bytes).data();
  }

  std::optional<Device<Watched<TypeParam>>> device;
  std::optional<StreamPool<Watched<TypeParam>>> pool;
};
TYPED_TEST_SUITE(PinnedModeTest, Runtimes, RuntimeNames);

TYPED_TEST(PinnedModeTest, shared_memory_that_is_free_is_anybodys) {
  for (std::size_t const bytes : {std::int64_t{1000}, 4 * kMiB}) {
    this->open(PinnedMode::shared);
    auto const* const first = this->address_once_free(0, bytes);
    EXPECT_EQ(this->address_once_free(1, bytes), first);
  }
}

TYPED_TEST(PinnedModeTest, private_memory_stays_with_its_group) {
  for (std::size_t const bytes : {std::int64_t{1000}, 4 * kMiB}) {
    this->open(PinnedMode::per_group);
    auto const* const first = this->address_once_free(0, bytes);
    auto const* const second = this->address_once_free(1, bytes);
    EXPECT_NE(second, first);
    EXPECT_EQ(this->address_once_free(0, bytes), first);
    EXPECT_EQ(this->address_once_free(1, bytes), second);
    auto const statistics = this->device->state()->pinned.statistics();
    EXPECT_EQ(statistics.live_bytes, 0U);
    EXPECT_EQ(statistics.allocations, 4U);
    EXPECT_EQ(statistics.reserved_bytes, watch_of(*this->device).pinned_bytes);
    this->device->state()->pinned.return_cached_memory();
    EXPECT_EQ(watch_of(*this->device).pinned_bytes, 0U);
  }
}

/// Frees pinned memory during a copy. If the host got it at once, the host would overwrite what a
/// copy to the device has yet to read, or a copy to the host would overwrite what the host has
/// written.
TYPED_TEST(PinnedModeTest, the_host_gets_no_memory_that_a_copy_in_flight_uses) {
  for (auto const mode : {PinnedMode::shared, PinnedMode::per_group}) {
    for (std::size_t const bytes : {std::int64_t{1000}, 4 * kMiB}) {
      for (bool const to_device : {true, false}) {
        SCOPED_TRACE(::testing::Message() << bytes << " bytes, to the device: " << to_device);
        this->open(mode);
        StreamScope const scope((*this->pool)[0]);
        auto const target = zeros<std::uint8_t>(*this->device, {static_cast<std::int64_t>(bytes)});
        (*this->pool)[0].synchronize();
        // Every second array stays allocated, so that a freed array has no free neighbours to join
        // with.
        std::vector<std::optional<typename TestFixture::Array>> arrays;
        for (int i = 0; i < 6; ++i) {
          arrays.emplace_back(this->allocate(0, bytes));
        }
        auto& staged = arrays[2];
        auto* const memory = staged->data();
        std::ranges::fill(staged->elements(), std::uint8_t{1});
        auto const reserved = watch_of(*this->device).pinned_bytes.load();
        Gate gate;
        auto const& group = (*this->pool)[0];
        gate.hold(to_device ? group.h2d() : group.d2h());
        // The queue of the h2d or d2h stream is [wait for the test's gate, copy].
        if (to_device) {
          copy(target, *staged);
        } else {
          copy(*staged, target);
        }
        // Frees the array that the copy uses as neither the first nor the last of three.
        for (int const i : {0, 2, 4}) {
          arrays[i].reset();
        }
        {
          std::vector const others{this->allocate(0, bytes), this->allocate(0, bytes)};
          for (auto const& other : others) {
            EXPECT_NE(other.data(), memory);
            std::ranges::fill(other.elements(), std::uint8_t{2});
          }
          gate.open();
          group.synchronize();
          EXPECT_EQ(this->address_once_free(0, bytes), memory)
              << "the copy is over, and the memory is the host's again";
        }
        auto const copied = to_host(target);
        EXPECT_EQ(std::ranges::count(copied, to_device ? 1 : 0),
                  static_cast<std::ptrdiff_t>(bytes));
        EXPECT_EQ(watch_of(*this->device).pinned_bytes, reserved);
      }
    }
  }
}

/// Each stream group stages copies in pinned memory as fast as it can, and checks only at the end
/// what has arrived.
TYPED_TEST(PinnedModeTest, what_groups_stage_at_once_arrives) {
  constexpr int kRounds = 200;
  for (auto const mode : {PinnedMode::shared, PinnedMode::per_group}) {
    this->open(mode);
    run_threads(kPinnedGroups, [&](int group) {
      StreamScope const scope((*this->pool)[group]);
      std::vector<Tensor<std::uint8_t, Watched<TypeParam>>> arrived;
      for (int round = 0; round < kRounds; ++round) {
        typename TestFixture::Array const staged(*this->device, 1000);
        std::ranges::fill(staged.elements(), static_cast<std::uint8_t>(round + 7 * group));
        copy(arrived.emplace_back(*this->device, Shape{1000}), staged);
      }
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_THAT(to_host(arrived[static_cast<std::size_t>(round)]),
                    Each(static_cast<std::uint8_t>(round + 7 * group)));
      }
    });
  }
}

TEST(PinnedModeOption, comes_from_the_environment) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread is there
  ASSERT_EQ(setenv("MSSTREAM_PINNED_POOLS", "per_group", 1), 0);
  EXPECT_EQ(AllocatorOptions().pinned_mode, PinnedMode::per_group);
  ASSERT_EQ(setenv("MSSTREAM_PINNED_POOLS", "private", 1), 0);
  try {
    AllocatorOptions const options;
    ADD_FAILURE() << "accepted";
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(), HasSubstr("MSSTREAM_PINNED_POOLS"));
    EXPECT_THAT(error.what(), HasSubstr("one of shared, per_group, found 'private'"));
  }
  ASSERT_EQ(unsetenv("MSSTREAM_PINNED_POOLS"), 0);
  EXPECT_EQ(AllocatorOptions().pinned_mode, PinnedMode::shared);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace msstream::testing
