// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/statistics.hpp>
#include <msstream/order/position.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// A change of an allocator's memory, or a refused request.
struct MemoryEvent {
  enum class Kind : std::uint8_t {
    take,       ///< a block was allocated
    give_back,  ///< a block was freed
    grow,       ///< memory was taken from the runtime
    release,    ///< memory was released to the runtime
    move,       ///< free memory was moved to another address
    refuse      ///< OutOfMemory was thrown; the event has no address
  };
  std::int64_t nanoseconds = 0;  ///< the time since the recording began
  Kind kind = Kind::take;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  order::StreamIndex stream = 0;             ///< the stream of take and give_back
  std::shared_ptr<std::string const> scope;  ///< of take and refuse; null outside all scopes
  bool waits = false;  ///< of take: the first operation waits for the last uses
};
/// Returns the name of a kind: "take", "give back" and so on.
[[nodiscard]] std::string_view name_of(MemoryEvent::Kind kind) noexcept;

/// A range of an allocator's memory.
struct MemoryRange {
  enum class State : std::uint8_t {
    in_use,
    cached,  ///< free, for blocks of its size on the stream that used it
    free     ///< free, for any block that fits
  };
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  State state = State::free;
  std::string scope;   ///< the name scope of the allocation, if it is in use
  std::string stream;  ///< the stream that uses or caches it
};
[[nodiscard]] std::string_view name_of(MemoryRange::State state) noexcept;

/// The memory of an allocator, range by range, and its recorded events.
struct MemorySnapshot {
  MemoryStatistics statistics;
  std::vector<MemoryRange> ranges;   ///< all ranges, ordered by address
  std::vector<MemoryEvent> events;   ///< recorded events, ordered by time
  std::vector<std::string> streams;  ///< the names of the events' streams, by index
  std::vector<StreamMemory> by_stream;

  /// Returns the JSON text that `tools/msstream-memory` draws. docs/memory.md describes its fields.
  [[nodiscard]] std::string json() const;
};

}  // namespace msstream
