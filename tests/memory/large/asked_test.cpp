// SPDX-License-Identifier: Apache-2.0
// Tests the reuse of memory whose last uses are complete. The host learns of their completion only
// by querying events.
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kAskedBytes = 8 * kMiB;
constexpr std::size_t kAskedStep = std::size_t{2} << 20U;

template <Runtime R>
class AskedProgram {
 public:
  using Bytes = Tensor<std::uint8_t, R>;

  explicit AskedProgram(std::size_t limit_bytes, std::size_t soft_limit_bytes)
      : device(options(limit_bytes, soft_limit_bytes)),
        pool(device, {.groups = 3, .launch_threads = LaunchThreads::none}) {}

  [[nodiscard]] Bytes allocate(int group) {
    StreamScope const scope(pool[group]);
    return Bytes(device, {kAskedBytes});
  }
  [[nodiscard]] Bytes use(int group) {
    auto block = allocate(group);
    StreamScope const scope(pool[group]);
    issue("use", writes(block), [](auto) {});
    return block;
  }
  void work(int group, Bytes const& block, int operations) {
    StreamScope const scope(pool[group]);
    for (int i = 0; i < operations; ++i) {
      issue("work", reads(block), [](auto) {});
    }
  }
  Device<R> device;
  StreamPool<R> pool;

 private:
  static DeviceOptions<R> options(std::size_t limit_bytes, std::size_t soft_limit_bytes) {
    DeviceOptions<R> options;
    options.memory.limit_bytes = limit_bytes;
    options.memory.soft_limit_bytes = soft_limit_bytes;
    options.memory.max_growth_bytes = kAskedStep;
    return options;
  }
};

/// A host runtime whose event queries first wait for the event, so that they find all work
/// complete.
class PromptHost : public Host {
 public:
  using Host::Host;

  /// Makes queries of events on `stream` return the true state, so that a gate can hold up the
  /// stream.
  void hold(native_stream stream) { held_ = stream; }
  void record(native_event event, native_stream stream) {
    (stream == held_) ? static_cast<void>(of_held_.insert(event))
                      : static_cast<void>(of_held_.erase(event));
    Host::record(event, stream);
  }
  bool query(native_event event) {
    if (of_held_.contains(event)) {
      return Host::query(event);
    }
    synchronize(event);
    return true;
  }

 private:
  native_stream held_ = nullptr;
  std::set<native_event> of_held_;
};

TEST(AskedOnHost, memory_that_is_over_is_used_before_much_is_taken) {
  constexpr int kBlocks = 16;
  AskedProgram<PromptHost> program(0, 0);
  {
    std::vector<AskedProgram<PromptHost>::Bytes> first;
    for (int i = 0; i < kBlocks; ++i) {
      first.push_back(program.use(0));
    }
  }
  std::vector<AskedProgram<PromptHost>::Bytes> second;
  for (int i = 0; i < kBlocks; ++i) {
    second.push_back(program.use(1));
  }
  auto const statistics = program.device.memory_statistics();
  EXPECT_EQ(statistics.waiting_reuses, 0U);
  EXPECT_LE(statistics.reserved_bytes,
            std::size_t(kBlocks * kAskedBytes) / 100 * 115 + 2 * kAskedStep);
}

/// The block that was used longest ago is still in use, so taking it would need a wait. The work on
/// another block is complete, so the allocation must query that block's event first.
TEST(AskedOnHost, whoever_would_wait_for_one_stream_asks_the_others_first) {
  constexpr int kLongAgo = 100;
  AskedProgram<PromptHost> program(std::size_t(16 * kAskedBytes), std::size_t(3 * kAskedBytes));
  auto const held = program.pool[0].compute();
  program.device.runtime().hold(held.native());
  Gate gate;
  auto const kept = program.allocate(0);
  {
    auto const used_long_ago = program.allocate(0);
    auto const over = program.use(1);
    gate.hold(held);
    StreamScope const scope(program.pool[0]);
    issue("use", writes(used_long_ago), [](auto) {});
  }
  program.work(0, kept, kLongAgo);
  auto const block = program.allocate(2);
  EXPECT_EQ(program.device.memory_statistics().waiting_reuses, 0U);
  EXPECT_LE(program.device.memory_statistics().reserved_bytes, std::size_t(3 * kAskedBytes));
  gate.open();
}

}  // namespace
}  // namespace msstream::testing
