// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/large/block_source.hpp"
#include "memory/large/lately.hpp"
#include "memory/large/lending.hpp"
#include "memory/large/reuse_rules.hpp"
#include "memory/small/live_bytes.hpp"
#include "memory/small/rivalry.hpp"
#include "memory/small/stream_caches.hpp"
#include "stream/stream_context.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::memory {

/// Takes large blocks from a BlockSource, and decides when the source grows: docs/memory.md has the
/// order in which memory is searched for. Thread-safe.
class LargeBlocks {
 public:
  /// `caches` has the small blocks, and counts the memory in use. `soft_limit_bytes`: the reserved
  /// bytes up to which fresh memory is preferred to waits; 0: the memory in use determines them.
  /// `keep_bytes`: see MemorySupply.
  LargeBlocks(std::shared_ptr<detail::StreamContext> context,
              Space space,
              std::shared_ptr<Capacity> capacity,
              std::size_t growth_bytes,
              std::size_t soft_limit_bytes,
              StreamCaches const& caches,
              std::shared_ptr<MemoryHistory> history,
              std::size_t keep_bytes = MemorySupply::kAll)
      : space_(space),
        growth_bytes_(growth_bytes),
        soft_limit_bytes_(soft_limit_bytes),
        caches_(caches),
        live_(caches.live()),
        rules_(context->tracker, space),
        source_(std::move(context),
                space,
                std::move(capacity),
                growth_bytes,
                std::move(history),
                keep_bytes),
        lending_(source_, rules_, live_, growth_bytes) {}

  /// Returns a block that needs no wait. Otherwise takes fresh memory: while little memory is free,
  /// and beyond that if the device is far behind, so that a wait would be long, or if many threads
  /// allocate at once. Otherwise returns any block, or fresh memory up to the hard limit. The
  /// result of `hold()` is kept while this thread holds free memory that other threads then miss.
  /// `return_slabs()` turns free small blocks into large ones, and returns whether there were any.
  /// Null if there is no memory.
  template <class Hold, class ReturnSlabs>
  [[nodiscard]] Block* any(std::size_t bytes,
                           detail::StreamSlot& stream,
                           Hold const& hold,
                           ReturnSlabs&& return_slabs) {
    bool const has_parts = may_move_or_lend(stream);
    if (has_parts) {
      lending_.lend_if_contended(stream, hold);
    }
    auto const found = find_without_wait(bytes, bytes, stream, From::own_part_first);
    if (found.block != nullptr) {
      return found.block;
    }
    Block* const lent = has_parts ? lending_.take(bytes, stream, hold) : nullptr;
    note_wait(lent, stream);
    return lent != nullptr ? lent : find_any(bytes, stream, found.lags, return_slabs);
  }
  /// Returns a block that needs no wait, for a slab, which is kept, and of which `wanted` bytes
  /// will be in use. Takes from LentMemory, whose parts should stay whole, only if no other memory
  /// is without a wait. Null if there is none: any_to_keep() is the next step.
  [[nodiscard]] Block* to_keep_without_wait(std::size_t bytes,
                                            std::size_t wanted,
                                            detail::StreamSlot& stream) {
    auto const ready = rules_.ready_for(stream);
    Block* block = find_without_wait(bytes, wanted, stream, From::common).block;
    if (block == nullptr) {
      block = source_.take(bytes, stream, ready);
    }
    return block != nullptr || space_ == Space::pinned ? block : source_.take_lent(bytes, ready);
  }
  /// Like to_keep_without_wait(), but for a stream that could use free blocks of other streams
  /// instead: asks the runtime about uses of free blocks only to find the soft limit, which
  /// PartForRivals raises.
  [[nodiscard]] Block* to_keep_for_oneself(std::size_t bytes,
                                           std::size_t wanted,
                                           detail::StreamSlot& stream) {
    auto const ready = rules_.ready_for(stream);
    auto const limit = soft_limit_bytes_ != 0
                           ? soft_limit_bytes_
                           : higher_soft_limit(wanted, kSparePercent) +
                                 PartForRivals::most(source_.capacity().limit_bytes());
    Block* const block = source_.take(bytes, stream, ready, From::common);
    return block != nullptr ? block : source_.grow(bytes, stream, limit, ready, From::common);
  }
  /// Returns any block for a slab, after to_keep_without_wait() has found none.
  template <class ReturnSlabs>
  [[nodiscard]] Block* any_to_keep(std::size_t bytes,
                                   detail::StreamSlot& stream,
                                   ReturnSlabs&& return_slabs) {
    return find_any(bytes, stream, false, return_slabs);
  }

  /// Releases free memory whose last uses are complete to the runtime, until no more than `bytes`
  /// are reserved.
  void return_to_runtime(std::size_t bytes) {
    ask_what_is_over();
    source_.trim(bytes, [this](Block const& block) {
      return rules_.is_known_to_be_over(block) ||
             !detail::works(detail::Mechanism::release_after_uses);
    });
  }
  /// Returns the free bytes whose uses are not known to be complete.
  [[nodiscard]] std::size_t pending_bytes() const {
    std::size_t pending = 0;
    source_.for_each_free([&](Block const* block) {
      pending += rules_.is_known_to_be_over(*block) ? 0 : block->bytes;
    });
    return pending;
  }
  /// Returns the free bytes whose uses are known to be complete.
  [[nodiscard]] std::size_t idle_bytes() const {
    std::size_t idle = 0;
    source_.for_each_free(
        [&](Block const* block) { idle += rules_.is_known_to_be_over(*block) ? block->bytes : 0; });
    return idle;
  }
  /// Whether the free pages with complete uses, and fresh pages, are enough for `bytes`, even if
  /// other threads take them first.
  [[nodiscard]] bool has_pages_for(std::size_t bytes) const {
    return source_.has_pages_for(bytes, rules_.over());
  }
  /// Whether there is no fresh memory and, in addition, little free memory or a recent wait for it.
  [[nodiscard]] bool is_scarce() const noexcept {
    auto const& capacity = source_.capacity();
    auto const is_most = [&](std::size_t live) {
      return live + capacity.limit_bytes() / kScarcePart >= capacity.reserved_bytes();
    };
    return is_limit_reached() &&
           ((is_most(live_.told()) && is_most(live_.now())) || waits_.has_happened());
  }
  [[nodiscard]] BlockSource& source() noexcept { return source_; }
  [[nodiscard]] BlockSource const& source() const noexcept { return source_; }

 private:
  using From = BlockSource::From;

  /// The percentage above the peak of memory in use up to which fresh memory is taken:
  /// kSpareUnaskedPercent before the runtime is asked which uses of free memory are complete,
  /// kSpareAskedPercent before a stream waits for free memory, kSparePercent if no free block is
  /// large enough. Threads that do not ask the runtime use kSparePercent from the start.
  static constexpr std::size_t kSpareUnaskedPercent = 15;
  static constexpr std::size_t kSpareAskedPercent = 27;
  static constexpr std::size_t kSparePercent = 34;
  /// The percentage above the memory in use, by the program or by work in flight, up to which fresh
  /// memory is taken if a wait would be long or threads contend for memory.
  static constexpr std::size_t kSpareOfNeedPercent = 50;
  /// The divisor of the hard limit that bounds the fresh memory taken because of work in flight. If
  /// threads contend for memory, kNegligiblePartOfMany applies.
  static constexpr std::size_t kNegligiblePart = 64;
  static constexpr std::size_t kNegligiblePartOfMany = 32;
  static constexpr std::chrono::milliseconds kBetweenCounts{1};
  static constexpr int kPartOfTimeToCount = 50;
  /// The age of the oldest incomplete work on the device from which a wait for it is long
  /// (kLongWait) or very long (kVeryLongWait).
  static constexpr std::chrono::milliseconds kLongWait{1};
  static constexpr std::chrono::milliseconds kVeryLongWait{10};
  static constexpr std::chrono::microseconds kBetweenAsks{100};
  static constexpr std::chrono::microseconds kBetweenVainAsks{1600};
  /// Memory is scarce if at most limit / kScarcePart of the reserved bytes are not in use.
  static constexpr std::size_t kScarcePart = 8;

  struct Found {
    Block* block;  ///< null if all blocks need a wait
    bool lags;     ///< whether the device lags behind the host; false if threads contend
  };
  /// Finds a block of which `wanted` bytes will be in use, and that needs no wait.
  [[nodiscard]] Found find_without_wait(std::size_t bytes,
                                        std::size_t wanted,
                                        detail::StreamSlot& stream,
                                        From from) {
    auto const ready = rules_.ready_for(stream);
    auto const take_after = [&](auto const& ask) -> Block* {
      auto const uses = source_.uses_of_cheapest(bytes, rules_.costs(stream));
      if (uses.empty()) {
        return nullptr;
      }
      std::for_each(uses.begin(), uses.end(), ask);
      source_.join_what_is_over();
      return source_.take(bytes, stream, ready, from);
    };
    Block* block = source_.take(bytes, stream, ready, from);
    if (block == nullptr) {
      block = take_after([this](order::Position use) { rules_.look_how_far(use); });
    }
    bool const asks = may_ask_about_all(stream);
    if (block == nullptr) {
      auto const spare = asks ? kSpareUnaskedPercent : kSparePercent;
      block = source_.grow(bytes, stream, soft_limit(wanted, spare), ready, from);
    }
    if (block == nullptr) {
      block = take_after([this](order::Position use) { rules_.ask_whether_over(use); });
    }
    if (block == nullptr && asks && ask_about_all(stream)) {
      // A block whose uses are complete may be large enough as it is. Neighbours are joined only
      // after that: a block joined with memory that is still used could be taken only with a wait.
      block = source_.take(bytes, stream, ready, from);
      if (block == nullptr) {
        source_.join_what_is_over();
        block = source_.take(bytes, stream, ready, from);
      }
      note_answer(block != nullptr);
    }
    if (block == nullptr && asks && soft_limit_bytes_ == 0) {
      block = source_.grow(bytes, stream, soft_limit(wanted, kSpareAskedPercent), ready, from);
    }
    bool lags = false;
    if (block == nullptr && soft_limit_bytes_ == 0) {
      bool const is_contended = source_.is_contended();
      auto const lag = is_contended ? std::chrono::nanoseconds{} : lag_of_wait(bytes, stream);
      lags = lag > kLongWait;
      if (is_contended || lags) {
        auto const spare = asks && lag <= kVeryLongWait ? kSpareAskedPercent : kSparePercent;
        block = source_.grow(bytes, stream, higher_soft_limit(wanted, spare), ready, from);
      }
    }
    return {block, lags};
  }
  template <class ReturnSlabs>
  [[nodiscard]] Block* find_any(std::size_t bytes,
                                detail::StreamSlot& stream,
                                bool lags,
                                ReturnSlabs& return_slabs) {
    auto const over = rules_.over();
    auto const followed = rules_.followed_by(stream);
    auto const usable = [this](Block const& free) {
      return space_ == Space::device || rules_.is_known_to_be_over(free);
    };
    auto const hard_limit = source_.capacity().limit_bytes();
    bool const may_move_used = may_move_or_lend(stream);

    Block* block = source_.take_lent(bytes, rules_.ready_for(stream));
    if (block == nullptr && may_move_used && lags) {
      block = source_.try_gather(bytes, over, followed);
    }
    if (block == nullptr) {
      block = take_any_of_joined(bytes, stream);
    }
    if (block == nullptr) {
      block = source_.grow(bytes, stream, with_spare(bytes, kSparePercent), usable);
    }
    if (block == nullptr && return_slabs()) {
      block = take_any_of_joined(bytes, stream);
    }
    bool const keeps_addresses = is_for_graph(stream);
    if (block == nullptr && !keeps_addresses) {
      ask_what_is_over();
      block = source_.gather(bytes, over, over, over);
    }
    if (block == nullptr && may_move_used) {
      block = source_.gather(bytes, over, followed, usable);
    }
    if (block == nullptr) {
      block = source_.grow(bytes, stream, hard_limit, usable);
    }
    if (block == nullptr && !keeps_addresses) {
      // Releases free pieces that are too small, because pieces do not join, to make room for a
      // larger one.
      source_.trim(0, over);
      block = source_.grow(bytes, stream, hard_limit, usable);
    }
    return block;
  }
  /// Whether the limit has no room for the number of bytes taken at a time.
  [[nodiscard]] bool is_limit_reached() const noexcept {
    auto const& capacity = source_.capacity();
    return !capacity.has_room(growth_bytes_, capacity.limit_bytes());
  }
  /// Whether the memory is for a captured graph. A graph keeps its addresses, and graphs that share
  /// its memory keep theirs: the next launch uses free memory even if its noted uses are complete.
  [[nodiscard]] bool is_for_graph(detail::StreamSlot const& stream) const noexcept {
    return space_ == Space::device && stream.capture.load(std::memory_order_relaxed) != nullptr;
  }
  [[nodiscard]] bool may_move_or_lend(detail::StreamSlot const& stream) const noexcept {
    return space_ == Space::device && !is_for_graph(stream);
  }
  [[nodiscard]] Block* take_any(std::size_t bytes, detail::StreamSlot& stream) {
    if (space_ == Space::pinned) {
      return source_.take(bytes, stream, rules_.over());
    }
    Block* const block = source_.take_cheapest(bytes, rules_.costs(stream));
    if (note_wait(block, stream)) {
      lending_.note_need(stream);
    }
    return block;
  }
  /// Notes and returns whether the stream has to wait for the block. False if the block is null.
  bool note_wait(Block const* block, detail::StreamSlot& stream) {
    bool const waits = block != nullptr && !rules_.is_followed(*block, stream);
    if (waits) {
      waits_.note();
    }
    return waits;
  }
  /// Takes any block; if needed, first joins free neighbours, and then also takes back all
  /// LentMemory.
  [[nodiscard]] Block* take_any_of_joined(std::size_t bytes, detail::StreamSlot& stream) {
    Block* block = take_any(bytes, stream);
    if (block == nullptr) {
      source_.join_all();
      block = take_any(bytes, stream);
    }
    if (block == nullptr) {
      source_.take_back_and_join_all();
      block = take_any(bytes, stream);
    }
    return block;
  }

  /// Whether the host has time to ask about all free memory, and the answers may help: not if
  /// threads contend for memory.
  [[nodiscard]] bool may_ask_about_all(detail::StreamSlot const& stream) const noexcept {
    return may_move_or_lend(stream) && !source_.is_contended();
  }
  /// Asks the runtime about the newest use of free memory by each stream that `stream` does not
  /// follow. The host learns that most memory is complete only by asking, and an answer about a
  /// stream covers all memory that the stream used. False if there was nothing to ask, or a call
  /// has just asked.
  [[nodiscard]] bool ask_about_all(detail::StreamSlot& stream) {
    if (asked_.has_happened(between_asks_.load(std::memory_order_relaxed))) {
      return false;
    }
    asked_.note();
    order::PositionSet newest;
    source_.for_each_free([&](Block const* block) {
      for_each_use(*block, [&](order::Position use) { newest.add(use); });
    });
    bool any = false;
    for (auto const& use : newest) {
      if (rules_.would_wait(stream, use)) {
        rules_.ask_whether_over(use);
        any = true;
      }
    }
    return any;
  }
  /// Notes whether ask_about_all() helped. If not, the device is behind and is asked less often.
  void note_answer(bool is_of_use) noexcept {
    auto const longer = 2 * between_asks_.load(std::memory_order_relaxed);
    between_asks_.store(is_of_use ? kBetweenAsks : std::min(longer, kBetweenVainAsks),
                        std::memory_order_relaxed);
  }
  /// Asks the runtime how far each stream that has used free memory has come, and about its newest
  /// use.
  void ask_what_is_over() {
    order::PositionSet newest;
    source_.for_each_free([&](Block const* block) {
      for_each_use(*block, [&](order::Position use) { newest.add(use); });
    });
    source_.for_each_moved([&](Block const* block) {
      for_each_use(*block, [&](order::Position use) { newest.add(use); });
    });
    std::for_each(newest.begin(), newest.end(), [this](order::Position use) {
      rules_.look_how_far(use);
      rules_.ask_whether_over(use);
    });
  }
  /// Returns the reserved bytes up to which fresh memory is taken before any stream waits.
  [[nodiscard]] std::size_t soft_limit(std::size_t wanted, std::size_t percent) const noexcept {
    return soft_limit_bytes_ != 0 ? soft_limit_bytes_ : with_spare(wanted, percent) + growth_bytes_;
  }
  /// Returns the reserved bytes up to which fresh memory is taken if a wait would be long or
  /// threads contend for memory: half above the memory in use by the program and by work in flight.
  /// Idle memory, in pieces or in the LentMemory of another group, is used before the pool grows
  /// further.
  [[nodiscard]] std::size_t higher_soft_limit(std::size_t wanted, std::size_t percent) {
    auto const& capacity = source_.capacity();
    auto const part = source_.is_contended() ? kNegligiblePartOfMany : kNegligiblePart;
    auto const least = with_spare(wanted, source_.is_contended() ? kSpareOfNeedPercent : percent);
    auto const most = std::max(least, capacity.limit_bytes() / part);
    if (capacity.reserved_bytes() + wanted <= least || capacity.reserved_bytes() >= most) {
      return least + growth_bytes_;
    }
    auto const needed = needed_bytes() + wanted;
    auto const by_need = needed + needed / 100 * kSpareOfNeedPercent;
    return std::min(std::max(least, by_need) + growth_bytes_, most);
  }
  /// Returns the bytes in use by the program or by work in flight. They are counted again when the
  /// pool has grown, or after a while, by one thread at a time; the others use the last count.
  /// Counting looks at all free blocks, for a bounded part of the time however many there are.
  [[nodiscard]] std::size_t needed_bytes() {
    auto const growths = source_.growths();
    bool const is_due = growths_at_count_.load(std::memory_order_relaxed) != growths ||
                        !counted_.has_happened(between_counts_.load(std::memory_order_relaxed));
    std::unique_lock counting(counting_, std::defer_lock);
    if (is_due && counting.try_lock()) {
      auto const begin = std::chrono::steady_clock::now();
      // Without an answer of the runtime, complete uses of free blocks would count as work in
      // flight, and the pool would grow by them again and again.
      ask_what_is_over();
      std::size_t in_flight = pending_bytes();
      caches_.for_each([&](StreamCache const& cache) {
        cache.for_each_cached([&](Block const& block) {
          in_flight += rules_.is_known_to_be_over(block) ? 0 : block.bytes;
        });
      });
      in_flight_bytes_.store(in_flight, std::memory_order_relaxed);
      growths_at_count_.store(growths, std::memory_order_relaxed);
      counted_.note();
      auto const taken = std::chrono::steady_clock::now() - begin;
      between_counts_.store(
          std::max<std::chrono::nanoseconds>(kBetweenCounts, kPartOfTimeToCount * taken),
          std::memory_order_relaxed);
    }
    return live_.now() + in_flight_bytes_.load(std::memory_order_relaxed);
  }
  /// Returns the peak of memory in use, counting `wanted`, plus `percent`.
  [[nodiscard]] std::size_t with_spare(std::size_t wanted, std::size_t percent) const noexcept {
    auto const most = std::max(live_.peak(), live_.now() + wanted);
    return most + most / 100 * percent;
  }
  /// Returns how far the device is behind, on the stream or on one whose block it would wait for.
  [[nodiscard]] std::chrono::nanoseconds lag_of_wait(std::size_t bytes,
                                                     detail::StreamSlot& stream) {
    auto const uses = source_.uses_of_cheapest(bytes, rules_.costs(stream));
    auto longest = rules_.lag(stream);
    for (auto const& use : uses) {
      if (longest <= kVeryLongWait) {
        longest = std::max(longest, rules_.lag_behind(stream, use));
      }
    }
    return longest;
  }

  Space space_;
  std::size_t growth_bytes_;
  std::size_t soft_limit_bytes_;
  StreamCaches const& caches_;
  LiveBytes const& live_;
  ReuseRules rules_;
  BlockSource source_;
  Lending lending_;
  Lately waits_;  ///< the last wait for free memory that another stream uses
  Lately counted_;
  std::atomic<std::chrono::nanoseconds> between_counts_{kBetweenCounts};
  Lately asked_;
  std::atomic<std::chrono::microseconds> between_asks_{kBetweenAsks};
  std::atomic<std::uint64_t> growths_at_count_{0};
  std::atomic<std::size_t> in_flight_bytes_{0};
  std::mutex counting_;  ///< held by the thread that counts
};

}  // namespace msstream::memory
