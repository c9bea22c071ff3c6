// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/large/large_allocator.hpp"
#include "memory/pools/block_pool.hpp"

#include <array>
#include <string_view>

namespace msstream::memory {

/// One step of the search for memory. The texts are cells of the table in docs/memory.md.
struct SearchStep {
  int number;
  std::string_view phase;  ///< the group of steps in the picture
  std::string_view name;
  std::string_view memory;        ///< what is taken for a large block, or for a slab
  std::string_view small_memory;  ///< what is taken for a small block
  std::string_view condition;
  std::string_view who_waits;
  /// The member functions that try the step: for a large block, for a small one, or for any block.
  /// Null if the step does not exist for that kind of block.
  Block* (LargeAllocator::*large)(LargeRequest&) = nullptr;
  Block* (BlockPool::*small)(BlockPool::Search&) = nullptr;
  Block* (BlockPool::*both)(BlockPool::Search&) = nullptr;
};

/// The order in which an allocation searches for memory. BlockPool and find_large() try the steps
/// one after the other until one returns a block. scripts/check_memory_table.py --fix writes the
/// picture and the table of docs/memory.md from the texts.
struct SearchOrder {
  static constexpr std::array kSteps = {
      SearchStep{
          .number = 1,
          .phase = "no wait",
          .name = "ready block",
          .memory = "a free block",
          .small_memory = "a free block of the stream's own cache, then of other streams' caches",
          .condition = "the stream follows its last uses already, or they are known to be complete",
          .who_waits = "nobody",
          .large = &LargeAllocator::take_ready,
          .small = &BlockPool::take_ready},
      SearchStep{
          .number = 2,
          .phase = "no wait",
          .name = "fresh",
          .memory = "fresh memory",
          .small_memory = "the rest of the newest slab; then a slab by steps 1 to 5",
          .condition = "reserved: up to peak + 15% + a growth step, or up to a chosen soft limit",
          .who_waits = "nobody",
          .large = &LargeAllocator::grow_to_soft_limit,
          .small = &BlockPool::cut_without_wait},
      SearchStep{.number = 3,
                 .phase = "no wait",
                 .name = "block after asking",
                 .memory = "a free block found complete by asking the runtime; then fresh memory",
                 .small_memory = "the oldest free block, if the runtime says that it is complete",
                 .condition = "reserved: up to peak + 27% + a growth step",
                 .who_waits = "nobody",
                 .large = &LargeAllocator::take_after_asking,
                 .small = &BlockPool::take_after_asking},
      SearchStep{.number = 4,
                 .phase = "no wait",
                 .name = "fresh",
                 .memory = "fresh memory",
                 .small_memory = "",
                 .condition = "the device lags or threads meet; "
                              "reserved: up to 1.5 × need + a growth step",
                 .who_waits = "nobody",
                 .large = &LargeAllocator::grow_instead_of_long_wait},
      SearchStep{.number = 5,
                 .phase = "no wait",
                 .name = "parts",
                 .memory = "parts of groups; if the device lags, pages put together",
                 .small_memory = "",
                 .condition = "see below",
                 .who_waits = "nobody, or the stream once",
                 .large = &LargeAllocator::take_from_shares},
      SearchStep{
          .number = 6,
          .phase = "the stream waits",
          .name = "any block",
          .memory = "any free block, first the one used longest ago",
          .small_memory = "the oldest free block of its size, or of up to four times its size",
          .condition = "",
          .who_waits = "the stream",
          .large = &LargeAllocator::take_any,
          .small = &BlockPool::take_any},
      SearchStep{.number = 7,
                 .phase = "the stream waits",
                 .name = "joined blocks",
                 .memory =
                     "joined free neighbours that different streams still use; then parts taken "
                     "back; then fresh memory",
                 .small_memory = "a slab by steps 5 to 10",
                 .condition = "reserved: up to peak + 34%",
                 .who_waits = "the stream; for fresh memory nobody",
                 .large = &LargeAllocator::take_joined,
                 .small = &BlockPool::cut_any},
      SearchStep{.number = 8,
                 .phase = "the stream waits",
                 .name = "slabs",
                 .memory = "slabs of only free small blocks, as one large block",
                 .small_memory = "",
                 .condition = "",
                 .who_waits = "the stream",
                 .large = &LargeAllocator::take_after_slabs},
      SearchStep{.number = 9,
                 .phase = "the stream waits",
                 .name = "pages put together",
                 .memory = "separate free pages, put together at one address",
                 .small_memory = "",
                 .condition = "first complete pages, then others",
                 .who_waits = "the stream, for others",
                 .large = &LargeAllocator::take_gathered},
      SearchStep{
          .number = 10,
          .phase = "at the limit",
          .name = "fresh",
          .memory = "fresh memory; again after complete free memory went back to the runtime",
          .small_memory = "any larger free block",
          .condition = "reserved: up to the hard limit",
          .who_waits = "nobody; for a larger block the stream",
          .large = &LargeAllocator::grow_to_hard_limit,
          .small = &BlockPool::take_any_larger},
      SearchStep{.number = 11,
                 .phase = "at the limit",
                 .name = "other pools",
                 .memory =
                     "memory of captured steps that are gone, or free in other private pools under "
                     "the same limit",
                 .small_memory = "likewise",
                 .condition = "",
                 .who_waits = "nobody",
                 .both = &BlockPool::search_after_room_is_made},
      SearchStep{
          .number = 12,
          .phase = "at the limit",
          .name = "the host waits",
          .memory = "memory freed by others and still used by the device: pinned, of a capture, or "
                    "in pieces; or free pages that other threads keep taking first",
          .small_memory = "likewise",
          .condition = "",
          .who_waits = "the host, up to `wait_for_frees`",
          .both = &BlockPool::search_while_waiting},
      SearchStep{.number = 13,
                 .phase = "at the limit",
                 .name = "callback",
                 .memory = "memory released by `on_out_of_memory`",
                 .small_memory = "likewise",
                 .condition = "the request is within the limit",
                 .who_waits = "",
                 .both = &BlockPool::search_after_callback},
  };

  static constexpr int kFirst = 1;
  /// The number of the last step that takes only blocks that need no wait. The search for a slab
  /// starts again here when a wait is allowed.
  static constexpr int kShares = 5;
  /// The number of the last step that takes only memory of this pool.
  static constexpr int kHardLimit = 10;
  /// The number of the last step, which throws OutOfMemory if there is no memory.
  static constexpr int kCallback = 13;

  [[nodiscard]] static constexpr SearchStep const& step(int number) {
    return kSteps[static_cast<std::size_t>(number - kFirst)];
  }
  [[nodiscard]] static constexpr bool is_numbered() {
    int number = kFirst;
    bool is_numbered = kSteps.size() == kCallback;
    for (auto const& each : kSteps) {
      is_numbered = is_numbered && each.number == number++;
    }
    return is_numbered;
  }
  /// Returns whether every step has the function that find_large() and BlockPool::try_steps() call
  /// for a large block without a test for null.
  [[nodiscard]] static constexpr bool serves_large_blocks() {
    bool serves = true;
    for (auto const& each : kSteps) {
      serves = serves && (each.number <= kHardLimit ? each.large != nullptr : each.both != nullptr);
    }
    return serves;
  }
};
static_assert(SearchOrder::is_numbered(), "the steps are numbered in their order");
static_assert(SearchOrder::serves_large_blocks(),
              "every step up to kHardLimit has a function for large blocks, and every later step "
              "one for any block");

/// Searches for a large block by the steps from `first` to `last`. Returns null if they find none.
[[nodiscard]] inline Block* find_large(LargeAllocator& large,
                                       LargeRequest request,
                                       int first = SearchOrder::kFirst,
                                       int last = SearchOrder::kHardLimit) {
  Block* block = nullptr;
  for (int number = first; number <= last && block == nullptr; ++number) {
    block = (large.*SearchOrder::step(number).large)(request);
  }
  return block;
}

}  // namespace msstream::memory
