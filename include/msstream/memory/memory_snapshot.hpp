// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/memory_history.hpp>
#include <msstream/memory/statistics.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

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
