// SPDX-License-Identifier: Apache-2.0
// Tests which memory freed by one stream another stream gets, which waits are issued for it, and
// which other calls of the runtime are made.
#include "memory/behind_gate.hpp"
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

/// Work that does nothing. The tests only need its order, so large memory need not be touched.
constexpr auto kNothing = [](auto) {};

/// A fixture with a device and three stream groups. Memory is mapped in pages, unless the limit is
/// only a few pages.
template <class TypeParam>
class CrossStream : public RuntimeTest<TypeParam> {
 protected:
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;

  void open(std::int64_t limit_bytes) {
    device.emplace(watched_device<TypeParam>({.limit_bytes = std::size_t(limit_bytes)}));
    pool.emplace(*device, StreamPoolOptions{.groups = 3, .launch_threads = LaunchThreads::none});
  }
  [[nodiscard]] Bytes allocate(int group, std::int64_t bytes) {
    StreamScope const scope((*pool)[group]);
    return Bytes(*device, {bytes});
  }
  template <class Uses, class Work>
  void issue_on(int group, Uses const& uses, Work&& work) {
    StreamScope const scope((*pool)[group]);
    issue("use", uses, std::forward<Work>(work));
  }
  [[nodiscard]] std::uint64_t waits() const { return device->wait_counts().issued; }
  [[nodiscard]] std::uint64_t calls() const { return watch_of(*device).calls; }

  std::optional<Device<Watched<TypeParam>>> device;
  std::optional<StreamPool<Watched<TypeParam>>> pool;
  Journal journal;
};
TYPED_TEST_SUITE(CrossStream, Runtimes, RuntimeNames);

TYPED_TEST(CrossStream, whoever_follows_the_uses_gets_the_block_and_the_runtime_is_asked_nothing) {
  for (auto const bytes : {std::int64_t{1000}, 4 * kMiB}) {
    SCOPED_TRACE(bytes);
    this->open(64 * kMiB);
    std::optional first(this->allocate(0, bytes));
    auto* const memory = first->data();
    Gate gate;
    gate.hold((*this->pool)[0].compute());
    // The queue of stream group 0 is [wait for the test's gate, write `first`]; that of stream
    // group 1 is [wait for group 0, read `first`, write `second`].
    this->issue_on(0, writes(*first), kNothing);
    this->issue_on(1, reads(*first), kNothing);
    EXPECT_EQ(this->waits(), 1U);
    auto const before = this->calls();
    first.reset();
    auto const second = this->allocate(1, bytes);
    this->issue_on(1, writes(second), kNothing);
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(this->calls(), before);
    EXPECT_EQ(this->device->memory_statistics().waiting_reuses, 0U);
  }
}

TYPED_TEST(CrossStream, a_stream_that_follows_only_indirectly_gets_the_block_for_nothing_too) {
  for (auto const bytes : {std::int64_t{1000}, 4 * kMiB}) {
    SCOPED_TRACE(bytes);
    this->open(64 * kMiB);
    std::optional first(this->allocate(0, bytes));
    auto* const memory = first->data();
    auto const passed_on = this->allocate(1, 100);
    Gate gate;
    gate.hold((*this->pool)[0].compute());
    // The queue of stream group 0 is [wait for the test's gate, write `first`]; that of stream
    // group 1 is [wait for group 0, read `first`, write `passed_on`]; that of stream group 2 is
    // [wait for group 1, read `passed_on`, write `second`].
    this->issue_on(0, writes(*first), kNothing);
    {
      StreamScope const scope((*this->pool)[1]);
      issue("pass on", reads(*first), writes(passed_on), kNothing);
    }
    this->issue_on(2, reads(passed_on), kNothing);
    EXPECT_EQ(this->waits(), 2U);
    auto const before = this->calls();
    first.reset();
    auto const second = this->allocate(2, bytes);
    this->issue_on(2, writes(second), kNothing);
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(this->calls(), before);
  }
}

/// Group 1 waits for one use of a block by group 0, after which group 0 uses the block again: the
/// wait does not cover the second use.
TYPED_TEST(CrossStream, a_wait_from_before_the_last_use_does_not_cover_it) {
  this->open(2 * kMiB);
  std::optional old(this->allocate(0, 2 * kMiB));
  auto* const memory = old->data();
  Gate gate;
  // The queue of stream group 0 is [write, wait for the test's gate, "old"]; that of stream group 1
  // is [wait for the write, read, wait for "old", "new"].
  this->issue_on(0, writes(*old), kNothing);
  this->issue_on(1, reads(*old), kNothing);
  auto const waited = this->waits();
  gate.hold((*this->pool)[0].compute());
  this->issue_on(0, reads(*old), this->journal.entry(*this->device, "old"));
  old.reset();
  auto const next = this->allocate(1, 2 * kMiB);
  EXPECT_EQ(next.data(), memory);
  EXPECT_EQ(this->device->memory_statistics().waiting_reuses, 1U);
  this->issue_on(1, writes(next), this->journal.entry(*this->device, "new"));
  EXPECT_EQ(this->waits(), waited + 1);
  gate.open();
  this->pool->synchronize();
  EXPECT_THAT(this->journal.entries(), ElementsAre("old", "new"));
}
TYPED_TEST(CrossStream, and_where_there_is_other_memory_it_is_preferred) {
  for (auto const bytes : {std::int64_t{1000}, 2 * kMiB}) {
    SCOPED_TRACE(bytes);
    this->open(64 * kMiB);
    std::optional old(this->allocate(0, bytes));
    auto* const memory = old->data();
    this->issue_on(0, writes(*old), kNothing);
    this->issue_on(1, reads(*old), kNothing);
    auto const waited = this->waits();
    Gate gate;
    gate.hold((*this->pool)[0].compute());
    this->issue_on(0, reads(*old), kNothing);
    old.reset();
    auto const next = this->allocate(1, bytes);
    EXPECT_NE(next.data(), memory);
    this->issue_on(1, writes(next), kNothing);
    EXPECT_EQ(this->waits(), waited);
  }
}

/// A block takes all memory under the limit. After its last use and its free, a long operation that
/// does not use the block is issued on the same stream; it must delay no later owner.
TYPED_TEST(CrossStream, a_long_operation_after_the_free_delays_nobody) {
  this->open(2 * kMiB);
  std::optional old(this->allocate(0, 2 * kMiB));
  auto* const memory = old->data();
  PinnedArray<std::uint8_t, Watched<TypeParam>> const other(*this->device, 100);
  auto& runtime = this->device->runtime();
  Gate gate;
  // The queue of stream group 0 is [use old, long operation: wait for the test's gate]; that of
  // stream group 1 is [wait for the use, "new"].
  this->issue_on(0, writes(*old), kNothing);
  old.reset();
  this->issue_on(0, writes(other), [&](auto stream) { gate.block(runtime, native(stream)); });
  auto const next = this->allocate(1, 2 * kMiB);
  EXPECT_EQ(next.data(), memory);
  this->issue_on(1, writes(next), this->journal.entry(*this->device, "new"));
  auto const done = (*this->pool)[1].compute().record();
  EXPECT_TRUE(returns_behind(gate, [&] { done.synchronize(); }))
      << "it waited for the tail of the stream, not for the point of the free";
  EXPECT_THAT(this->journal.entries(), ElementsAre("new"));
}

/// Frees three neighbouring blocks, each last used by a group that a gate of its own holds. They
/// join to one block, which is all memory under the limit.
TYPED_TEST(CrossStream, what_joins_asks_the_runtime_nothing_and_its_next_owner_waits_for_all) {
  constexpr int kParts = 3;
  constexpr std::int64_t kPartBytes = 32 * kMiB;
  // The order in which the gates open. The next owner of the memory must wait for the last one.
  std::vector<int> order{0, 1, 2};
  do {
    SCOPED_TRACE(::testing::PrintToString(order));
    this->journal = Journal();
    this->open(kParts * kPartBytes);
    if (this->device->engine().backend().page_bytes() == 0) {
      GTEST_SKIP() << "no pages on this machine: memory does not join";
    }
    std::array<Gate, kParts> gates;
    std::vector<std::optional<typename TestFixture::Bytes>> parts;
    for (int i = 0; i < kParts; ++i) {
      parts.emplace_back(this->allocate(i, kPartBytes));
    }
    // The queue of each stream group i is [use, wait for gate i, "last"].
    for (int i = 0; i < kParts; ++i) {
      this->issue_on(i, writes(*parts[i]), kNothing);
      gates[i].hold((*this->pool)[i].compute());
      this->issue_on(i, reads(*parts[i]), this->journal.entry(*this->device, "last"));
    }
    auto const before = this->calls();
    for (int const i : {0, 2, 1}) {
      parts[i].reset();
    }
    EXPECT_EQ(this->calls(), before);
    // The queue of the default group is [wait for group 0, wait for group 1, wait for group 2,
    // "next"].
    typename TestFixture::Bytes const next(*this->device, {kParts * kPartBytes});
    EXPECT_EQ(this->device->memory_statistics().reserved_bytes,
              static_cast<std::size_t>(kParts * kPartBytes));
    issue("next", writes(next), this->journal.entry(*this->device, "next"));
    EXPECT_EQ(this->waits(), static_cast<std::uint64_t>(kParts));
    auto const done = this->device->default_group().compute().record();
    for (int const i : order) {
      EXPECT_FALSE(done.query());
      gates[i].open();
      (*this->pool)[i].synchronize();
    }
    done.synchronize();
    EXPECT_THAT(this->journal.entries(), ElementsAre("last", "last", "last", "next"));
  } while (std::next_permutation(order.begin(), order.end()));
}

TYPED_TEST(CrossStream, memory_that_nobody_uses_is_not_waited_for_with_what_lies_beside_it) {
  this->open(64 * kMiB);
  static_cast<void>(this->allocate(0, 64 * kMiB));
  Gate gate;
  gate.hold((*this->pool)[0].compute());
  {
    auto const first = this->allocate(0, 4 * kMiB);
    this->issue_on(0, writes(first), kNothing);
  }
  auto const second = this->allocate(1, 4 * kMiB);
  this->issue_on(1, writes(second), kNothing);
  EXPECT_EQ(this->waits(), 0U);
  EXPECT_EQ(this->device->memory_statistics().waiting_reuses, 0U);
}

TYPED_TEST(CrossStream, letting_go_of_the_last_handle_asks_the_runtime_nothing) {
  using R = Watched<TypeParam>;
  this->open(64 * kMiB);
  std::vector<std::optional<typename TestFixture::Bytes>> tensors;
  for (auto const bytes : {std::int64_t{0}, std::int64_t{1000}, kMiB, 4 * kMiB}) {
    tensors.emplace_back(this->allocate(0, bytes));
  }
  tensors.emplace_back(tensors.back()->rows(0, 1));
  std::optional<PinnedArray<std::uint8_t, R>> pinned(std::in_place, *this->device, 1000);
  Stream<R> raw(*this->device);
  std::optional<TensorHolder<R>> holder(std::in_place, raw);
  for (auto const& tensor : tensors) {
    holder->hold(*tensor);
  }
  holder->hold(*pinned);
  Gate gate;
  gate.hold(raw);
  auto const before = this->calls();
  // Releases the handles on another thread, while work on the stream `raw` may still use the
  // memory.
  std::jthread([&] {
    holder.reset();
    tensors.clear();
    pinned.reset();
  }).join();
  EXPECT_EQ(this->calls(), before);
  EXPECT_EQ(this->device->memory_statistics().live_bytes, 0U);
}

/// One TensorHolder covers raw work on several streams. The next owner of the tensor's memory must
/// wait for the work of all of them.
TYPED_TEST(CrossStream, the_next_owner_follows_every_stream_of_a_holder) {
  using R = Watched<TypeParam>;
  constexpr std::size_t kStreams = 5;
  for (std::size_t held_back = 0; held_back < kStreams; ++held_back) {
    SCOPED_TRACE(held_back);
    this->journal = Journal();
    this->open(2 * kMiB);
    std::array<std::optional<Stream<R>>, kStreams> streams;
    for (auto& stream : streams) {
      stream.emplace(*this->device);
    }
    std::optional tensor(this->allocate(0, 2 * kMiB));
    std::optional<TensorHolder<R>> holder(
        std::in_place, *streams[0], *streams[1], *streams[2], *streams[3], *streams[4]);
    holder->hold(*tensor);
    Gate gate;
    // The queue of streams[held_back] is [wait for the test's gate, "raw"]; the queues of the other
    // streams are ["raw"].
    gate.hold(*streams[held_back]);
    for (auto& stream : streams) {
      this->device->runtime().call_host(stream->native(), this->journal.entry("raw"));
    }
    std::jthread([&] {
      tensor.reset();
      holder.reset();
    }).join();
    auto const next = this->allocate(1, 2 * kMiB);
    this->issue_on(1, writes(next), this->journal.entry(*this->device, "next"));
    EXPECT_GE(this->waits(), 1U) << "the others may be known to be over";
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (i != held_back) {
        streams[i]->synchronize();
      }
    }
    EXPECT_EQ(this->journal.entries(), Order(kStreams - 1, "raw"));
    gate.open();
    this->pool->synchronize();
    EXPECT_EQ(this->journal.entries().size(), kStreams + 1);
    EXPECT_EQ(this->journal.entries().back(), "next");
  }
}

}  // namespace
}  // namespace msstream::testing
