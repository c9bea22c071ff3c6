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

/// A piece of an allocator's memory.
struct MemoryRange {
  enum class State : std::uint8_t {
    in_use,
    cached,  ///< free, for blocks of its size on the stream that had it
    free     ///< for any block that fits
  };
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  State state = State::free;
  std::string scope;   ///< where it was allocated, if it is in use
  std::string stream;  ///< of whom it is in use or cached
};
[[nodiscard]] std::string_view name_of(MemoryRange::State state) noexcept;

/// What an allocator has, range by range, and what happened to it as far as that was recorded.
struct MemorySnapshot {
  MemoryStatistics statistics;
  std::vector<MemoryRange> ranges;   ///< by address
  std::vector<MemoryEvent> events;   ///< by time
  std::vector<std::string> streams;  ///< names of those that events speak of, by index
  std::vector<StreamMemory> by_stream;

  /// For `tools/msstream-memory`, which draws it. docs/memory.md has the fields.
  [[nodiscard]] std::string json() const;
};

}  // namespace msstream
