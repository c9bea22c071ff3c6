// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream {

/// What blocks that were allocated in one name scope for one stream have in use together.
struct ScopeMemory {
  std::string scope;   ///< "model/tower"; empty outside all scopes
  std::string stream;  ///< "group 2 compute"
  std::size_t bytes = 0;
  std::size_t blocks = 0;
};

namespace memory {

/// Adds up, by scope and stream.
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
  /// The largest first.
  [[nodiscard]] std::vector<ScopeMemory> sorted() && {
    std::sort(uses_.begin(), uses_.end(), [](ScopeMemory const& a, ScopeMemory const& b) {
      return std::tie(b.bytes, a.scope, a.stream) < std::tie(a.bytes, b.scope, b.stream);
    });
    return std::move(uses_);
  }

 private:
  std::vector<ScopeMemory> uses_;
};

}  // namespace memory
}  // namespace msstream
