// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/statistics.hpp>
#include <msstream/order/position.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Sums the bytes in use by name scope and stream.
class MemoryUseByScope {
 public:
  void add(std::string const& scope, std::string const& stream, std::size_t bytes) {
    auto const same = std::find_if(uses_.begin(), uses_.end(), [&](ScopeMemory const& use) {
      return use.scope == scope && use.stream == stream;
    });
    auto& use = same != uses_.end() ? *same : uses_.emplace_back(ScopeMemory{scope, stream, 0, 0});
    use.bytes += bytes;
    ++use.blocks;
  }
  /// Returns the bytes in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> sorted() && {
    std::sort(uses_.begin(), uses_.end(), [](ScopeMemory const& a, ScopeMemory const& b) {
      return std::tie(b.bytes, a.scope, a.stream) < std::tie(a.bytes, b.scope, b.stream);
    });
    return std::move(uses_);
  }

 private:
  std::vector<ScopeMemory> uses_;
};

/// Sums the bytes in use, and the allocation counts, by stream.
class MemoryUseByStream {
 public:
  void add(order::StreamIndex index,
           std::string const& name,
           detail::AllocationCounts const& counts,
           std::size_t live_bytes) {
    auto& use = uses_[index];
    use.stream = name;
    use += counts;
    use.live_bytes += live_bytes;
  }
  /// Returns the memory in use and the counts by stream, the oldest stream first.
  [[nodiscard]] std::vector<StreamMemory> sorted() && {
    std::vector<StreamMemory> sorted;
    for (auto& [index, use] : uses_) {
      sorted.push_back(std::move(use));
    }
    return sorted;
  }

 private:
  std::map<order::StreamIndex, StreamMemory> uses_;
};

}  // namespace msstream::memory
