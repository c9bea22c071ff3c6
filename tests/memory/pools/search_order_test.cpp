// SPDX-License-Identifier: Apache-2.0
// Tests that an allocation tries the steps of the search in the order of the table
// SearchOrder::kSteps, and that each step finds the memory that the table describes.
#include "memory/pools/search_order.hpp"

#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using memory::BlockRef;
using memory::Space;
using ::testing::ElementsAreArray;
using Steps = std::vector<int>;

constexpr std::size_t kSearchPage = 2 * kMiB;
constexpr std::size_t kSearchLimit = 32 * kSearchPage;
constexpr std::size_t kNoFresh = 1;  ///< a soft limit that has no room for anything

[[nodiscard]] Steps steps_to(int last) {
  Steps steps(static_cast<std::size_t>(last));
  for (int number = 1; auto& step : steps) {
    step = number++;
  }
  return steps;
}
[[nodiscard]] Steps operator+(Steps steps, Steps const& more) {
  steps.insert(steps.end(), more.begin(), more.end());
  return steps;
}

class SearchSteps : public ::testing::Test {
 protected:
  /// Makes the pool that the test allocates from.
  memory::BlockPool& make_pool(Space space, memory::BlockPoolOptions options) {
    options.capacity = capacity;
    options.growth_bytes = kSearchPage;
    options.on_step = [this](int number) { visited.push_back(number); };
    memory_.emplace(device.context(), space, std::move(options));
    return *memory_;
  }
  void make_pool(std::size_t soft_limit_bytes, Space space = Space::device) {
    memory::BlockPoolOptions options{};
    options.soft_limit_bytes = soft_limit_bytes;
    make_pool(space, std::move(options));
  }
  [[nodiscard]] BlockRef allocate(std::size_t bytes, int group = 0) {
    visited.clear();
    return memory_->allocate(bytes, slot(group), device.engine().state());
  }
  /// Frees a block whose last use, on the stream of the group, cannot run until the gate opens.
  void free_in_use(BlockRef block, int group) {
    auto const stream = pool[group].compute();
    gate.hold(stream);
    block->record.log.note_write(stream.engine().mark());
  }
  [[nodiscard]] detail::StreamSlot& slot(int group) {
    return pool[group].compute().engine().slot();
  }
  void TearDown() override {
    gate.open();
    memory_.reset();
  }

  std::shared_ptr<memory::Capacity> capacity = std::make_shared<memory::Capacity>(kSearchLimit);
  Device<Host> device;
  StreamPool<Host> pool{device, {.groups = 3, .launch_threads = LaunchThreads::none}};
  Gate gate;
  Steps visited;

 private:
  std::optional<memory::BlockPool> memory_;
};

TEST_F(SearchSteps, at_the_limit_are_all_tried_in_the_order_of_the_table) {
  make_pool(0);
  auto const whole = allocate(kSearchLimit);
  Steps numbers;
  for (auto const& step : memory::SearchOrder::kSteps) {
    numbers.push_back(step.number);
  }
  EXPECT_THAT(numbers, ElementsAreArray(steps_to(13)));
  // Step 11 of the search asks other pools for memory; the search then starts again.
  auto const expected = steps_to(11) + steps_to(10) + Steps{12, 13};
  for (std::size_t const bytes : {kSearchPage, std::size_t{1000}}) {
    EXPECT_THROW(static_cast<void>(allocate(bytes)), OutOfMemory);
    EXPECT_THAT(visited, ElementsAreArray(expected)) << bytes;
  }
}

TEST_F(SearchSteps, for_more_than_the_limit_is_only_the_last) {
  make_pool(0);
  EXPECT_THROW(static_cast<void>(allocate(2 * kSearchLimit)), OutOfMemory);
  EXPECT_THAT(visited, ElementsAreArray({13}));
}

TEST_F(SearchSteps, begin_with_a_ready_block_before_fresh_memory) {
  make_pool(kSearchLimit);
  for (std::size_t const bytes : {kSearchPage, std::size_t{1000}}) {
    auto block = std::optional(allocate(bytes));
    EXPECT_THAT(visited, ElementsAreArray(steps_to(2))) << bytes;
    auto const* const data = (*block)->data;
    block.reset();
    EXPECT_EQ(allocate(bytes, 1)->data, data);
    EXPECT_THAT(visited, ElementsAreArray(steps_to(1))) << bytes;
  }
}

TEST_F(SearchSteps, go_on_with_more_fresh_memory_if_the_device_lags) {
  capacity = std::make_shared<memory::Capacity>(std::size_t{16} << 30U);
  make_pool(0);
  free_in_use(allocate(32 * kMiB), 1);
  auto const end_of_work = pool[1].compute().record();
  // The device lags if the work is unfinished after 1 ms by the clock. The work is held, so it does
  // not matter how much later the next line runs.
  auto const lags_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < lags_at) {
    std::this_thread::yield();
  }
  static_cast<void>(allocate(32 * kMiB));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(4)));
}

TEST_F(SearchSteps, take_from_the_parts_of_others_before_a_stream_waits) {
  memory::StreamCaches const caches;
  memory::LargeAllocator large(
      device.context(), Space::device, capacity, kSearchPage, kNoFresh, caches);
  auto const any = [](auto const&) { return true; };
  auto const none = [] { return false; };
  large.put(large.grow(16 * kMiB, slot(1), kSearchLimit, any));
  ASSERT_TRUE(large.shares().lend(16 * kMiB, slot(1), any));
  memory::LargeRequest const request{kSearchPage, kSearchPage, slot(0), none};
  EXPECT_EQ(memory::find_large(large, request, 1, 4), nullptr);
  auto* const block = memory::find_large(large, request, 5, 5);
  ASSERT_NE(block, nullptr);
  large.put(block);
}

TEST_F(SearchSteps, join_used_blocks_only_if_none_is_large_enough) {
  make_pool(kNoFresh);
  auto first = std::optional(allocate(kSearchPage));
  auto second = std::optional(allocate(kSearchPage));
  auto const kept = allocate(kSearchPage);
  ASSERT_EQ((*second)->data, (*first)->data + kSearchPage);
  free_in_use(*std::exchange(first, std::nullopt), 1);
  free_in_use(*std::exchange(second, std::nullopt), 2);
  static_cast<void>(allocate(2 * kSearchPage));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(7)));
  static_cast<void>(allocate(2 * kSearchPage));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(6)));
}

TEST_F(SearchSteps, let_a_small_request_wait_for_a_used_block_before_a_slab) {
  make_pool(kSearchLimit);
  auto block = std::optional(allocate(kMiB));
  auto const kept = allocate(kMiB);
  auto const rest = allocate(kSearchLimit - kSearchPage);
  free_in_use(*std::exchange(block, std::nullopt), 1);
  static_cast<void>(allocate(kMiB / 2));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(6)));
  static_cast<void>(allocate(1000));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(10)))
      << "the block is more than four times larger";
}

TEST_F(SearchSteps, cut_a_slab_from_used_memory_if_there_is_no_small_block) {
  make_pool(kNoFresh);
  free_in_use(allocate(kSearchPage), 1);
  static_cast<void>(allocate(1000));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(7)));
}

TEST_F(SearchSteps, turn_slabs_into_large_blocks_before_pages_are_moved) {
  make_pool(kSearchLimit);
  static_cast<void>(allocate(1000));
  auto const rest = allocate(kSearchLimit - kSearchPage);
  static_cast<void>(allocate(kSearchPage));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(8)));
}

TEST_F(SearchSteps, put_pages_together_at_the_limit) {
  make_pool(kSearchLimit);
  auto first = std::optional(allocate(kSearchPage));
  auto const between = allocate(kSearchPage);
  auto last = std::optional(allocate(kSearchPage));
  auto const rest = allocate(kSearchLimit - 3 * kSearchPage);
  first.reset();
  last.reset();
  static_cast<void>(allocate(2 * kSearchPage));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(9)));
}

TEST_F(SearchSteps, take_fresh_memory_up_to_the_hard_limit_after_all_free_memory) {
  make_pool(kNoFresh, Space::pinned);
  auto first = std::optional(allocate(kSearchPage));
  auto second = std::optional(allocate(kSearchPage));
  free_in_use(*std::exchange(first, std::nullopt), 1);
  free_in_use(*std::exchange(second, std::nullopt), 1);
  // The pool has two free pages, which copies in flight still use: it reserves more than a third
  // above the bytes in use.
  static_cast<void>(allocate(2 * kSearchPage));
  EXPECT_THAT(visited, ElementsAreArray(steps_to(10)));
}

/// When one of the last steps of the search has made memory available (another pool's, after a
/// wait, or from the callback), the search starts again at step 1.
TEST_F(SearchSteps, end_with_other_pools_then_a_wait_then_the_callback) {
  int asked = 0;
  int frees_when = 1;
  auto const give = [&] {
    capacity->give_back(kSearchLimit);
    return true;
  };
  memory::BlockPoolOptions options{};
  options.soft_limit_bytes = kSearchLimit;
  options.wait_for_frees = std::chrono::minutes(2);
  options.make_room = [&] {
    if (frees_when == 0) {
      return memory::Room::none;
    }
    return ++asked == frees_when && give() ? memory::Room::made : memory::Room::later;
  };
  options.on_out_of_memory = [&](OutOfMemory const&) { return give(); };
  auto& tested = make_pool(Space::device, std::move(options));
  auto const visited_by = [&](int when) {
    asked = 0;
    frees_when = when;
    tested.return_cached_memory();
    EXPECT_TRUE(capacity->take(kSearchLimit, kSearchLimit));
    static_cast<void>(allocate(kSearchPage));
    return visited;
  };
  EXPECT_THAT(visited_by(1), ElementsAreArray(steps_to(11) + steps_to(2)));
  EXPECT_THAT(visited_by(2), ElementsAreArray(steps_to(11) + steps_to(10) + Steps{12, 1, 2}));
  EXPECT_THAT(visited_by(0), ElementsAreArray(steps_to(11) + steps_to(10) + Steps{12, 13, 1, 2}));
}

TEST_F(SearchSteps, of_large_blocks_are_these_functions) {
  using L = memory::LargeAllocator;
  std::array const expected{&L::take_ready,
                            &L::grow_to_soft_limit,
                            &L::take_after_asking,
                            &L::grow_instead_of_long_wait,
                            &L::take_from_shares,
                            &L::take_any,
                            &L::take_joined,
                            &L::take_after_slabs,
                            &L::take_gathered,
                            &L::grow_to_hard_limit};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(memory::SearchOrder::kSteps[i].large, expected[i]) << i + 1;
  }
}

}  // namespace
}  // namespace msstream::testing
