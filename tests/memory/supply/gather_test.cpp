// SPDX-License-Identifier: Apache-2.0
// Tests that free pages are gathered to one block, also while memory is used, taken and freed, and
// when the runtime fails.
#include "memory/runtimes.hpp"
#include "memory/supply/backing_memory.hpp"
#include "runtime/gate.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace msstream::testing {
namespace {

class Gather : public ::testing::Test {
 protected:
  using R = Faulty<Host>;
  using Block = memory::Block;

  static constexpr std::size_t kPage = 2 * kMiB;
  static constexpr std::size_t kLimit = 32 * kPage;
  static constexpr auto kAny = [](auto const&) { return true; };
  static constexpr auto kNone = [](auto const&) { return false; };

  /// Returns a block of fresh memory at addresses behind all other memory.
  [[nodiscard]] Block* grow(std::size_t bytes) {
    return backing.grow(bytes, kLimit, kNone, [] { return nullptr; });
  }
  void put(Block* block) { backing.arena().put(block); }
  /// Makes a free piece of memory, with memory in use behind the piece, and returns the piece.
  Block* free_piece(std::size_t bytes) {
    auto* const piece = grow(bytes);
    kept_.push_back(grow(kPage));
    put(piece);
    return piece;
  }
  void TearDown() override {
    for (auto* const block : kept_) {
      put(block);
    }
  }

  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::shared_ptr<memory::Capacity> capacity = std::make_shared<memory::Capacity>(kLimit);
  Device<R> device{options()};
  StreamPool<R> pool{device, {.groups = 1, .launch_threads = LaunchThreads::none}};
  memory::BackingMemory backing{device.context(), memory::Space::device, capacity, kPage};

 private:
  [[nodiscard]] DeviceOptions<R> options() const {
    DeviceOptions<R> options;
    options.runtime.plan = plan;
    return options;
  }

  std::vector<Block*> kept_;
};

TEST_F(Gather, goes_to_its_addresses_whatever_is_left_meanwhile_beside_them) {
  auto* const used = grow(kPage);
  auto* const idle = grow(3 * kPage);
  auto* const kept = grow(kPage);
  auto* const begin = used->data;
  put(idle);
  used->record.log.note_write(pool[0].compute().engine().mark());
  put(used);
  auto const is_idle = [&](Block const& block) { return block.data != begin; };
  auto* const whole = backing.gather(4 * kPage, is_idle, kAny, kAny);
  ASSERT_NE(whole, nullptr);
  put(whole);
  // Takes the unmapped addresses behind the page in use first. The use of that page completes only
  // after the choice, at the second query.
  int asked = 0;
  auto* const next = backing.gather(
      2 * kPage, [&](Block const& block) { return is_idle(block) || asked++ > 0; }, kAny, kAny);
  ASSERT_NE(next, nullptr);
  EXPECT_GT(asked, 1);
  EXPECT_EQ(next->data, begin + kPage);
  std::memset(next->data, 1, next->bytes);
  put(next);
  put(kept);
}

TEST_F(Gather, that_finds_too_little_in_the_end_loses_nothing) {
  free_piece(kPage);
  free_piece(kPage);
  auto const before = capacity->reserved_bytes();
  int counted = 0;  // the predicate accepts both pages when counted, but only one when taken
  auto* const block =
      backing.gather(2 * kPage, kNone, kNone, [&](Block const&) { return counted++ < 3; });
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(capacity->reserved_bytes(), before);
  auto* const whole = backing.gather(2 * kPage, kAny, kAny, kAny);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(capacity->reserved_bytes(), before);
  std::memset(whole->data, 1, whole->bytes);
  put(whole);
}

class FailingGather : public Gather, public ::testing::WithParamInterface<Fault> {};

TEST_P(FailingGather, loses_nothing) {
  free_piece(kPage);
  free_piece(kPage);
  auto const before = capacity->reserved_bytes();
  auto const gather = [&] { return backing.gather(2 * kPage, kAny, kAny, kAny); };
  for (int const failing : {1, 2}) {
    plan->fail(RuntimeCall::move_pages, failing, GetParam());
    if (GetParam() == Fault::out_of_memory) {
      EXPECT_EQ(gather(), nullptr);
    } else {
      EXPECT_THROW(static_cast<void>(gather()), CudaError);
    }
    EXPECT_EQ(capacity->reserved_bytes(), before);
  }
  auto* const whole = gather();
  ASSERT_NE(whole, nullptr);
  put(whole);
}
INSTANTIATE_TEST_SUITE_P(Faults,
                         FailingGather,
                         ::testing::Values(Fault::out_of_memory, Fault::launch_failure));

TEST_F(Gather, never_ends_for_want_of_addresses) {
  // Each round leaves a page in use, behind addresses that no other memory can use.
  constexpr std::size_t kMuch = 8 * kPage;
  for (int turn = 0; turn < 20; ++turn) {
    auto* const much = grow(kMuch);
    ASSERT_NE(much, nullptr) << turn;
    put(much);
    free_piece(kPage);
    backing.trim(capacity->reserved_bytes() - kMuch - kPage, kAny, [] {});
  }
  auto* const rest = grow(kLimit - capacity->reserved_bytes());
  ASSERT_NE(rest, nullptr);
  put(rest);
}

}  // namespace
}  // namespace msstream::testing
