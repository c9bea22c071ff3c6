// SPDX-License-Identifier: Apache-2.0
#include "memory/large/large_allocator.hpp"

#include "base/mechanism.hpp"
#include "memory/blocks/block_uses.hpp"
#include "memory/small/rivalry.hpp"

#include <algorithm>
#include <utility>

namespace msstream::memory {
namespace {

/// The percentages above the peak of memory in use up to which a pool takes fresh memory:
/// kSpareUnaskedPercent before it queries the runtime which uses of free memory are complete,
/// kSpareAskedPercent before a stream waits for free memory, kSparePercent if no free block is
/// large enough. Threads that do not query the runtime use kSparePercent from the start.
constexpr std::size_t kSpareUnaskedPercent = 15;
constexpr std::size_t kSpareAskedPercent = 27;
constexpr std::size_t kSparePercent = 34;
/// The percentage above the bytes in use by the program and by work in flight up to which a pool
/// takes fresh memory if a wait would be long or threads contend for memory.
constexpr std::size_t kSpareOfNeedPercent = 50;
/// The divisors of the hard limit that bound the fresh memory taken because of work in flight:
/// kNegligiblePartOfMany if threads contend for memory, otherwise kNegligiblePart.
constexpr std::size_t kNegligiblePart = 64;
constexpr std::size_t kNegligiblePartOfMany = 32;
constexpr std::chrono::milliseconds kBetweenCounts{1};
constexpr int kPartOfTimeToCount = 50;
/// The age of the oldest incomplete work on the device from which waiting for it counts as long
/// (kLongWait) or very long (kVeryLongWait).
constexpr std::chrono::milliseconds kLongWait{1};
constexpr std::chrono::milliseconds kVeryLongWait{10};
constexpr std::chrono::microseconds kBetweenAsks{100};
constexpr std::chrono::microseconds kBetweenVainAsks{1600};

}  // namespace

LargeAllocator::LargeAllocator(std::shared_ptr<detail::StreamContext> context,
                               Space space,
                               std::shared_ptr<Capacity> capacity,
                               std::size_t growth_bytes,
                               std::size_t soft_limit_bytes,
                               StreamCaches const& caches,
                               std::shared_ptr<MemoryHistory> history,
                               std::size_t keep_bytes)
    : space_(space),
      growth_bytes_(growth_bytes),
      soft_limit_bytes_(soft_limit_bytes),
      caches_(caches),
      live_(caches.live()),
      rules_(context->tracker, space),
      shares_(backing_, rules_, live_, growth_bytes),
      backing_(std::move(context),
               space,
               std::move(capacity),
               growth_bytes,
               std::move(history),
               keep_bytes),
      between_counts_(kBetweenCounts),
      between_asks_(kBetweenAsks) {}

Block* LargeAllocator::take_ready(LargeRequest& request) {
  if (!request.is_slab && may_move_or_lend(request.stream)) {
    shares_.lend_if_contended(request.stream, request.hands);
  }
  Block* const block = take_without_wait(request);
  return block != nullptr
             ? block
             : take_after(request, [this](order::Position use) { rules_.look_how_far(use); });
}

Block* LargeAllocator::grow_to_soft_limit(LargeRequest& request) {
  auto& stream = request.stream;
  request.asks = may_move_or_lend(stream) && !shares_.is_contended();
  auto const spare = request.asks ? kSpareUnaskedPercent : kSparePercent;
  return grow(request.bytes,
              stream,
              soft_limit(request.wanted, spare),
              rules_.ready_for(stream),
              from(request));
}

Block* LargeAllocator::take_after_asking(LargeRequest& request) {
  auto& stream = request.stream;
  Block* block = take_after(request, [this](order::Position use) { rules_.ask_whether_over(use); });
  if (block == nullptr && request.asks && ask_about_all(stream)) {
    // First looks for a block that is large enough by itself, and only then joins neighbours: a
    // block joined with memory that is still in use could be taken only with a wait.
    block = take_without_wait(request);
    if (block == nullptr) {
      arena().join_what_is_over();
      block = take_without_wait(request);
    }
    note_answer(block != nullptr);
  }
  if (block == nullptr && request.asks && soft_limit_bytes_ == 0) {
    block = grow(request.bytes,
                 stream,
                 soft_limit(request.wanted, kSpareAskedPercent),
                 rules_.ready_for(stream),
                 from(request));
  }
  return block;
}

Block* LargeAllocator::grow_instead_of_long_wait(LargeRequest& request) {
  request.lags = false;
  if (soft_limit_bytes_ != 0) {
    return nullptr;
  }
  auto& stream = request.stream;
  bool const is_contended = shares_.is_contended();
  auto const lag = is_contended ? std::chrono::nanoseconds{} : lag_of_wait(request.bytes, stream);
  request.lags = lag > kLongWait;
  if (!is_contended && !request.lags) {
    return nullptr;
  }
  auto const spare = request.asks && lag <= kVeryLongWait ? kSpareAskedPercent : kSparePercent;
  return grow(request.bytes,
              stream,
              higher_soft_limit(request.wanted, spare),
              rules_.ready_for(stream),
              from(request));
}

Block* LargeAllocator::take_from_shares(LargeRequest& request) {
  auto& stream = request.stream;
  auto const ready = rules_.ready_for(stream);
  if (request.is_slab) {
    Block* const block = take(request.bytes, stream, ready);
    return block != nullptr || space_ == Space::pinned ? block
                                                       : shares_.take_of_any(request.bytes, ready);
  }
  bool const may_use_shares = may_move_or_lend(stream);
  Block* block =
      may_use_shares ? shares_.take_in_need(request.bytes, stream, request.hands) : nullptr;
  note_wait(block, stream);
  if (block == nullptr) {
    block = shares_.take_of_any(request.bytes, ready);
  }
  if (block == nullptr && may_use_shares && request.lags) {
    auto const followed = rules_.followed_by(stream);
    block = backing_.try_gather(request.bytes, rules_.over(), followed, followed);
  }
  return block;
}

Block* LargeAllocator::take_any(LargeRequest& request) {
  if (space_ == Space::pinned) {
    return take(request.bytes, request.stream, rules_.over());
  }
  Block* const block = arena().take_cheapest(request.bytes, rules_.costs(request.stream));
  if (note_wait(block, request.stream)) {
    shares_.note_need(request.stream);
  }
  return block;
}

Block* LargeAllocator::take_joined(LargeRequest& request) {
  Block* const block = take_any_after_joins(request);
  return block != nullptr ? block
                          : grow_if_usable(request, with_spare(request.bytes, kSparePercent));
}

Block* LargeAllocator::take_after_slabs(LargeRequest& request) {
  if (!request.return_slabs()) {
    return nullptr;
  }
  Block* const block = take_any(request);
  return block != nullptr ? block : take_any_after_joins(request);
}

Block* LargeAllocator::take_gathered(LargeRequest& request) {
  auto const over = rules_.over();
  Block* block = nullptr;
  if (!is_for_graph(request.stream)) {
    ask_what_is_over();
    block = backing_.gather(request.bytes, over, over, over);
  }
  if (block == nullptr && may_move_or_lend(request.stream)) {
    block = backing_.gather(
        request.bytes, over, rules_.followed_by(request.stream), [this](Block const& free) {
          return is_usable(free);
        });
  }
  return block;
}

Block* LargeAllocator::grow_to_hard_limit(LargeRequest& request) {
  auto const limit = backing_.capacity().limit_bytes();
  Block* block = grow_if_usable(request, limit);
  if (block == nullptr && !is_for_graph(request.stream)) {
    // Releases free pieces that are too small, to make room for a larger one: pieces of memory from
    // the runtime cannot be joined.
    backing_.trim(0, rules_.over(), [this] { shares_.take_back(); });
    block = grow_if_usable(request, limit);
  }
  return block;
}

Block* LargeAllocator::take_for_rival(LargeRequest const& request) {
  auto const ready = rules_.ready_for(request.stream);
  auto const limit = soft_limit_bytes_ != 0
                         ? soft_limit_bytes_
                         : higher_soft_limit(request.wanted, kSparePercent) +
                               PartForRivals::most(backing_.capacity().limit_bytes());
  Block* const block = take(request.bytes, request.stream, ready, from(request));
  return block != nullptr ? block
                          : grow(request.bytes, request.stream, limit, ready, from(request));
}

void LargeAllocator::return_to_runtime(std::size_t bytes) {
  ask_what_is_over();
  backing_.trim(
      bytes,
      [this](Block const& block) {
        return rules_.is_known_to_be_over(block) ||
               !detail::works(detail::Mechanism::release_after_uses);
      },
      [this] { shares_.take_back(); });
}

std::size_t LargeAllocator::pending_bytes() const {
  std::size_t pending = 0;
  for_each_free([&](Block const* block) {
    pending += rules_.is_known_to_be_over(*block) ? 0 : block->bytes;
  });
  return pending;
}

std::size_t LargeAllocator::idle_bytes() const {
  std::size_t idle = 0;
  for_each_free(
      [&](Block const* block) { idle += rules_.is_known_to_be_over(*block) ? block->bytes : 0; });
  return idle;
}

/// Returns From::common for a slab, so that the groups' shares stay whole as long as there is other
/// memory.
LargeAllocator::From LargeAllocator::from(LargeRequest const& request) noexcept {
  return request.is_slab ? From::common : From::own_share_first;
}

Block* LargeAllocator::take_without_wait(LargeRequest const& request) {
  return take(request.bytes, request.stream, rules_.ready_for(request.stream), from(request));
}

/// Finds the free block that costs the stream least, and calls `ask(use)` for each of its uses,
/// which queries the runtime. Then joins blocks whose uses are complete, and takes a block that
/// needs no wait. Returns null if the block has no uses, or there is none.
template <class Ask>
Block* LargeAllocator::take_after(LargeRequest const& request, Ask const& ask) {
  auto const uses = arena().uses_of_cheapest(request.bytes, rules_.costs(request.stream));
  if (uses.empty()) {
    return nullptr;
  }
  std::for_each(uses.begin(), uses.end(), ask);
  arena().join_what_is_over();
  return take_without_wait(request);
}

/// Joins all free neighbours and takes any block of the arena. If there is none, takes back all
/// shares and tries again.
Block* LargeAllocator::take_any_after_joins(LargeRequest& request) {
  arena().join_all();
  if (Block* const block = take_any(request)) {
    return block;
  }
  take_back_and_join_all();
  return take_any(request);
}

/// Takes fresh memory, together with the free block before it if the space permits its use.
Block* LargeAllocator::grow_if_usable(LargeRequest const& request, std::size_t limit_bytes) {
  return grow(request.bytes, request.stream, limit_bytes, [this](Block const& free) {
    return is_usable(free);
  });
}

/// Notes and returns whether the stream has to wait for the block. Returns false if the block is
/// null.
bool LargeAllocator::note_wait(Block const* block, detail::StreamSlot& stream) {
  bool const waits = block != nullptr && !rules_.is_followed(*block, stream);
  if (waits) {
    waits_.note();
  }
  return waits;
}

/// Returns whether a stream may use the free block, possibly after a wait on the device. Pinned
/// memory must be complete.
bool LargeAllocator::is_usable(Block const& free) const {
  return space_ == Space::device || rules_.is_known_to_be_over(free);
}

/// Returns whether the memory is for a captured graph. Its free memory cannot be moved or released,
/// even if all noted uses are complete: the graph, and graphs that share the memory, use the same
/// addresses at the next launch.
bool LargeAllocator::is_for_graph(detail::StreamSlot const& stream) const noexcept {
  return space_ == Space::device && stream.capture.load(std::memory_order_relaxed) != nullptr;
}

bool LargeAllocator::may_move_or_lend(detail::StreamSlot const& stream) const noexcept {
  return space_ == Space::device && !is_for_graph(stream);
}

/// Queries the runtime about the newest use of free memory by each stream that `stream` is not
/// ordered after yet. The answer about a stream covers all memory that the stream has used. Returns
/// false if there was nothing to query, or another call has just queried.
bool LargeAllocator::ask_about_all(detail::StreamSlot& stream) {
  if (asked_.has_happened(between_asks_.load(std::memory_order_relaxed))) {
    return false;
  }
  asked_.note();
  order::PositionSet newest;
  for_each_free([&](Block const* block) {
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

/// Notes whether the queries of ask_about_all() made memory usable. If not, the device is behind,
/// and the next query comes later.
void LargeAllocator::note_answer(bool is_of_use) noexcept {
  auto const longer = 2 * between_asks_.load(std::memory_order_relaxed);
  between_asks_.store(is_of_use ? kBetweenAsks : std::min(longer, kBetweenVainAsks),
                      std::memory_order_relaxed);
}

/// Queries the runtime for the progress of each stream that has used free memory, and whether its
/// newest use is complete.
void LargeAllocator::ask_what_is_over() {
  order::PositionSet newest;
  auto const add_uses = [&](Block const* block) {
    for_each_use(*block, [&](order::Position use) { newest.add(use); });
  };
  for_each_free(add_uses);
  backing_.for_each_moved(add_uses);
  std::for_each(newest.begin(), newest.end(), [this](order::Position use) {
    rules_.look_how_far(use);
    rules_.ask_whether_over(use);
  });
}

/// Returns the number of reserved bytes up to which fresh memory is taken before any stream waits.
std::size_t LargeAllocator::soft_limit(std::size_t wanted, std::size_t percent) const noexcept {
  return soft_limit_bytes_ != 0 ? soft_limit_bytes_ : with_spare(wanted, percent) + growth_bytes_;
}

/// Returns the number of reserved bytes up to which fresh memory is taken if a wait would be long
/// or threads contend for memory: half more than the bytes in use by the program and by work in
/// flight. Idle memory, in pieces or in the share of another group, is used before the pool grows
/// further.
std::size_t LargeAllocator::higher_soft_limit(std::size_t wanted, std::size_t percent) {
  auto const& capacity = backing_.capacity();
  auto const part = shares_.is_contended() ? kNegligiblePartOfMany : kNegligiblePart;
  auto const least = with_spare(wanted, shares_.is_contended() ? kSpareOfNeedPercent : percent);
  auto const most = std::max(least, capacity.limit_bytes() / part);
  if (capacity.reserved_bytes() + wanted <= least || capacity.reserved_bytes() >= most) {
    return least + growth_bytes_;
  }
  auto const needed = needed_bytes() + wanted;
  auto const by_need = needed + needed / 100 * kSpareOfNeedPercent;
  return std::min(std::max(least, by_need) + growth_bytes_, most);
}

/// Returns the bytes in use by the program and by work in flight. They are counted again when the
/// pool has grown, or after a while, by one thread at a time; other threads use the last count.
/// Counting visits all free blocks, and takes at most 1/50 of the time.
std::size_t LargeAllocator::needed_bytes() {
  auto const growths = backing_.growths();
  bool const is_due = growths_at_count_.load(std::memory_order_relaxed) != growths ||
                      !counted_.has_happened(between_counts_.load(std::memory_order_relaxed));
  std::unique_lock counting(counting_, std::defer_lock);
  if (is_due && counting.try_lock()) {
    auto const begin = std::chrono::steady_clock::now();
    // Queries the runtime first: otherwise complete uses of free blocks would count as work in
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

/// Returns the peak of memory in use, including `wanted` more bytes, raised by `percent` percent.
std::size_t LargeAllocator::with_spare(std::size_t wanted, std::size_t percent) const noexcept {
  auto const most = std::max(live_.peak(), live_.now() + wanted);
  return most + most / 100 * percent;
}

/// Returns how far the device is behind the host: on the stream, or on a stream whose block it
/// would wait for, whichever is more. Stops looking above kVeryLongWait.
std::chrono::nanoseconds LargeAllocator::lag_of_wait(std::size_t bytes,
                                                     detail::StreamSlot& stream) {
  auto const uses = arena().uses_of_cheapest(bytes, rules_.costs(stream));
  auto longest = rules_.lag(stream);
  for (auto const& use : uses) {
    if (longest <= kVeryLongWait) {
      longest = std::max(longest, rules_.lag_behind(stream, use));
    }
  }
  return longest;
}

}  // namespace msstream::memory
