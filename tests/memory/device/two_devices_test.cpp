// SPDX-License-Identifier: Apache-2.0
// Tests two devices in one program. Each has its own memory; if they share a dependency tracker,
// the operations of both are ordered with each other.
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kDeviceLimit = 2 * kMiB;

template <class Options>
void choose_ordinal(Options& options, int ordinal) {
  if constexpr (requires { options.ordinal; }) {
    options.ordinal = ordinal;
  } else if constexpr (requires { options.runtime; }) {
    choose_ordinal(options.runtime, ordinal);
  }
}
/// Returns the GPUs to try for a second device: the first GPU, and another one if there is one.
template <Runtime R>
[[nodiscard]] std::vector<int> second_ordinals() {
#if MSSTREAM_CUDA
  if (is_cuda<R> && Cuda::device_count() > 1) {
    return {0, 1};
  }
#endif
  return {0};
}

template <class TypeParam>
class TwoDevices : public RuntimeTest<TypeParam> {
 protected:
  using R = Watched<TypeParam>;

  /// Opens two devices, each with a group and memory for one large tensor.
  void open(int second_ordinal, bool one_tracker) {
    DeviceOptions<R> options;
    options.memory.limit_bytes = kDeviceLimit;
    first.emplace(options);
    options.runtime = {};
    choose_ordinal(options.runtime, second_ordinal);
    if (one_tracker) {
      options.tracker = first->context()->tracker;
      if constexpr (requires { options.runtime.runtime.checker; }) {
        options.runtime.runtime.checker = first->runtime().checker();
      }
    }
    second.emplace(options);
    of_first.emplace(*first, StreamPoolOptions{.groups = 1});
    of_second.emplace(*second, StreamPoolOptions{.groups = 1});
  }

  std::optional<Device<R>> first;
  std::optional<Device<R>> second;
  std::optional<StreamPool<R>> of_first;
  std::optional<StreamPool<R>> of_second;
  Journal journal;
};
TYPED_TEST_SUITE(TwoDevices, Runtimes, RuntimeNames);

TYPED_TEST(TwoDevices, have_pools_and_limits_of_their_own) {
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;
  for (int const ordinal : second_ordinals<TypeParam>()) {
    SCOPED_TRACE(ordinal);
    this->open(ordinal, false);
    std::optional<Bytes> mine(std::in_place, *this->first, Shape{kDeviceLimit});
    auto* const memory = mine->data();
    EXPECT_EQ(this->second->memory_statistics().reserved_bytes, 0U);
    EXPECT_EQ(watch_of(*this->second).device_bytes, 0U);
    Bytes const other(*this->second, {kDeviceLimit});
    EXPECT_THROW(Bytes(*this->first, {kDeviceLimit}), OutOfMemory);
    {
      // Releases the tensor on another thread, inside a stream scope of the other device.
      std::jthread([&] {
        StreamScope const scope((*this->of_second)[0]);
        mine.reset();
      }).join();
    }
    EXPECT_EQ(this->first->memory_statistics().live_bytes, 0U);
    EXPECT_EQ(this->second->memory_statistics().live_bytes, std::size_t(kDeviceLimit));
    EXPECT_THROW(Bytes(*this->second, {kDeviceLimit}), OutOfMemory);
    EXPECT_EQ(Bytes(*this->first, {kDeviceLimit}).data(), memory);
  }
}

TYPED_TEST(TwoDevices, without_one_tracker_cannot_be_used_together) {
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;
  for (int const ordinal : second_ordinals<TypeParam>()) {
    SCOPED_TRACE(ordinal);
    this->open(ordinal, false);
    Bytes const x(*this->first, {100});
    Bytes const y(*this->second, {100});
    try {
      issue("add", reads(x), writes(y), [](auto) { FAIL() << "launched"; });
      FAIL() << "accepted";
    } catch (std::invalid_argument const& error) {
      EXPECT_THAT(error.what(), HasSubstr("operation 'add'"));
      EXPECT_THAT(error.what(), HasSubstr("do not share a tracker"));
    }
    issue("use", writes(x), [](auto) {});
    issue("use", writes(y), [](auto) {});
  }
}

/// A stream of the first device uses memory of the second device. The next use of that memory and
/// its next owner must wait for the stream.
TYPED_TEST(TwoDevices, with_one_tracker_keep_one_order) {
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;
  for (int const ordinal : second_ordinals<TypeParam>()) {
    SCOPED_TRACE(ordinal);
    this->journal = Journal();
    this->open(ordinal, true);
    Bytes const x(*this->first, {kDeviceLimit});
    std::optional<Bytes> y(std::in_place, *this->second, Shape{kDeviceLimit});
    auto* const memory = y->data();
    issue("make", writes(x), [](auto) {});
    Gate gate;
    // The queue of the first device is [make, wait for the test's gate, "both"]. On the second
    // device "read" waits for "both", and "next owner" follows "read".
    gate.hold(this->first->default_group().compute());
    issue("both", reads(x), writes(*y), this->journal.entry(*this->first, "both"));
    issue("read", reads(*y), this->journal.entry(*this->second, "read"));
    EXPECT_EQ(this->second->wait_counts().issued, 1U);
    y.reset();
    StreamScope const scope((*this->of_second)[0]);
    Bytes const next(*this->second, {kDeviceLimit});
    EXPECT_EQ(next.data(), memory);
    issue("write", writes(next), this->journal.entry(*this->second, "next owner"));
    EXPECT_EQ(this->second->memory_statistics().waiting_reuses, 1U);
    EXPECT_EQ(this->journal.entries(), Order());
    gate.open();
    this->of_second->synchronize();
    EXPECT_THAT(this->journal.entries(), ElementsAre("both", "read", "next owner"));
  }
}

}  // namespace
}  // namespace msstream::testing
