// SPDX-License-Identifier: Apache-2.0
// Tests when fresh memory is taken from the runtime although there is free memory, for which a
// stream would have to wait.
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace msstream::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBytes = 16 * kMiB;
/// The time after which a device certainly counts as far behind. A small part of it would be
/// enough.
constexpr std::chrono::milliseconds kLong{15};

/// A program of three stream groups that allocate blocks of one size, use them behind a closed gate
/// of each group, and free them.
template <Runtime R>
class SoftLimitProgram {
 public:
  static constexpr int kGroups = 3;

  explicit SoftLimitProgram(AllocatorOptions const& memory, typename R::Options runtime = {})
      : device_(options(memory, runtime)),
        pool_(device_, {.groups = kGroups, .launch_threads = LaunchThreads::none}) {}

  [[nodiscard]] Tensor<std::uint8_t, R> allocate(int group) {
    StreamScope const scope(pool_[group]);
    return Tensor<std::uint8_t, R>(device_, {kBytes});
  }
  /// Allocates a block for the group, issues a use of it behind the group's closed gate, frees the
  /// block, and returns its address.
  void const* use_behind_gate(int group) {
    auto const block = allocate(group);
    gates_[group].hold(pool_[group].compute());
    StreamScope const scope(pool_[group]);
    issue("use", writes(block), [](auto) {});
    return block.data();
  }
  [[nodiscard]] MemoryStatistics statistics() const { return device_.memory_statistics(); }

 private:
  static DeviceOptions<R> options(AllocatorOptions const& memory,
                                  typename R::Options const& runtime) {
    DeviceOptions<R> options;
    options.memory = memory;
    options.runtime = runtime;
    return options;
  }

  Device<R> device_;
  StreamPool<R> pool_;
  std::array<Gate, kGroups> gates_;  ///< declared last, so gates open before other members wait
};

template <class TypeParam>
class SoftLimit : public RuntimeTest<TypeParam> {};
TYPED_TEST_SUITE(SoftLimit, Runtimes, RuntimeNames);

TYPED_TEST(SoftLimit, a_hard_limit_that_was_chosen_is_used_up_before_anybody_waits) {
  SoftLimitProgram<TypeParam> program({.limit_bytes = std::size_t(6 * kBytes)});
  for (int group = 0; group < program.kGroups; ++group) {
    program.use_behind_gate(group);
  }
  EXPECT_EQ(program.statistics().waiting_reuses, 0U);
  EXPECT_GE(program.statistics().reserved_bytes, std::size_t(program.kGroups * kBytes));
}

TYPED_TEST(SoftLimit, beyond_a_soft_limit_that_was_chosen_memory_is_waited_for) {
  SoftLimitProgram<TypeParam> program(
      {.limit_bytes = std::size_t(6 * kBytes), .soft_limit_bytes = std::size_t(kBytes)});
  for (int group = 0; group < program.kGroups; ++group) {
    program.use_behind_gate(group);
  }
  EXPECT_EQ(program.statistics().waiting_reuses, std::uint64_t(program.kGroups - 1));
  EXPECT_LT(program.statistics().reserved_bytes, std::size_t(2 * kBytes));
}

TYPED_TEST(SoftLimit, where_the_device_is_far_behind_fresh_memory_is_taken) {
  SoftLimitProgram<TypeParam> program({});
  auto const* const pending = program.use_behind_gate(0);
  while (program.allocate(1).data() == pending) {  // hangs if fresh memory is never taken
  }
}

class Parts : public ::testing::TestWithParam<std::int64_t> {};

/// Groups on blocked streams use and free blocks of many sizes under a tight limit; depending on
/// the parameter each group also keeps a block. Taking a block of another group needs a wait.
TEST_P(Parts, are_given_to_groups_that_often_wait_under_a_hard_limit) {
  constexpr int kGroups = 8;
  constexpr int kRounds = 400;
  Device<Host> device({.memory = {.limit_bytes = std::size_t(kGroups * 24 * kMiB)}});
  StreamPool pool(device, {.groups = kGroups, .launch_threads = LaunchThreads::none});
  std::array<Gate, kGroups> gates;
  for (int group = 0; group < kGroups; ++group) {
    gates[group].hold(pool[group].compute());
  }
  std::vector<Tensor<std::uint8_t, Host>> kept;
  for (int group = 0; group < kGroups && GetParam() != 0; ++group) {
    StreamScope const scope(pool[group]);
    kept.emplace_back(device, Shape{GetParam()});
    issue("use", writes(kept.back()), [](auto) {});
  }
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> doublings(20, GetParam() == 0 ? 24 : 23);
  auto const waits_of = [&](int rounds) {
    auto const before = device.memory_statistics().waiting_reuses;
    for (int i = 0; i < rounds * kGroups; ++i) {
      StreamScope const scope(pool[i % kGroups]);
      Tensor<std::uint8_t, Host> const block(
          device, {static_cast<std::int64_t>(std::exp2(doublings(random)))});
      issue("use", writes(block), [](auto) {});
    }
    return device.memory_statistics().waiting_reuses - before;
  };
  EXPECT_GT(waits_of(kRounds), 0U);
  EXPECT_LT(waits_of(kRounds), kRounds * kGroups / 100);
  EXPECT_LE(device.memory_statistics().peak_reserved_bytes, std::size_t(kGroups * 24 * kMiB));
}

INSTANTIATE_TEST_SUITE_P(SoftLimitOnHost, Parts, ::testing::Values(0, 12 * kMiB));

/// Groups on blocked streams use one block at a time. A group that finds no large block without a
/// wait gets, after one wait, a share of memory that serves all its later blocks.
TEST(SoftLimitOnHost, each_group_waits_once_for_its_part) {
  constexpr int kGroups = 8;
  constexpr int kRounds = 1000;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    Device<Host> device({.memory = {.limit_bytes = std::size_t(768 * kMiB)}});
    StreamPool pool(device, {.groups = kGroups, .launch_threads = LaunchThreads::none});
    static_cast<void>(Tensor<std::uint8_t, Host>(device, {700 * kMiB}));  // then free for any group
    std::array<Gate, kGroups> gates;
    for (int group = 0; group < kGroups; ++group) {
      gates[group].hold(pool[group].compute());
    }
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> doublings(8, 26);
    std::uint64_t waits = 0;
    for (int i = 0; i < kRounds * kGroups; ++i) {
      StreamScope const scope(pool[i % kGroups]);
      auto const before = device.memory_statistics().waiting_reuses;
      Tensor<std::uint8_t, Host> const block(
          device, {static_cast<std::int64_t>(std::exp2(doublings(random)))});
      issue("use", writes(block), [](auto) {});
      bool const is_large = block.bytes() > kMiB;
      waits += is_large ? device.memory_statistics().waiting_reuses - before : 0;
    }
    EXPECT_GT(waits, 0U) << "seed " << seed;
    EXPECT_LE(waits, std::uint64_t{kGroups + 2}) << "seed " << seed;
  }
}

TEST(SoftLimitOnHost, a_stream_that_is_idle_does_not_make_memory_scarce) {
  Device<Host> device({.memory = {.limit_bytes = std::size_t(256 * kMiB)}});
  StreamPool pool(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  static_cast<void>(Tensor<std::uint8_t, Host>(device, {254 * kMiB}));
  StreamScope const scope(pool[0]);
  Tensor<std::uint8_t, Host> block(device, {2 * kMiB});
  issue("use", writes(block), [](auto) {});
  block = Tensor<std::uint8_t, Host>(device, {256});
  EXPECT_FALSE(pool[0].compute().engine().slot().event_wanted.load());
}

TEST(SoftLimitOnHost, memory_taken_where_the_device_is_far_behind_has_a_bound) {
  SoftLimitProgram<Host> program({}, {.memory_bytes = std::size_t(64 * kBytes)});
  auto const* const pending = program.use_behind_gate(0);
  auto const far_behind = Clock::now() + kLong;
  for (bool is_last = false; !is_last;) {
    is_last = Clock::now() >= far_behind;
    ASSERT_EQ(program.allocate(1).data(), pending);
  }
}

}  // namespace
}  // namespace msstream::testing
