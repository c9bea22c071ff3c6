// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>
#include <msstream/order/position.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

namespace detail {

/// Counts of allocations by kind. A reuse of memory that waits for no earlier use costs the device
/// nothing.
struct AllocationCounts {
  std::uint64_t allocations = 0;
  std::uint64_t reuses = 0;  ///< allocations of memory that work has used before
  std::uint64_t steals = 0;  ///< reuses of memory that another stream used last
  /// Reuses of memory whose last uses may still run; the first operation on the memory waits for
  /// them.
  std::uint64_t waiting_reuses = 0;

  AllocationCounts& operator+=(AllocationCounts const& other) noexcept {
    allocations += other.allocations;
    reuses += other.reuses;
    steals += other.steals;
    waiting_reuses += other.waiting_reuses;
    return *this;
  }
};

}  // namespace detail

/// The memory that an allocator holds, and the counts of its allocations.
struct MemoryStatistics : detail::AllocationCounts {
  std::size_t live_bytes = 0;           ///< the bytes of blocks in use, including rounding
  std::size_t peak_live_bytes = 0;      ///< the largest live_bytes so far
  std::size_t reserved_bytes = 0;       ///< bytes taken from the runtime
  std::size_t peak_reserved_bytes = 0;  ///< the largest reserved_bytes so far
  std::size_t limit_bytes = 0;          ///< the most bytes that may be reserved
  std::uint64_t growths = 0;            ///< calls to the runtime for more memory
  /// The number of bytes that may be reserved but free: of pinned memory when more is taken from
  /// the runtime (AllocatorOptions::pinned_keep_bytes), of device memory after the host has waited
  /// for the device (AllocatorOptions::keep_bytes).
  std::size_t cache_limit_bytes = 0;

  /// Adds the statistics of another pool. The peaks are added, too, although they may be of
  /// different times, so the sum is an upper bound.
  MemoryStatistics& operator+=(MemoryStatistics const& other) noexcept {
    AllocationCounts::operator+=(other);
    live_bytes += other.live_bytes;
    peak_live_bytes += other.peak_live_bytes;
    reserved_bytes += other.reserved_bytes;
    peak_reserved_bytes += other.peak_reserved_bytes;
    limit_bytes += other.limit_bytes;
    growths += other.growths;
    cache_limit_bytes += other.cache_limit_bytes;
    return *this;
  }
};

/// Returns all of it in a line.
[[nodiscard]] std::string to_string(MemoryStatistics const& statistics);

/// The memory that one stream has in use, and the counts of its allocations.
struct StreamMemory : detail::AllocationCounts {
  std::string stream;          ///< such as "group 2 compute"
  std::size_t live_bytes = 0;  ///< of blocks that its group has in use on it
};

/// The memory in use in blocks that were allocated in one name scope for one stream.
struct ScopeMemory {
  std::string scope;       ///< such as "model/tower"; empty outside all scopes
  std::string stream;      ///< such as "group 2 compute"
  std::size_t bytes = 0;   ///< of the blocks, including rounding
  std::size_t blocks = 0;  ///< their number
};

/// The memory of an allocator, range by range, and its recorded events.
struct MemorySnapshot {
  /// A recorded change of the allocator's memory, or a request that was refused.
  struct Event {
    /// The change, or the refusal, that was recorded.
    enum class Kind : std::uint8_t {
      take,       ///< a block was allocated
      give_back,  ///< a block was freed
      grow,       ///< memory was taken from the runtime
      release,    ///< memory was released to the runtime
      move,       ///< free memory was moved to another address
      refuse      ///< OutOfMemory was thrown; the event has no address
    };
    std::int64_t nanoseconds = 0;              ///< the time since the recording began
    Kind kind = Kind::take;                    ///< what happened
    std::uintptr_t address = 0;                ///< of the first byte
    std::size_t bytes = 0;                     ///< of the block, or of the refused request
    order::StreamIndex stream = 0;             ///< the stream of take and give_back
    std::shared_ptr<std::string const> scope;  ///< of take and refuse; null outside all scopes
    bool waits = false;  ///< of take: the first operation waits for the last uses
  };

  /// A range of the allocator's memory, and its state.
  struct Range {
    /// The use of the range, which says for which blocks it is free.
    enum class State : std::uint8_t {
      in_use,
      cached,  ///< free, for blocks of its size on the stream that used it
      free     ///< free, for any block that fits
    };
    std::uintptr_t address = 0;  ///< of the first byte
    std::size_t bytes = 0;       ///< of the range
    State state = State::free;   ///< in use, cached or free
    std::string scope;           ///< the name scope of the allocation, if it is in use
    std::string stream;          ///< the stream that uses or caches it
  };

  MemoryStatistics statistics;          ///< at the time of the snapshot
  std::vector<Range> ranges;            ///< all ranges, ordered by address
  std::vector<Event> events;            ///< recorded events, ordered by time
  std::vector<std::string> streams;     ///< the names of the events' streams, by index
  std::vector<StreamMemory> by_stream;  ///< the memory in use, stream by stream

  /// Returns the JSON text that `tools/msstream-memory` draws. docs/memory.md describes its fields.
  [[nodiscard]] std::string json() const;
};
/// Returns the name of a kind of recorded event: "take", "give back" and so on.
[[nodiscard]] std::string_view name_of(MemorySnapshot::Event::Kind kind) noexcept;
[[nodiscard]] std::string_view name_of(MemorySnapshot::Range::State state) noexcept;

}  // namespace msstream
